//! Exit statuses of processes are those that wait(2) returns to the parent.

use std::os::unix::process::ExitStatusExt as _;
use std::process::Command;

use event::{Event, ExitStatus};

use crate::rig::{Rig, rig, settings};

/// Returns a script of one call, after which the process is traced.
fn one_call(rig: &Rig) -> String {
    let path = rig.dir.join("script");
    std::fs::write(&path, "thread main\n  malloc a 4096\nend\n").unwrap();
    path.to_str().unwrap().to_owned()
}

/// Returns the recorded exit status of a process.
fn reported_exit(rig: &mut Rig, pid: u32) -> ExitStatus {
    let end = |e: &Event| match e {
        Event::Exit { process, status, .. } if process.pid == pid => Some(*status),
        _ => None,
    };
    rig.wait("the end", |rig| rig.events.iter().any(|e| end(e).is_some()));
    rig.events.iter().find_map(end).unwrap()
}

#[test]
fn killed_process_exits_with_its_signal() {
    let Some(mut rig) = rig("killed", &settings()) else { return };
    let script = one_call(&rig);
    for signal in [9, 6, 15] {
        let mut player = rig.player(&[&script]);
        player.go().unwrap();
        player.done().unwrap();
        let pid = player.pid();
        assert!(
            Command::new("kill").args([format!("-{signal}"), pid.to_string()]).status().unwrap().success()
        );
        assert_eq!(reported_exit(&mut rig, pid), ExitStatus::Killed(signal));
        assert_eq!(
            player.finish().unwrap().signal(),
            Some(signal.into()),
            "the parent was reported_exit the same"
        );
    }
}

#[test]
fn exiting_process_has_its_exit_code() {
    let Some(mut rig) = rig("exited", &settings()) else { return };
    let script = one_call(&rig);
    for code in [0, 3] {
        let mut player = rig.player_exiting(&[&script], code);
        player.go().unwrap();
        player.done().unwrap();
        let pid = player.pid();
        assert_eq!(player.finish().unwrap().code(), Some(code.into()));
        assert_eq!(reported_exit(&mut rig, pid), ExitStatus::Exited(code));
    }
}
