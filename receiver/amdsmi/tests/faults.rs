//! What drivers do wrong: each fault is told once, its end is told, nothing of it stops the rest.

#![allow(clippy::unwrap_used, reason = "a panic in a test is its report")]

mod common;

use common::*;
use hardware::{Driver as _, Fault};

fn check(lines: &str, want: &[&[(&str, &str)]]) {
    machine_of(&format!("{WHOLE}{lines}")).check_story(want);
}

#[test]
fn a_lost_device_is_told_once_and_so_is_its_return() {
    check(
        "10s gpu0 * IO\n40s gpu0 * answers",
        &[
            &[],
            &[("lost", "GPU 0 does not answer any more: io")],
            &[],
            &[],
            &[("recovered", "GPU 0 answers again")],
            &[],
        ],
    );
}

#[test]
fn a_question_that_fails_is_told_once_and_so_is_its_next_answer() {
    check(
        "10s gpu0 energy BUSY\n20s gpu0 energy TIMEOUT\n30s gpu0 energy 1000000",
        &[
            &[],
            &[("unanswered", "GPU 0 does not answer now: energy: busy")],
            &[],
            &[("answered", "GPU 0 answers again: energy")],
        ],
    );
}

#[test]
fn metrics_that_fail_leave_what_other_functions_answer() {
    let script = format!("{WHOLE}10s gpu0 metrics FILE_ERROR\n");
    let found = points(&machine_of(&script).passes([0, 10])[1]);
    assert!(found.keys().all(|key| !key.starts_with("hw.power") && !key.contains("throttle")), "{found:#?}");
    assert!(found.keys().any(|key| key.starts_with("hw.gpu.memory.usage")));
    assert!(found["gpu.hardware.query.failures{error.type=file} {query}"] > 10.0);
}

#[test]
fn what_is_not_supported_is_told_with_the_device_and_never_again() {
    let bare = "0s gpu0 uuid a1\n0s gpu0 name Radeon\n0s gpu0 temperature.hotspot 40\n10s gpu0 temperature.hotspot 41\n";
    let found = machine_of(bare).story([0, 10, 20]);
    assert_eq!(found[0].len(), 1);
    let body = &found[0][0].1;
    assert!(body.starts_with("GPU 0 is Radeon; it does not tell clock.graphics, "), "{body}");
    // What only others' devices can be asked is not told to be missing.
    assert!(!body.contains("nvlink") && !body.contains("hw_power_brake"), "{body}");
    assert_eq!(found[1..], [vec![], vec![]]);
}

#[test]
fn what_the_driver_tells_by_itself_is_told_and_errors_are_counted() {
    let lines = "10s gpu0 notification 1\n20s gpu0 notification 2\n29s gpu0 notification 3\n30s gpu0 notification 4\n35s gpu0 notification 9\n";
    let message = "event of the stub";
    let body = |text: &str| format!("GPU 0 {text}: {message}");
    let told = [
        body("reports a memory fault of a program"),
        body("slows down because it is too hot"),
        body("is about to be reset"),
        body("was reset"),
    ];
    check(
        lines,
        &[
            &[],
            &[("notification", &told[0])],
            &[("notification", &told[1])],
            &[("notification", &told[2]), ("notification", &told[3])],
            &[],
        ],
    );
    let found = points(machine_of(&format!("{WHOLE}{lines}")).passes([0, 10, 20, 30, 40]).last().unwrap());
    let count = |kind: &str| {
        let of = |(key, _): &(&String, &f64)| key.contains(&format!("error.type={kind},"));
        found.iter().filter(of).map(|(_, count)| *count).sum::<f64>()
    };
    assert_eq!([count("vm_fault"), count("reset"), count("thermal_throttle")], [1.0, 1.0, 0.0]);
}

#[test]
fn time_that_the_firmware_counts_begins_again_with_it_and_leaves_nothing_out() {
    // Loaded anew at 20 s, its counts begin again; from there on it holds power down all the time.
    let lines = "20s gpu0 accumulation 1 +1000/s\n20s gpu0 held.ppt 1 +1000/s\n";
    let outputs = machine_of(&format!("{WHOLE}{lines}")).passes([0, 10, 20, 30]);
    let capped = |output: &Output| {
        let points = points(output);
        let mut capped =
            points.iter().filter(|(key, _)| key.contains("duration") && key.contains("sw_power"));
        *capped.next().unwrap().1
    };
    assert_eq!(outputs.iter().map(capped).collect::<Vec<_>>(), [0.0, 2.5, 2.5, 12.5]);
}

#[test]
fn a_driver_that_is_not_there_refuses_or_is_of_another_version_says_why() {
    let mut nowhere = amdsmi::Library::at("/no/such/library.so");
    assert_eq!(nowhere.open(&mut |_| {}), Err(Fault::Failed("library_not_found")));
    for (line, why) in [
        ("0s driver init DRIVER_NOT_LOADED", "driver_not_loaded"),
        ("0s driver version 24.6.1", "unknown_version"),
        ("0s driver version 28.0.0", "unknown_version"),
    ] {
        let machine = machine_of(line);
        assert_eq!(machine.library().open(&mut |_| {}), Err(Fault::Failed(why)), "{line}");
        // Whoever is refused has closed what it opened.
        assert!(machine.control.set_script(WHOLE));
        assert_eq!(machine.library().open(&mut |_| {}), Ok(()));
    }
    let machine = machine_of("0s driver sockets UNKNOWN_ERROR");
    let mut read = None;
    machine.library().open(&mut |session| read = Some(session.read().map(|r| r.len()))).unwrap();
    assert_eq!(read, Some(Err(Fault::Failed("unknown"))));
}

#[test]
fn processes_of_a_glance_are_the_scripts_and_nothing_else_is_asked() {
    let machine = machine_of(WHOLE);
    machine.control.set_now(0);
    let opened = machine.library().open(&mut |session| {
        let reading = session.glance(true).unwrap().remove(0);
        assert_eq!(reading.processes.iter().map(|p| p.pid).collect::<Vec<_>>(), [4_194_303]);
        assert_eq!(reading.identity.pci, "0000:c1:00.0");
        assert_eq!(reading.answer(hardware::Question::Energy), Err(Fault::Unasked));
    });
    opened.unwrap();
}

#[test]
fn whoever_closes_the_library_leaves_it_to_others_of_the_process() {
    let machine = machine_of(WHOLE);
    let mut count = 0;
    let opened = machine.library().open(&mut |session| {
        assert_eq!(machine.library().open(&mut |other| assert_eq!(other.read().unwrap().len(), 1)), Ok(()));
        count = session.read().unwrap().iter().filter(|reading| reading.lost().is_none()).count();
    });
    assert_eq!((opened, count), (Ok(()), 1));
}
