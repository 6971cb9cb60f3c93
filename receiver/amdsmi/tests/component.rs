//! The component with a real thread and a real library: a driver that answers, is missing or hangs.

#![allow(clippy::unwrap_used, reason = "a panic in a test is its report")]

mod common;

use std::time::Duration;

use common::*;
use component::status::ComponentStatus;
use pdata::Signal;

#[tokio::test]
async fn devices_are_polled_until_the_stop() {
    let machine = machine_of(&format!("{WHOLE}200ms gpu0 notification 3\n"));
    let mut bench = Bench::start(&amdsmi::FACTORY, machine.control.path().to_str().unwrap()).await;
    let points = bench.points().await;
    assert_eq!(
        points["hw.temperature{hw.id=2cff74a1-0000-1000-80f1-000000000000,hw.name=GPU 0,hw.sensor_location=hotspot} Cel"],
        71.0
    );
    assert_eq!(bench.status(), Some(ComponentStatus::Ok));
    let mut bodies = Vec::new();
    while !bodies.iter().any(|body: &String| body.contains("is about to be reset")) {
        let data = bench.next(Signal::Logs).await;
        let output = Output { batches: vec![instrumentation::Batch { data, is_repeated: false }] };
        bodies.extend(log_records(&output).into_iter().map(|(_, body)| body));
    }
    bench.stop.cancel();
    bench.running.await;
}

#[tokio::test]
async fn driver_installed_later_is_found() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("libamd_smi.so.26");
    let mut bench = Bench::start(&amdsmi::FACTORY, path.to_str().unwrap()).await;
    let absent = ComponentStatus::RecoverableError("no GPU driver: library_not_found".to_owned());
    while bench.status().as_ref() != Some(&absent) {
        tokio::task::yield_now().await;
    }
    let control = simulator::DriverControl::amdsmi(folder.path()).unwrap();
    assert!(control.set_script(WHOLE));
    while !bench.points().await.keys().any(|key| key.contains("2cff74a1")) {}
    assert_eq!(bench.status(), Some(ComponentStatus::Ok));
    bench.stop.cancel();
    bench.running.await;
}

#[tokio::test]
async fn hanging_driver_does_not_block_the_stop() {
    let machine = machine_of("0s gpu0 uuid slow 9h a1");
    let bench = Bench::start(&amdsmi::FACTORY, machine.control.path().to_str().unwrap()).await;
    while machine.control.calls() == 0 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    bench.stop.cancel();
    bench.running.await;
    // The call continues in the library, which must not be unloaded meanwhile.
    std::mem::forget(machine);
}
