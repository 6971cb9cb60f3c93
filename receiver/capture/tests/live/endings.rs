//! How a process ended is told as its parent was told.

use std::os::unix::process::ExitStatusExt as _;
use std::process::Command;

use event::{Event, ExitStatus};

use crate::rig::{Rig, rig, settings};

/// A script that makes its process known.
fn one_call(rig: &Rig) -> String {
    let path = rig.dir.join("script");
    std::fs::write(&path, "thread main\n  malloc a 4096\nend\n").unwrap();
    path.to_str().unwrap().to_owned()
}

/// The end that was told of a process.
fn told(rig: &mut Rig, pid: u32) -> ExitStatus {
    let end = |e: &Event| match e {
        Event::Exit { process, status, .. } if process.pid == pid => Some(*status),
        _ => None,
    };
    rig.wait("the end", |rig| rig.events.iter().any(|e| end(e).is_some()));
    rig.events.iter().find_map(end).unwrap()
}

#[test]
fn whoever_is_killed_ends_with_the_signal() {
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
        assert_eq!(told(&mut rig, pid), ExitStatus::Killed(signal));
        assert_eq!(player.finish().unwrap().signal(), Some(signal.into()), "the parent was told the same");
    }
}

#[test]
fn whoever_exits_ends_with_the_code() {
    let Some(mut rig) = rig("exited", &settings()) else { return };
    let script = one_call(&rig);
    for code in [0, 3] {
        let mut player = rig.player_exiting(&[&script], code);
        player.go().unwrap();
        player.done().unwrap();
        let pid = player.pid();
        assert_eq!(player.finish().unwrap().code(), Some(code.into()));
        assert_eq!(told(&mut rig, pid), ExitStatus::Exited(code));
    }
}
