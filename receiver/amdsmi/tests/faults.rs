//! Faults of drivers: each is logged once, and so is its end; the other devices and queries continue.

#![allow(clippy::unwrap_used, reason = "a panic in a test is its report")]

mod common;

use common::*;
use hardware::{Driver as _, Fault};

fn check(lines: &str, want: &[&[(&str, &str)]]) {
    machine_of(&format!("{WHOLE}{lines}")).check_story(want);
}

#[test]
fn lost_device_and_its_recovery_are_logged_once() {
    check(
        "10s gpu0 * IO\n40s gpu0 * answers",
        &[
            &[],
            &[("device.lost", "GPU 0 is lost: io")],
            &[],
            &[],
            &[("device.recovered", "GPU 0 answers again")],
            &[],
        ],
    );
}

#[test]
fn failing_query_and_its_recovery_are_logged_once() {
    check(
        "10s gpu0 energy BUSY\n20s gpu0 energy TIMEOUT\n30s gpu0 energy 1000000",
        &[
            &[],
            &[("query.failed", "GPU 0: query energy failed: busy")],
            &[],
            &[("query.recovered", "GPU 0: query energy works again")],
        ],
    );
}

#[test]
fn failing_metrics_leave_the_other_queries() {
    let script = format!("{WHOLE}10s gpu0 metrics FILE_ERROR\n");
    let found = points(&machine_of(&script).polls([0, 10])[1]);
    assert!(found.keys().all(|key| !key.starts_with("hw.power") && !key.contains("throttle")), "{found:#?}");
    assert!(found.keys().any(|key| key.starts_with("hw.gpu.memory.usage")));
    assert!(found["gpu.hardware.query.failures{error.type=file} {query}"] > 10.0);
}

#[test]
fn unsupported_queries_are_logged_with_the_discovery_only() {
    let bare = "0s gpu0 uuid a1\n0s gpu0 name Radeon\n0s gpu0 temperature.hotspot 40\n10s gpu0 temperature.hotspot 41\n";
    let found = machine_of(bare).story([0, 10, 20]);
    assert_eq!(found[0].len(), 1);
    let body = &found[0][0].1;
    assert!(body.starts_with("GPU 0 is Radeon; unsupported queries: clock.graphics, "), "{body}");
    // Queries of other vendors only are not listed as unsupported.
    assert!(!body.contains("nvlink") && !body.contains("hw_power_brake"), "{body}");
    assert_eq!(found[1..], [vec![], vec![]]);
}

#[test]
fn notifications_are_logged_and_errors_are_counted() {
    let lines = "10s gpu0 notification 1\n20s gpu0 notification 2\n29s gpu0 notification 3\n30s gpu0 notification 4\n35s gpu0 notification 9\n";
    let message = "event of the stub";
    let body = |text: &str| format!("GPU 0 {text}: {message}");
    let found = [
        body("reports a memory fault of a program"),
        body("slows down because it is too hot"),
        body("is about to be reset"),
        body("was reset"),
    ];
    check(
        lines,
        &[
            &[],
            &[("notification", &found[0])],
            &[("notification", &found[1])],
            &[("notification", &found[2]), ("notification", &found[3])],
            &[],
        ],
    );
    let found = points(machine_of(&format!("{WHOLE}{lines}")).polls([0, 10, 20, 30, 40]).last().unwrap());
    let count = |kind: &str| {
        let of = |(key, _): &(&String, &f64)| key.contains(&format!("error.type={kind},"));
        found.iter().filter(of).map(|(_, count)| *count).sum::<f64>()
    };
    assert_eq!([count("vm_fault"), count("reset"), count("thermal_throttle")], [1.0, 1.0, 0.0]);
}

#[test]
fn restarted_firmware_time_starts_a_series_without_loss() {
    // Reloaded at 20 s, its counters restart; from then on it throttles for power all the time.
    let lines = "20s gpu0 accumulation 1 +1000/s\n20s gpu0 held.ppt 1 +1000/s\n";
    let outputs = machine_of(&format!("{WHOLE}{lines}")).polls([0, 10, 20, 30]);
    let capped = |output: &Output| {
        let points = points(output);
        let mut capped =
            points.iter().filter(|(key, _)| key.contains("duration") && key.contains("sw_power"));
        *capped.next().unwrap().1
    };
    assert_eq!(outputs.iter().map(capped).collect::<Vec<_>>(), [0.0, 2.5, 2.5, 12.5]);
}

#[test]
fn absent_failing_or_unknown_driver_returns_its_fault() {
    let mut nowhere = amdsmi::AmdsmiLibrary::at("/no/such/library.so");
    assert_eq!(nowhere.open(&mut |_| {}), Err(Fault::Failed("library_not_found")));
    for (line, why) in [
        ("0s driver init DRIVER_NOT_LOADED", "driver_not_loaded"),
        ("0s driver version 24.6.1", "unknown_version"),
        ("0s driver version 28.0.0", "unknown_version"),
    ] {
        let machine = machine_of(line);
        assert_eq!(machine.library().open(&mut |_| {}), Err(Fault::Failed(why)), "{line}");
        // A refused library has been closed.
        assert!(machine.control.set_script(WHOLE));
        assert_eq!(machine.library().open(&mut |_| {}), Ok(()));
    }
    let machine = machine_of("0s driver sockets UNKNOWN_ERROR");
    let mut read = None;
    machine.library().open(&mut |session| read = Some(session.read().map(|r| r.len()))).unwrap();
    assert_eq!(read, Some(Err(Fault::Failed("unknown"))));
}

#[test]
fn reading_clocks_runs_no_other_queries() {
    let machine = machine_of(WHOLE);
    machine.control.set_now(0);
    let opened = machine.library().open(&mut |session| {
        let reading = session.read_clocks(true).unwrap().remove(0);
        assert_eq!(reading.processes.iter().map(|p| p.pid()).collect::<Vec<_>>(), [4_194_303]);
        assert_eq!(reading.identity.pci, "0000:c1:00.0");
        assert_eq!(reading.value(hardware::DriverQuery::Energy), Err(Fault::NotQueried));
    });
    opened.unwrap();
}

#[test]
fn closing_the_library_leaves_it_open_for_other_users() {
    let machine = machine_of(WHOLE);
    let mut count = 0;
    let opened = machine.library().open(&mut |session| {
        assert_eq!(machine.library().open(&mut |other| assert_eq!(other.read().unwrap().len(), 1)), Ok(()));
        count = session.read().unwrap().iter().filter(|reading| reading.lost().is_none()).count();
    });
    assert_eq!((opened, count), (Ok(()), 1));
}
