//! What drivers do wrong: each fault is told once, its end is told, nothing of it stops the rest, and nothing is lost.

#![allow(clippy::unwrap_used, reason = "a panic in a test is its report")]

mod common;

use std::collections::BTreeMap;

use common::*;
use hardware::{Driver as _, Fault};

fn check(lines: &str, want: &[&[(&str, &str)]]) {
    machine_of(&format!("{WHOLE}{lines}")).check_story(want);
}

#[test]
fn a_lost_device_is_told_once_and_so_is_its_return() {
    check(
        "10s gpu0 * GPU_IS_LOST\n40s gpu0 * answers",
        &[
            &[],
            &[("lost", "GPU 0 does not answer any more: gpu_is_lost")],
            &[],
            &[],
            &[("recovered", "GPU 0 answers again")],
            &[],
        ],
    );
}

#[test]
fn a_device_that_leaves_the_list_is_told_and_so_is_its_return() {
    check(
        "10s gpu0 present no\n30s gpu0 present yes",
        &[
            &[],
            &[("gone", "GPU 0 is no longer listed by its driver")],
            &[],
            &[("recovered", "GPU 0 answers again")],
        ],
    );
}

#[test]
fn a_question_that_fails_is_told_once_and_so_is_its_next_answer() {
    check(
        "10s gpu0 power TIMEOUT\n20s gpu0 power UNKNOWN\n30s gpu0 power 1\n40s gpu0 fan0 UNKNOWN",
        &[
            &[],
            &[("unanswered", "GPU 0 does not answer now: power: timeout")],
            &[],
            &[("answered", "GPU 0 answers again: power")],
            &[],
        ],
    );
}

#[test]
fn what_is_not_supported_is_told_with_the_device_and_never_again() {
    let bare = "0s gpu0 uuid GPU-1\n0s gpu0 name T4\n0s gpu0 temperature 40\n10s gpu0 temperature 41\n";
    let found = machine_of(bare).story([0, 10, 20]);
    assert_eq!(found[0].len(), 1);
    assert!(found[0][0].1.starts_with("GPU 0 is T4; it does not tell clock.graphics, "), "{}", found[0][0].1);
    assert_eq!(found[1..], [vec![], vec![]]);
    let points = points(&machine_of(bare).passes([10])[0]);
    assert_eq!(points["hw.temperature{hw.id=GPU-1,hw.name=GPU 0,hw.sensor_location=gpu} Cel"], 41.0);
    assert!(points.keys().all(|key| !key.starts_with("hw.power")));
}

#[test]
fn errors_and_xids_are_told_when_they_come_with_how_many_and_what_they_are() {
    check(
        "10s gpu0 ecc.corrected 7\n20s gpu0 ecc.uncorrected 2\n29s gpu0 xid 79\n30s gpu0 xid 31\n40s gpu0 xid 9999",
        &[
            &[],
            &[("errors", "GPU 0 has counted 4 more errors: corrected")],
            &[("errors", "GPU 0 has counted 1 more errors: uncorrected")],
            &[
                ("xid", "GPU 0 reports XID 79: the GPU has fallen off the bus"),
                ("xid", "GPU 0 reports XID 31: memory page fault"),
            ],
            &[("xid", "GPU 0 reports XID 9999")],
        ],
    );
}

#[test]
fn nothing_is_said_of_a_lost_device_but_that_it_is_lost_and_the_others_are_told() {
    let script = format!("{WHOLE}0s gpu1 uuid GPU-6b\n0s gpu1 power 7000\n10s gpu0 * GPU_IS_LOST\n");
    let output = &machine_of(&script).passes([0, 10])[1];
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
fn an_xid_of_a_device_that_falls_off_the_bus_with_it_is_told_of_that_device() {
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

/// When a series of the device adds up from and what it has come to, seconds.
fn series(output: &Output, metric: &str, with: &str) -> (u64, f64) {
    let resource = output.collections()[0];
    let point =
        numbers(resource, metric).iter().find(|point| written(&point.attributes).contains(with)).unwrap();
    let value = values(resource, metric).into_iter().find(|(key, _)| key.contains(with)).unwrap().1;
    ((point.start_time_unix_nano - UNIX) / SECOND, value)
}

#[test]
fn a_count_that_begins_again_begins_a_series_and_leaves_nothing_out() {
    let script = format!("{WHOLE}20s gpu0 ecc.corrected 2\n30s gpu0 ecc.corrected 9\n");
    let outputs = machine_of(&script).passes([0, 10, 20, 30]);
    let found: Vec<(u64, f64)> =
        outputs.iter().map(|o| series(o, "hw.errors", "error.type=corrected")).collect();
    // Loaded anew between 10 s and 20 s, the driver has counted 2 since: the series begins where the old one ended.
    assert_eq!(found, [(0, 3.0), (0, 3.0), (10, 2.0), (10, 9.0)]);
    let others: Vec<(u64, f64)> =
        outputs.iter().map(|o| series(o, "hw.errors", "error.type=pcie_replay")).collect();
    assert_eq!(others, [(0, 8.0); 4]);
    let told: Vec<String> =
        outputs.iter().flat_map(told).map(|(_, body)| body).filter(|b| b.contains("errors")).collect();
    assert_eq!(
        told,
        ["GPU 0 has counted 2 more errors: corrected", "GPU 0 has counted 7 more errors: corrected"]
    );
}

#[test]
fn time_under_a_reason_that_the_driver_does_not_count_is_added_up_from_passes() {
    // Bits: 0x8 hardware slowdown, 0x1 idle, 0x400 one that nobody knows.
    let script = "0s gpu0 uuid GPU-1\n0s gpu0 throttle 8\n20s gpu0 throttle 1025\n30s gpu0 throttle 0\n300s gpu0 throttle 8";
    let outputs = machine_of(script).passes([0, 10, 20, 30, 40, 300, 900]);
    let slow: Vec<f64> =
        outputs.iter().map(|o| series(o, "gpu.hardware.throttle.duration", "reason=hw_slowdown").1).collect();
    // Of the ten minutes without a pass one is held to have been as the pass before it saw it.
    assert_eq!(slow, [0.0, 10.0, 20.0, 20.0, 20.0, 20.0, 80.0]);
    let other: Vec<f64> =
        outputs.iter().map(|o| series(o, "gpu.hardware.throttle.duration", "reason=hw,").1).collect();
    assert_eq!(other, [0.0, 0.0, 0.0, 10.0, 10.0, 10.0, 10.0]);
}

#[test]
fn xids_beyond_the_bound_are_counted_together() {
    let lines: String = (1..=20).map(|n| format!("{n}s gpu0 xid {}\n", 1000 + n)).collect();
    let outputs = machine_of(&format!("{WHOLE}{lines}")).passes([0, 30, 40]);
    let points = points(&outputs[2]);
    let xids: BTreeMap<&String, f64> =
        points.iter().filter(|(key, _)| key.contains("error.type=xid")).map(|(k, v)| (k, *v)).collect();
    assert_eq!((xids.len(), xids.values().sum::<f64>()), (17, 20.0));
    assert_eq!(xids.iter().find(|(key, _)| key.contains("gpu.xid=other")).unwrap().1, &4.0);
}

#[test]
fn a_driver_that_is_not_there_or_refuses_says_why() {
    let mut nowhere = nvml::Library { path: "/no/such/library.so".into() };
    assert_eq!(nowhere.open(&mut |_| {}), Err(Fault::Failed("library_not_found")));
    let machine = machine_of("0s driver init DRIVER_NOT_LOADED");
    assert_eq!(machine.library().open(&mut |_| {}), Err(Fault::Failed("driver_not_loaded")));
    let machine = machine_of("0s driver count UNKNOWN");
    let mut read = None;
    machine.library().open(&mut |session| read = Some(session.read().map(|r| r.len()))).unwrap();
    assert_eq!(read, Some(Err(Fault::Failed("unknown"))));
}
