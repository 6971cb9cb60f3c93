//! Faults of drivers: each is logged once, and so is its end; the other devices and queries continue.

#![allow(clippy::unwrap_used, reason = "a panic in a test is its report")]

mod common;

use std::collections::BTreeMap;

use common::*;
use hardware::{Driver as _, Fault};

fn check(lines: &str, want: &[&[(&str, &str)]]) {
    machine_of(&format!("{WHOLE}{lines}")).check_story(want);
}

#[test]
fn lost_device_and_its_recovery_are_logged_once() {
    check(
        "10s gpu0 * GPU_IS_LOST\n40s gpu0 * answers",
        &[
            &[],
            &[("device.lost", "GPU 0 is lost: gpu_is_lost")],
            &[],
            &[],
            &[("device.recovered", "GPU 0 answers again")],
            &[],
        ],
    );
}

#[test]
fn removed_device_and_its_return_are_logged() {
    check(
        "10s gpu0 present no\n30s gpu0 present yes",
        &[
            &[],
            &[("device.removed", "GPU 0 is no longer listed by its driver")],
            &[],
            &[("device.recovered", "GPU 0 answers again")],
        ],
    );
}

#[test]
fn failing_query_and_its_recovery_are_logged_once() {
    check(
        "10s gpu0 power TIMEOUT\n20s gpu0 power UNKNOWN\n30s gpu0 power 1\n40s gpu0 fan0 UNKNOWN",
        &[
            &[],
            &[("query.failed", "GPU 0: query power failed: timeout")],
            &[],
            &[("query.recovered", "GPU 0: query power works again")],
            &[],
        ],
    );
}

#[test]
fn unsupported_queries_are_logged_with_the_discovery_only() {
    let bare = "0s gpu0 uuid GPU-1\n0s gpu0 name T4\n0s gpu0 temperature 40\n10s gpu0 temperature 41\n";
    let found = machine_of(bare).story([0, 10, 20]);
    assert_eq!(found[0].len(), 1);
    assert!(
        found[0][0].1.starts_with("GPU 0 is T4; unsupported queries: clock.graphics, "),
        "{}",
        found[0][0].1
    );
    assert_eq!(found[1..], [vec![], vec![]]);
    let points = points(&machine_of(bare).polls([10])[0]);
    assert_eq!(points["hw.temperature{hw.id=GPU-1,hw.name=GPU 0,hw.sensor_location=gpu} Cel"], 41.0);
    assert!(points.keys().all(|key| !key.starts_with("hw.power")));
}

#[test]
fn errors_and_xids_are_logged_with_count_and_meaning() {
    check(
        "10s gpu0 ecc.corrected 7\n20s gpu0 ecc.uncorrected 2\n29s gpu0 xid 79\n30s gpu0 xid 31\n40s gpu0 xid 9999",
        &[
            &[],
            &[("errors", "GPU 0 counted 4 more errors: corrected")],
            &[("errors", "GPU 0 counted 1 more errors: uncorrected")],
            &[
                ("xid", "GPU 0 reports XID 79: the GPU has fallen off the bus"),
                ("xid", "GPU 0 reports XID 31: memory page fault"),
            ],
            &[("xid", "GPU 0 reports XID 9999")],
        ],
    );
}

#[test]
fn lost_device_has_only_its_status_and_others_are_complete() {
    let script = format!("{WHOLE}0s gpu1 uuid GPU-6b\n0s gpu1 power 7000\n10s gpu0 * GPU_IS_LOST\n");
    let output = &machine_of(&script).polls([0, 10])[1];
    let points = points(output);
    let of_lost: Vec<(&String, f64)> =
        points.iter().filter(|(key, _)| key.contains("GPU-5a")).map(|(k, v)| (k, *v)).collect();
    assert!(
        of_lost
            .iter()
            .all(|(key, value)| key.starts_with("hw.status") && (*value == 1.0) == key.contains("failed"))
    );
    assert_eq!(of_lost.len(), 4);
    assert_eq!(points["hw.power{hw.id=GPU-6b,hw.name=GPU 1,hw.type=gpu} W"], 7.0);
    assert_eq!(points["gpu.hardware.query.failures{error.type=gpu_is_lost} {query}"], 1.0);
}

#[test]
fn xid_of_a_device_off_the_bus_names_that_device() {
    let script = format!(
        "{WHOLE}0s gpu1 uuid GPU-6b\n0s gpu1 events yes\n15s gpu1 xid 79\n15s gpu1 * GPU_IS_LOST\n25s gpu0 xid 13\n"
    );
    let found = machine_of(&script).story([0, 10, 20, 30]);
    let of =
        |name: &str| (name.to_owned(), "GPU 1 reports XID 79: the GPU has fallen off the bus".to_owned());
    assert!(found[2].contains(&of("xid")), "{found:?}");
    let last = ("xid".to_owned(), "GPU 0 reports XID 13: graphics engine exception".to_owned());
    assert_eq!(found[3], [last]);
}

/// Returns the start time of a series and its value, in seconds.
fn series(output: &Output, metric: &str, with: &str) -> (u64, f64) {
    let resource = output.collections()[0];
    let point =
        numbers(resource, metric).iter().find(|point| written(&point.attributes).contains(with)).unwrap();
    let value = values(resource, metric).into_iter().find(|(key, _)| key.contains(with)).unwrap().1;
    ((point.start_time_unix_nano - UNIX) / SECOND, value)
}

#[test]
fn restarted_counter_starts_a_series_without_loss() {
    let script = format!("{WHOLE}20s gpu0 ecc.corrected 2\n30s gpu0 ecc.corrected 9\n");
    let outputs = machine_of(&script).polls([0, 10, 20, 30]);
    let found: Vec<(u64, f64)> =
        outputs.iter().map(|o| series(o, "hw.errors", "error.type=corrected")).collect();
    // Reloaded between 10 s and 20 s, the driver has counted 2 since: the series starts where the previous one ended.
    assert_eq!(found, [(0, 3.0), (0, 3.0), (10, 2.0), (10, 9.0)]);
    let others: Vec<(u64, f64)> =
        outputs.iter().map(|o| series(o, "hw.errors", "error.type=pcie_replay")).collect();
    assert_eq!(others, [(0, 8.0); 4]);
    let found: Vec<String> =
        outputs.iter().flat_map(log_records).map(|(_, body)| body).filter(|b| b.contains("errors")).collect();
    assert_eq!(found, ["GPU 0 counted 2 more errors: corrected", "GPU 0 counted 7 more errors: corrected"]);
}

#[test]
fn throttled_time_that_the_driver_does_not_count_is_sampled() {
    // Bits: 0x8 hardware slowdown, 0x1 idle, 0x400 an unknown bit.
    let script = "0s gpu0 uuid GPU-1\n0s gpu0 throttle 8\n20s gpu0 throttle 1025\n30s gpu0 throttle 0\n300s gpu0 throttle 8";
    let outputs = machine_of(script).polls([0, 10, 20, 30, 40, 300, 900]);
    let slow: Vec<f64> =
        outputs.iter().map(|o| series(o, "gpu.hardware.throttle.duration", "reason=hw_slowdown").1).collect();
    // Of the ten minutes without a poll, one counts with the state of the poll before.
    assert_eq!(slow, [0.0, 10.0, 20.0, 20.0, 20.0, 20.0, 80.0]);
    let other: Vec<f64> =
        outputs.iter().map(|o| series(o, "gpu.hardware.throttle.duration", "reason=hw,").1).collect();
    assert_eq!(other, [0.0, 0.0, 0.0, 10.0, 10.0, 10.0, 10.0]);
}

#[test]
fn xids_above_the_limit_are_counted_together() {
    let lines: String = (1..=20).map(|n| format!("{n}s gpu0 xid {}\n", 1000 + n)).collect();
    let outputs = machine_of(&format!("{WHOLE}{lines}")).polls([0, 30, 40]);
    let points = points(&outputs[2]);
    let xids: BTreeMap<&String, f64> =
        points.iter().filter(|(key, _)| key.contains("error.type=xid")).map(|(k, v)| (k, *v)).collect();
    assert_eq!((xids.len(), xids.values().sum::<f64>()), (17, 20.0));
    assert_eq!(xids.iter().find(|(key, _)| key.contains("gpu.xid=other")).unwrap().1, &4.0);
}

#[test]
fn absent_or_failing_driver_returns_its_fault() {
    let mut nowhere = nvml::NvmlLibrary { path: "/no/such/library.so".into() };
    assert_eq!(nowhere.open(&mut |_| {}), Err(Fault::Failed("library_not_found")));
    let machine = machine_of("0s driver init DRIVER_NOT_LOADED");
    assert_eq!(machine.library().open(&mut |_| {}), Err(Fault::Failed("driver_not_loaded")));
    let machine = machine_of("0s driver count UNKNOWN");
    let mut read = None;
    machine.library().open(&mut |session| read = Some(session.read().map(|r| r.len()))).unwrap();
    assert_eq!(read, Some(Err(Fault::Failed("unknown"))));
}
