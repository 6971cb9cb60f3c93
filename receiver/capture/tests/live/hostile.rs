//! Attacks by processes of an unprivileged user on the agent that looks at them, each by the files that the process maps.

use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use capture::Capture;
use event::{Event, EvictionReason, FileCounts};
use probe_abi::Library;
use simulator::attacks::{self, Acting, READY};

use crate::rig::{Rig, rig, settings};

/// Environment variable with what a process does ([`attacks::main_by_variable`]).
pub const CALLER: &str = "WARPTAP_TEST_HOSTILE";
const ROOT: u32 = 0;
pub const USER: u32 = 61_001;
pub const OTHER_USER: u32 = 61_002;
const PAGE: usize = 4096;
/// More files than the agent knows at once, in one process or in many.
const JUNK: usize = 1_100;
const JUNK_PROCESSES: usize = 20;

/// Acts as the variable says: as a hostile process, or as an agent.
pub fn run() {
    if attacks::main_by_variable(CALLER) {
        return;
    }
    let arguments = std::env::var(CALLER).unwrap();
    match arguments.lines().collect::<Vec<_>>()[..] {
        [_, "agent", pid] => trace(pid.parse().unwrap()),
        _ => panic!("{arguments:?}"),
    }
}

/// Traces a process, reads once, and prints what is not observed.
fn trace(pid: u32) {
    let mut capture = Capture::start(&settings()).unwrap();
    capture.trace(pid).unwrap();
    event::EventSource::read(&mut capture, &mut Vec::new()).unwrap();
    println!("{READY}{:?}", capture.coverage(pid).unwrap());
    std::io::stdin().lock().read_to_end(&mut Vec::new()).unwrap();
}

/// Starts a process of this program that acts as a user.
pub fn act(user: u32, action: &str, arguments: &[&str]) -> Acting {
    Acting::start(own_program(), CALLER, user, action, arguments).0
}

pub fn own_program() -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["calling_process", "--exact", "--nocapture", "--quiet"]);
    command
}

/// Returns the program with the capabilities that the documentation asks for, and no others.
fn with_documented_capabilities() -> Command {
    let mut command = Command::new("setpriv");
    command.args(["--bounding-set", "-all,+bpf,+perfmon,+sys_ptrace,+dac_read_search"]);
    command.arg(std::env::current_exe().unwrap());
    command.args(["calling_process", "--exact", "--nocapture", "--quiet"]);
    command
}

/// Returns a new directory of a user, or `None`, with the reason printed, without the right to act as that user.
pub fn directory(rig: &Rig, user: u32) -> Option<PathBuf> {
    let dir = rig.dir.join(user.to_string());
    std::fs::create_dir_all(&dir).unwrap();
    let owned = std::os::unix::fs::chown(&dir, Some(user), Some(user));
    owned.inspect_err(|e| println!("skipped: cannot act as user {user}: {e}")).ok().map(|()| dir)
}

/// Returns a copy of a stub library that belongs to the owner of the directory.
pub fn library_in(dir: &Path, library: Library) -> PathBuf {
    let stubs = simulator::install::install(&dir.join("stubs")).unwrap();
    let copy = dir.join(stubs.of(library).file_name().unwrap());
    std::fs::copy(stubs.of(library), &copy).unwrap();
    copy
}

/// With the documented capabilities, the agent cannot open a file by its mapping. It opened the FIFO at the path that the
/// kernel reports of the removed file, and waited for a writer for ever: draining stopped, and so did the way to its end.
#[test]
fn fifo_in_place_of_a_mapped_library_does_not_stop_the_agent() {
    let Some(rig) = rig("fifo", &settings()) else { return };
    if !with_documented_capabilities().stdout(Stdio::null()).status().is_ok_and(|status| status.success()) {
        return println!("skipped: setpriv cannot restrict the capabilities");
    }
    let Some(dir) = directory(&rig, USER) else { return };
    let path = library_in(&dir, Library::Cudart);
    let attacker = act(USER, "fifo", &[path.to_str().unwrap()]);
    let pid = attacker.pid().to_string();
    let (agent, coverage) = Acting::start(with_documented_capabilities(), CALLER, ROOT, "agent", &[&pid]);
    assert!(coverage.contains("Fifo: expected a regular file"), "{coverage}");
    agent.end();
}

fn with_file_at(file: &Path, also_at: &Path) -> Command {
    let mut command = attacks::with_file_at(USER, file, also_at);
    command.args(own_program().get_args());
    command
}

/// A user mapped the runtime under the name of NCCL in a user namespace, and the agent concluded for every process that the
/// file has none of the functions: it was never attached again.
#[test]
fn verdict_on_another_name_of_a_file_does_not_hide_it() {
    let Some(mut rig) = rig("names", &settings()) else { return };
    let (Some(dir), Some(_)) = (directory(&rig, USER), directory(&rig, OTHER_USER)) else { return };
    let (file, also_at) = (library_in(&dir, Library::Cudart), dir.join("libnccl.so.2"));
    let can_bind = with_file_at(&file, &also_at).stdout(Stdio::null()).status();
    if !can_bind.is_ok_and(|status| status.success()) {
        return println!("skipped: a user cannot make a user namespace and mount there");
    }
    let (attacker, _) =
        Acting::start(with_file_at(&file, &also_at), CALLER, ROOT, "map", &[also_at.to_str().unwrap()]);
    rig.capture.trace(attacker.pid()).unwrap();
    let (observed, gaps) = rig.capture.coverage(attacker.pid()).unwrap();
    assert!(observed.is_empty() && gaps[0].contains("none of the probed functions"), "{observed:?} {gaps:?}");
    let victim = act(OTHER_USER, "map", &[file.to_str().unwrap()]);
    rig.capture.trace(victim.pid()).unwrap();
    let (observed, gaps) = rig.capture.coverage(victim.pid()).unwrap();
    assert!(observed.iter().any(|text| text.starts_with("libcudart.so.12:")), "{observed:?} {gaps:?}");
}

/// The kernel lists mappings by address, and gives those that are made later lower ones. Of the list, 4 MiB were read.
#[test]
fn library_behind_very_many_mappings_is_found() {
    let Some(mut rig) = rig("mappings", &settings()) else { return };
    let Some(dir) = directory(&rig, USER) else { return };
    let library = library_in(&dir, Library::Cudart);
    let file = dir.join("x".repeat(64));
    std::fs::write(&file, [0; PAGE]).unwrap();
    let paths = [library.to_str().unwrap(), file.to_str().unwrap()];
    let process = act(USER, "many", &paths);
    let listed = std::fs::read(format!("/proc/{}/maps", process.pid())).unwrap().len();
    assert!(listed > 4 << 20, "{listed} bytes");
    rig.capture.trace(process.pid()).unwrap();
    let (observed, gaps) = rig.capture.coverage(process.pid()).unwrap();
    assert!(observed.iter().any(|text| text.starts_with("libcudart.so.12:")), "{observed:?} {gaps:?}");
}

/// Counts of the files that are not probed.
pub fn counts(rig: &mut Rig) -> FileCounts {
    let mut events = Vec::new();
    rig.capture.read_totals(&mut events);
    let counts =
        events.iter().find_map(|e| if let Event::Files { counts, .. } = e { Some(*counts) } else { None });
    counts.unwrap()
}

/// A user mapped 1,100 files with the name of a library, and libraries of other users were not attached any more.
#[test]
fn junk_of_one_user_does_not_hide_the_libraries_of_another() {
    let Some(mut rig) = rig("junk", &settings()) else { return };
    let (Some(dir), Some(other)) = (directory(&rig, USER), directory(&rig, OTHER_USER)) else { return };
    let map_junk = |count: usize| act(USER, "junk", &[dir.to_str().unwrap(), &count.to_string()]);
    let attacker = map_junk(JUNK);
    let more: Vec<Acting> = (0..JUNK_PROCESSES).map(|_| map_junk(JUNK / JUNK_PROCESSES)).collect();
    [&attacker].into_iter().chain(&more).for_each(|acting| rig.capture.trace(acting.pid()).unwrap());
    rig.wait("the files to be examined", |rig| counts(rig).refused.iter().sum::<u64>() >= JUNK as u64);
    let path = library_in(&other, Library::Cudart);
    let victim = act(OTHER_USER, "map", &[path.to_str().unwrap()]);
    rig.capture.trace(victim.pid()).unwrap();
    let (observed, gaps) = rig.capture.coverage(victim.pid()).unwrap();
    assert!(observed.iter().any(|text| text.starts_with("libcudart.so.12:")), "{observed:?} {gaps:?}");
    let counts = counts(&mut rig);
    assert!(counts.evicted[EvictionReason::Refused as usize] >= 70, "{counts:?}");
    let (_, gaps) = rig.capture.coverage(attacker.pid()).unwrap();
    assert!(gaps.len() < 100, "{} descriptions of gaps", gaps.len());
}
