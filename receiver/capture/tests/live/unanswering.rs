//! Processes that never answer: their libraries or their memory are on a file system in user space that keeps pages back.

use std::path::Path;
use std::time::{Duration, Instant};

use event::{Event, EventSource as _, RefusalReason};
use simulator::attacks::{Acting, Unanswering};

use crate::hostile::{USER, act, counts, directory};
use crate::pins;
use crate::rig::{Rig, rig, settings};

/// Longer than a read of the capture may take, also on a busy machine.
const READ_MAX: Duration = Duration::from_secs(1);

/// Plays a program and compares what is counted of it with its own log. Meanwhile no read takes long.
fn play(rig: &mut Rig) {
    let script = pins::script(rig);
    let mut player = rig.unattached_player(&[&script, "--seconds", "1"]);
    let pid = player.pid();
    rig.capture.trace(pid).unwrap();
    player.go().unwrap();
    let calls = pins::finish(rig, player);
    assert!(calls > 0 && pins::totals(&rig.events, pid) == calls, "{calls} calls");
    let began = Instant::now();
    rig.capture.read(&mut rig.events).unwrap();
    assert!(began.elapsed() < READ_MAX, "{:?}", began.elapsed());
}

fn mapping(path: &Path) -> Acting {
    act(USER, "map", &[path.to_str().unwrap()])
}

/// The kernel reads a page of a file before it probes it, and no process can fork meanwhile.
#[test]
fn library_that_a_user_serves_is_refused_and_not_read() {
    let Some(mut rig) = rig("served", &settings()) else { return };
    let Some(dir) = directory(&rig, USER) else { return };
    let Some(files) = Unanswering::mount(dir.join("mount"), USER) else { return };
    let attacker = mapping(&files.file());
    rig.capture.trace(attacker.pid()).unwrap();
    let (_, gaps) = rig.capture.coverage(attacker.pid()).unwrap();
    assert!(gaps.iter().any(|gap| gap.contains("that user 61001 serves")), "{gaps:?}");
    assert_eq!(counts(&mut rig).refused[RefusalReason::Untrusted as usize], 1);
    assert!(!files.is_asked(Duration::ZERO), "no page was asked for");
    play(&mut rig);
}

/// A file system of root is trusted to answer, as NFS is, and may fail to.
#[test]
fn file_system_that_does_not_answer_stops_neither_others_nor_the_end() {
    let Some(mut rig) = rig("unanswered", &settings()) else { return };
    let Some(dir) = directory(&rig, USER) else { return };
    let Some(mut files) = Unanswering::mount(dir.join("mount"), 0) else { return };
    let attacker = mapping(&files.file());
    rig.capture.trace(attacker.pid()).unwrap();
    assert!(files.is_asked(READ_MAX));
    let (_, gaps) = rig.capture.coverage(attacker.pid()).unwrap();
    assert!(gaps.iter().any(|gap| gap.contains("does not answer")), "{gaps:?}");
    assert!(counts(&mut rig).unanswered > 0);
    play(&mut rig);
    files.end();
    let pid = attacker.pid();
    rig.wait("the end of the inspection", |rig| {
        let gaps = rig.capture.coverage(pid).unwrap().1;
        !gaps.iter().any(|gap| gap.contains("does not answer"))
    });
}

#[test]
fn capture_ends_while_a_file_system_does_not_answer() {
    let Some(mut rig) = rig("end", &settings()) else { return };
    let Some(dir) = directory(&rig, USER) else { return };
    let Some(files) = Unanswering::mount(dir.join("mount"), 0) else { return };
    let attacker = mapping(&files.file());
    rig.capture.trace(attacker.pid()).unwrap();
    assert!(files.is_asked(READ_MAX));
    let began = Instant::now();
    drop(std::mem::replace(&mut rig.capture, capture::Capture::start(&settings()).unwrap()));
    assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
}

/// Nothing else is asked about a process that does not answer.
#[test]
fn process_that_does_not_answer_is_described_without_its_command_line_until_it_does() {
    let Some(mut rig) = rig("outlined", &settings()) else { return };
    let Some(dir) = directory(&rig, USER) else { return };
    let Some(mut files) = Unanswering::mount(dir.join("mount"), 0) else { return };
    let stubs = simulator::install::install(&dir.join("stubs")).unwrap();
    let library = stubs.of(probe_abi::Library::Cudart).to_str().unwrap();
    let file = files.file();
    // Another process has the library attached.
    let keeper = mapping(Path::new(library));
    rig.capture.trace(keeper.pid()).unwrap();
    let attacker = act(USER, "call", &[file.to_str().unwrap(), library]);
    let pid = attacker.pid();
    rig.capture.trace(pid).unwrap();
    attacker.go();
    let described = |rig: &Rig| {
        rig.events.iter().rev().find_map(|e| match e {
            Event::Process(info) if info.process.pid == pid => {
                Some((info.executable.clone(), info.command.len()))
            }
            _ => None,
        })
    };
    rig.wait("its description", |rig| described(rig).is_some());
    let (executable, arguments) = described(&rig).unwrap();
    assert!(executable.starts_with("live") && arguments == 0, "{executable}: {arguments} arguments");
    files.end();
    rig.wait("its command line", |rig| described(rig).is_some_and(|(_, arguments)| arguments > 0));
}
