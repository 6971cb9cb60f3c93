//! Discovery of libraries: in which processes, files and mount namespaces, and for how long they stay attached.

use std::ffi::OsString;
use std::path::Path;
use std::process::Command;

use event::Event;
use probe_abi::counters::SelfCounter;
use simulator::player::Player;

use crate::rig::{PLAYER, Rig, player_command, rig, settings};

const SHORT: &str =
    "stream main\nthread engine\n  repeat 10\n    launch main\n    sync stream main\n  end\nend\n";

fn script(rig: &Rig) -> String {
    let path = rig.dir.join("short");
    std::fs::write(&path, SHORT).unwrap();
    path.to_str().unwrap().to_owned()
}

fn steps_of(rig: &Rig, pid: u32) -> usize {
    rig.events.iter().filter(|e| matches!(e, Event::Step(s) if s.header.pid == pid)).count()
}

fn libraries(rig: &Rig) -> u64 {
    rig.capture.account().libraries
}

#[test]
fn process_is_found_by_scanning() {
    let Some(mut rig) = rig("found", &capture::Settings { trace_all: true, ..settings() }) else { return };
    let script = script(&rig);
    let arguments: Vec<OsString> =
        [script.as_str(), "--wait-go", "--stubs", rig.dir.join("stubs").to_str().unwrap()]
            .iter()
            .map(OsString::from)
            .collect();
    let player = Player::start(player_command(&arguments)).unwrap();
    let pid = player.pid();
    rig.wait("the player's libraries", |rig| {
        rig.capture.coverage(pid).is_some_and(|(seen, _)| seen.len() >= 2)
    });
    rig.play(player);
    assert_eq!(steps_of(&rig, pid), 10);
}

#[test]
fn file_of_two_processes_is_attached_once() {
    let Some(mut rig) = rig("twice", &settings()) else { return };
    let script = script(&rig);
    let before = libraries(&rig);
    let (first, second) = (rig.player(&[&script]), rig.player(&[&script]));
    let attached = libraries(&rig) - before;
    assert_eq!(attached, 2, "libcudart and libcuda, each once");
    let pids = (first.pid(), second.pid());
    rig.play(first);
    assert_eq!(libraries(&rig) - before, attached, "the second still maps them");
    rig.play(second);
    assert_eq!((steps_of(&rig, pids.0), steps_of(&rig, pids.1)), (10, 10));
    rig.wait("the libraries to be let go", |rig| libraries(rig) <= before);
}

#[test]
fn replaced_library_file_is_attached_separately() {
    let Some(mut rig) = rig("swap", &settings()) else { return };
    let script = script(&rig);
    let stubs = rig.dir.join("stubs");
    let old = rig.player_with(&[&script], &stubs);
    // As package managers do: the new file replaces the name, and the old inode remains as `old`.
    for entry in std::fs::read_dir(&stubs).unwrap() {
        let path = entry.unwrap().path();
        let fresh = path.with_extension("fresh");
        std::fs::copy(&path, &fresh).unwrap();
        std::fs::rename(&fresh, &path).unwrap();
    }
    let new = rig.player_with(&[&script], &stubs);
    let pids = (old.pid(), new.pid());
    rig.play(old);
    rig.play(new);
    assert_eq!((steps_of(&rig, pids.0), steps_of(&rig, pids.1)), (10, 10));
}

#[test]
fn one_path_in_two_mount_namespaces_is_two_files() {
    let Some(mut rig) = rig("mounts", &settings()) else { return };
    let script = script(&rig);
    let (here, there) = (rig.dir.join("stubs"), rig.dir.join("other"));
    simulator::install(&there).unwrap();
    let outside = rig.player_with(&[&script], &here);
    let Some(inside) = player_in_mount(&rig, &script, &here, &there) else { return };
    rig.attach(&inside);
    let pids = (outside.pid(), inside.pid());
    rig.play(outside);
    rig.play(inside);
    assert_eq!((steps_of(&rig, pids.0), steps_of(&rig, pids.1)), (10, 10));
}

/// Starts a player in a mount namespace where the libraries of `there` are at the path `here`.
fn player_in_mount(rig: &Rig, script: &str, here: &Path, there: &Path) -> Option<Player> {
    let arguments = [script, "--wait-go", "--stubs", here.to_str().unwrap()].join("\n");
    let _ = rig;
    let mut command = Command::new("unshare");
    let inner = format!(
        "mount --bind {} {} && exec {} player_process --exact --nocapture --quiet",
        there.display(),
        here.display(),
        std::env::current_exe().unwrap().display()
    );
    command.args(["--mount", "sh", "-c", &inner]).env(PLAYER, arguments);
    match Player::start(command) {
        Ok(player) => Some(player),
        Err(reason) => {
            println!("skipped: no mount namespace: {reason}");
            None
        }
    }
}

#[test]
fn driver_calls_of_an_embedded_runtime_are_suppressed() {
    let program = std::env::current_exe().unwrap().parent().unwrap().parent().unwrap().join("static-player");
    if !program.exists() {
        return println!("skipped: {} is not built", program.display());
    }
    let Some(mut rig) = rig("static", &settings()) else { return };
    let script = script(&rig);
    let mut command = Command::new(program);
    command.args([&script, "--wait-go", "--stubs"]).arg(rig.dir.join("stubs"));
    let player = Player::start(command).unwrap();
    rig.attach(&player);
    let (seen, _) = rig.capture.coverage(player.pid()).unwrap();
    assert!(seen.iter().any(|s| s.starts_with("static-player")), "{seen:?}");
    assert!(seen.contains(&"trace contexts: otel_thread_ctx_v1 in static-player".to_owned()), "{seen:?}");
    let pid = player.pid();
    let calls = rig.play(player);
    assert_eq!(steps_of(&rig, pid), 10);
    let contexts = rig.events.iter().filter_map(|e| if let Event::Context(c) = e { Some(c) } else { None });
    let published: Vec<_> = contexts.map(|c| (c.trace_id, c.span_id, c.trace_flags)).collect();
    assert_eq!(
        published,
        [([0x5a; 16], [0xa5; 8], 1); 10],
        "every thread of this program publishes the same"
    );
    let account = rig.capture.account();
    assert_eq!((account.hits, account.lost()), (calls, 0), "{account:?}");
    assert!(account.is_balanced() && account[SelfCounter::Suppressed] > 0, "{account:?}");
}

/// An exec frees the slot in the kernel, which the new program occupies again.
#[test]
fn contexts_are_read_after_an_exec() {
    let program = std::env::current_exe().unwrap().parent().unwrap().parent().unwrap().join("static-player");
    if !program.exists() {
        return println!("skipped: {} is not built", program.display());
    }
    let Some(mut rig) = rig("published-exec", &settings()) else { return };
    let mut command = Command::new(program);
    command.args(["@exec", "--wait-go", "--stubs"]).arg(rig.dir.join("stubs"));
    let mut player = Player::start(command).unwrap();
    rig.attach(&player);
    let pid = player.pid();
    rig.follow_exec(&mut player);
    let before = rig.events.iter().filter(|e| matches!(e, Event::Context(_))).count();
    rig.play(player);
    let contexts = rig.events.iter().filter(|e| matches!(e, Event::Context(_))).count();
    assert!(before > 0 && before < contexts, "{before} of {contexts} before the exec");
    assert_eq!(contexts, steps_of(&rig, pid));
    assert_eq!(rig.capture.account()[SelfCounter::TraceContextUnreadable], 0);
}

#[test]
fn reused_pid_is_another_process() {
    let Some(mut rig) = rig("reuse", &settings()) else { return };
    let script = script(&rig);
    let first = rig.player(&[&script]);
    let pid = first.pid();
    rig.play(first);
    // The kernel hands out the next free number after this one (pid_namespaces(7)).
    for _ in 0..200 {
        if std::fs::write("/proc/sys/kernel/ns_last_pid", (pid - 1).to_string()).is_err() {
            return println!("skipped: the next pid cannot be chosen here");
        }
        let second = rig.player(&[&script]);
        if second.pid() != pid {
            drop(second);
            continue;
        }
        rig.events.clear();
        rig.play(second);
        let steps = rig.events.iter().filter_map(|e| if let Event::Step(s) = e { Some(s) } else { None });
        let first_sequences = steps.filter(|s| s.sequence == 0).count();
        assert_eq!((steps_of(&rig, pid), first_sequences), (10, 1), "its streams are new");
        assert!(rig.capture.account().is_balanced());
        return;
    }
    println!("skipped: pid {pid} did not come back");
}

#[test]
fn exec_ends_one_process_and_starts_another() {
    let Some(mut rig) = rig("exec", &settings()) else { return };
    let mut player = rig.player(&["@exec"]);
    let pid = player.pid();
    rig.follow_exec(&mut player);
    rig.play(player);
    let ends =
        rig.events.iter().filter(|e| matches!(e, Event::Exit { process, .. } if process.pid == pid)).count();
    assert_eq!(ends, 2, "the first program's end and the second's");
    assert!(rig.capture.account().is_balanced(), "{:?}", rig.capture.account());
}
