//! Processes and files that change, end or sleep while they are examined, and names of every byte value.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use capture::Capture;
use event::{Event, EventSource as _, ProcessInfo, RefusalReason};
use probe_abi::Library;
use simulator::attacks::{Acting, install_oversized};

use crate::hostile::{CALLER, OTHER_USER, USER, act, counts, directory, library_in, own_program};
use crate::rig::{Rig, rig, settings};

/// Times that a file is replaced and mapped, and processes that end while they are examined.
const ROUNDS: usize = 300;
const ENDING: u32 = 300;
/// Files that are attached at once, as many as one user can have, and the processes that map them.
const FILES: usize = 64;
const PROCESSES: usize = 4;
/// Longest end of a capture, and longest read, on a machine whose CPUs are wanted by fifty others.
const END_MAX: Duration = Duration::from_secs(12);
const READ_MAX: Duration = Duration::from_secs(2);

/// Attaches to the library of another user's process.
fn trace_another(rig: &mut Rig) {
    let Some(dir) = directory(rig, OTHER_USER) else { return };
    let library = library_in(&dir, Library::Cudart);
    let other = act(OTHER_USER, "map", &[library.to_str().unwrap()]);
    rig.capture.trace(other.pid()).unwrap();
    assert_attached(rig, other.pid());
}

fn assert_attached(rig: &mut Rig, pid: u32) {
    let (observed, gaps) = rig.capture.coverage(pid).unwrap();
    assert!(observed.iter().any(|text| text.starts_with("libcudart.so.12:")), "{observed:?} {gaps:?}");
}

/// The file is another, half as long, or has other code, between any two steps of the examination and the attachment.
#[test]
fn library_that_is_replaced_while_it_is_attached_harms_no_other_user() {
    let Some(mut rig) = rig("replaced", &settings()) else { return };
    let Some(dir) = directory(&rig, USER) else { return };
    let library = library_in(&dir, Library::Cudart);
    std::os::unix::fs::chown(&library, Some(USER), Some(USER)).unwrap();
    let attacker = act(USER, "replace", &[library.to_str().unwrap()]);
    for _ in 0..ROUNDS {
        rig.capture.trace(attacker.pid()).unwrap();
        rig.capture.read(&mut rig.events).unwrap();
    }
    trace_another(&mut rig);
    attacker.end();
}

#[test]
fn sparse_file_of_a_terabyte_is_refused_at_once() {
    let Some(mut rig) = rig("sparse", &settings()) else { return };
    let Some(dir) = directory(&rig, USER) else { return };
    let library = dir.join("libcudart.so.12");
    if let Err(reason) = install_oversized(&library) {
        return println!("skipped: {}: {reason}", library.display());
    }
    let attacker = act(USER, "map", &[library.to_str().unwrap()]);
    let began = Instant::now();
    rig.capture.trace(attacker.pid()).unwrap();
    let gaps = rig.capture.coverage(attacker.pid()).unwrap().1;
    assert!(gaps.iter().any(|gap| gap.contains("expected at most 268435456")), "{gaps:?}");
    assert!(began.elapsed().as_secs() < 1, "{:?}", began.elapsed());
    assert_eq!(counts(&mut rig).refused[RefusalReason::TooLarge as usize], 1);
}

/// Starts processes that map many library files, and attaches to all.
fn attach_many(rig: &mut Rig) -> Option<Vec<Acting>> {
    let dir = directory(rig, USER)?;
    let library = library_in(&dir, Library::Cudart);
    let start = |process: usize| {
        let copy = |number: usize| dir.join(format!("libcudart-{process:02x}{number:02x}.so.12"));
        let paths: Vec<PathBuf> = (0..FILES / PROCESSES).map(copy).collect();
        paths.iter().for_each(|path| assert!(std::fs::copy(&library, path).unwrap() > 0));
        act(USER, "map", &paths.iter().map(|path| path.to_str().unwrap()).collect::<Vec<_>>())
    };
    let processes: Vec<Acting> = (0..PROCESSES).map(start).collect();
    for process in &processes {
        rig.capture.trace(process.pid()).unwrap();
        let observed =
            |rig: &mut Rig| rig.capture.coverage(process.pid()).map_or(0, |(files, _)| files.len());
        rig.wait("its files to be attached", |rig| observed(rig) == FILES / PROCESSES);
    }
    Some(processes)
}

/// The kernel needs tens of milliseconds for each program of each file. One after another, 200 files took half a minute.
#[test]
fn many_attached_files_do_not_delay_the_end() {
    let Some(mut rig) = rig("many-files", &settings()) else { return };
    let Some(_processes) = attach_many(&mut rig) else { return };
    let ended = std::mem::replace(&mut rig.capture, Capture::start(&settings()).unwrap());
    let began = Instant::now();
    drop(ended);
    assert!(began.elapsed() < END_MAX, "{:?}", began.elapsed());
}

/// One user had 512 files attached, which take the kernel 8 s at once and minutes one after another.
#[test]
fn user_has_a_bounded_number_of_attached_files() {
    let Some(mut rig) = rig("user-files", &settings()) else { return };
    let Some(processes) = attach_many(&mut rig) else { return };
    let Some(dir) = directory(&rig, USER) else { return };
    let attached = rig.capture.account().libraries;
    let library = library_in(&dir, Library::Cudart);
    let another = act(USER, "map", &[library.to_str().unwrap()]);
    rig.capture.trace(another.pid()).unwrap();
    let gaps = rig.capture.coverage(another.pid()).unwrap().1;
    assert!(gaps[0].contains("64 files of the user are attached, which is the maximum"), "{gaps:?}");
    assert_eq!(rig.capture.account().libraries, attached);
    trace_another(&mut rig);
    drop(processes);
}

/// All were detached in one read, which took as long.
#[test]
fn many_unused_files_are_detached_a_few_at_a_time() {
    let Some(mut rig) = rig("unused-files", &settings()) else { return };
    let Some(processes) = attach_many(&mut rig) else { return };
    let attached = rig.capture.account().libraries;
    drop(processes);
    let mut longest = Duration::ZERO;
    rig.wait("the first files to be detached", |rig| {
        let began = Instant::now();
        rig.capture.read(&mut rig.events).unwrap();
        longest = longest.max(began.elapsed());
        rig.capture.account().libraries < attached - 2
    });
    assert!(longest < READ_MAX, "{longest:?}");
}

/// A process that has stopped itself, and one that waits for its child without being interruptible.
#[test]
fn processes_that_cannot_run_are_attached_and_described() {
    let Some(mut rig) = rig("sleeping", &settings()) else { return };
    let Some(dir) = directory(&rig, USER) else { return };
    let library = library_in(&dir, Library::Cudart);
    for (action, state) in [("stop", 'T'), ("suspend", 'D')] {
        let process = act(USER, action, &[library.to_str().unwrap()]);
        rig.capture.trace(process.pid()).unwrap();
        process.go();
        rig.wait("the process to sleep", |_| has_thread_in(state, process.pid()));
        rig.capture.trace(process.pid()).unwrap();
        assert_attached(&mut rig, process.pid());
        let info = described(&mut rig, process.pid());
        assert!(!info.command.is_empty() && !info.executable.is_empty(), "{info:?}");
    }
}

/// Returns true if a thread of the process is in this state (proc_pid_stat(5)).
fn has_thread_in(state: char, pid: u32) -> bool {
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).unwrap().flatten();
    let stats = tasks.filter_map(|task| std::fs::read_to_string(task.path().join("stat")).ok());
    let after_name = |stat: String| stat.rsplit_once(") ").and_then(|(_, rest)| rest.chars().next());
    stats.map(after_name).any(|found| found == Some(state))
}

/// Returns what is reported of a process that has called a function.
fn described(rig: &mut Rig, pid: u32) -> ProcessInfo {
    let mut found = None;
    rig.wait("the description of the process", |rig| {
        found = rig.events.iter().rev().find_map(|event| match event {
            Event::Process(info) if info.process.pid == pid => Some(info.as_ref().clone()),
            _ => None,
        });
        found.is_some()
    });
    found.unwrap()
}

/// Their entries in /proc vanish between any two steps.
#[test]
fn processes_that_end_while_they_are_examined_are_forgotten() {
    let Some(mut rig) = rig("ending", &settings()) else { return };
    let Some(dir) = directory(&rig, USER) else { return };
    let attacker = act(USER, "flicker", &[dir.to_str().unwrap()]);
    let (mut last, mut ended) = (attacker.pid(), 0);
    while ended < ENDING {
        for pid in children(attacker.pid()).into_iter().filter(|pid| *pid != last).collect::<Vec<_>>() {
            // It may have ended already, which is an answer, too.
            let _ = rig.capture.trace(pid);
            (last, ended) = (pid, ended + 1);
        }
        rig.capture.read(&mut rig.events).unwrap();
    }
    trace_another(&mut rig);
    attacker.end();
    assert!(rig.capture.coverage(last).is_none_or(|(observed, _)| observed.is_empty()));
}

fn children(pid: u32) -> Vec<u32> {
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).unwrap().flatten();
    let lists = tasks.filter_map(|task| std::fs::read_to_string(task.path().join("children")).ok());
    lists
        .flat_map(|list| list.split_whitespace().map(|pid| pid.parse().unwrap()).collect::<Vec<_>>())
        .collect()
}

/// Every byte value that a file name can have, with the end of the name in /proc/PID/stat first.
fn every_byte() -> Vec<u8> {
    b") R (".iter().copied().chain((1..=255).filter(|byte| !b"/) R(".contains(byte))).collect()
}

/// A control group, which is removed on drop.
struct ControlGroup(PathBuf);

impl ControlGroup {
    /// Creates it; returns `None`, with the reason printed, where that cannot be done.
    fn new(name: &OsStr) -> Option<ControlGroup> {
        let mounts = std::fs::read_to_string("/proc/mounts").unwrap();
        let root = mounts.lines().map(|line| line.split(' ').collect::<Vec<_>>()).find(|m| m[2] == "cgroup2");
        let path = Path::new(
            root.or_else(|| {
                println!("skipped: no cgroup2 is mounted");
                None
            })?[1],
        )
        .join(name);
        let made = std::fs::create_dir(&path);
        made.inspect_err(|e| println!("skipped: {}: {e}", path.display())).ok().map(|()| ControlGroup(path))
    }
}

impl Drop for ControlGroup {
    fn drop(&mut self) {
        let removed = std::fs::remove_dir(&self.0);
        removed.unwrap_or_else(|e| println!("{} is left: {e}", self.0.display()));
    }
}

/// The program, its directory, its environment, its control group and the directory of its library. Its command line cannot
/// have all of them, since a test program wants text; see the fuzz target `environ`.
#[test]
fn names_of_every_byte_value_are_described_as_text() {
    let Some(mut rig) = rig("bytes", &settings()) else { return };
    let Some(dir) = directory(&rig, USER) else { return };
    let (name, id) = (OsString::from_vec(every_byte()), "0123456789abcdef".repeat(4));
    let in_group: Vec<u8> = every_byte().into_iter().filter(|byte| *byte != b'\n').take(180).collect();
    let Some(group) =
        ControlGroup::new(OsStr::from_bytes(&[in_group.as_slice(), b"-", id.as_bytes()].concat()))
    else {
        return;
    };
    let (inner, library) = (dir.join(&name), library_in(&dir, Library::Cudart));
    std::fs::create_dir(&inner).unwrap();
    std::fs::rename(library, inner.join("libcudart.so.12")).unwrap();
    let program = inner.join(&name);
    std::fs::hard_link(std::env::current_exe().unwrap(), &program).unwrap();
    let mut command = std::process::Command::new(program);
    let control: String = (1..=127_u8).map(char::from).collect();
    command.arg0("live").args(own_program().get_args()).args(["--skip", &control]);
    command.env("OTEL_SERVICE_NAME", &name).env("RANK", &name).current_dir(&inner);
    let (process, _) = Acting::start(command, CALLER, USER, "call", &["./libcudart.so.12"]);
    std::fs::write(group.0.join("cgroup.procs"), process.pid().to_string()).unwrap();
    rig.capture.trace(process.pid()).unwrap();
    assert_attached(&mut rig, process.pid());
    process.go();
    let (info, text) = (described(&mut rig, process.pid()), name.to_string_lossy().into_owned());
    assert_eq!((info.executable.as_str(), info.container_id.as_str()), (text.as_str(), id.as_str()));
    assert_eq!(info.command.last(), Some(&control));
    assert_eq!(info.attributes, [("service.name".to_owned(), text)]);
    // The group can be removed when no process is in it.
    process.end();
    rig.wait("the end of the process", |_| std::fs::read(group.0.join("cgroup.procs")).unwrap().is_empty());
}
