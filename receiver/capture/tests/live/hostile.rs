//! Attacks by processes of an unprivileged user on the agent that looks at them, each by the files that the process maps.

#![expect(unsafe_code, reason = "maps files as code, and changes the user")]

use std::fs::File;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::os::fd::AsRawFd as _;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use capture::Capture;
use event::{Event, EvictionReason, FileCounts};
use probe_abi::Library;

use crate::rig::{Rig, rig, settings};

/// Environment variable with what a process does: its user id, an action, and the arguments of the action, one a line.
pub const CALLER: &str = "WARPTAP_TEST_HOSTILE";
const ROOT: u32 = 0;
pub const USER: u32 = 61_001;
const OTHER_USER: u32 = 61_002;
const READY: &str = "@ready ";
/// Longer than an agent needs that does not wait for other processes.
const WATCHDOG: Duration = Duration::from_secs(60);
const PAGE: usize = 4096;
/// More files than the agent knows at once, in one process or in many.
const JUNK: usize = 1_100;
const JUNK_PROCESSES: usize = 20;

/// Changes the user, acts, prints that it is ready, and waits until its input ends.
pub fn run(arguments: &str) {
    let arguments: Vec<&str> = arguments.lines().collect();
    let [user, action, ref paths @ ..] = arguments[..] else { panic!("{arguments:?}") };
    let paths: Vec<&Path> = paths.iter().map(Path::new).collect();
    let user = user.parse().unwrap();
    // SAFETY: the calls change this process only, which has one thread that matters.
    assert_eq!(unsafe { (libc::setgid(user), libc::setuid(user)) }, (0, 0));
    match (action, &paths[..]) {
        ("agent", [pid]) => return trace(pid.to_str().unwrap().parse().unwrap()),
        ("fifo", [path]) => leave_fifo(path),
        ("call", [file, library]) => return map_and_call(file, library),
        ("map", paths) => paths.iter().for_each(|path| map(path)),
        ("junk", [dir, count]) => {
            let count: usize = count.to_str().unwrap().parse().unwrap();
            (0..count).for_each(|number| map_junk(dir, number));
        }
        other => panic!("{other:?}"),
    }
    println!("{READY}{}", std::process::id());
    std::io::stdin().lock().read_to_end(&mut Vec::new()).unwrap();
}

/// Maps a file as code.
fn map(path: &Path) {
    let file = File::open(path).unwrap();
    let (protection, flags) = (libc::PROT_READ | libc::PROT_EXEC, libc::MAP_PRIVATE);
    // SAFETY: the kernel chooses the address, and nothing accesses the memory.
    let at = unsafe { libc::mmap(std::ptr::null_mut(), PAGE, protection, flags, file.as_raw_fd(), 0) };
    assert_ne!(at, libc::MAP_FAILED, "{}", std::io::Error::last_os_error());
}

/// Maps a new file with the name of a library, which is none.
fn map_junk(dir: &Path, number: usize) {
    let path = dir.join(format!("libcudart-{:x}{number:03x}.so.12", std::process::id()));
    std::fs::write(&path, [0; PAGE]).unwrap();
    map(&path);
}

/// Maps a file, removes it, and leaves a FIFO at the path that the kernel reports of the mapping from then on.
fn leave_fifo(path: &Path) {
    map(path);
    std::fs::remove_file(path).unwrap();
    let fifo = format!("{} (deleted)", path.display());
    let fifo = std::ffi::CString::new(Path::new(&fifo).as_os_str().as_bytes()).unwrap();
    // SAFETY: the path is terminated.
    assert_eq!(unsafe { libc::mkfifo(fifo.as_ptr(), 0o600) }, 0);
}

/// Traces a process, reads once, and prints what is not observed.
fn trace(pid: u32) {
    let mut capture = Capture::start(&settings()).unwrap();
    capture.trace(pid).unwrap();
    event::EventSource::read(&mut capture, &mut Vec::new()).unwrap();
    println!("{READY}{:?}", capture.coverage(pid).unwrap());
    std::io::stdin().lock().read_to_end(&mut Vec::new()).unwrap();
}

/// Maps a file and a library, prints that it is ready, waits for a line, and calls the library.
fn map_and_call(file: &Path, library: &Path) {
    map(file);
    // SAFETY: the initialisers of a stub have no preconditions.
    let library = unsafe { libloading::Library::new(library) }.unwrap();
    // SAFETY: the symbol is a C function of two integers.
    let function =
        unsafe { library.get::<unsafe extern "C" fn(*mut u64, u64) -> u32>("cudaMalloc") }.unwrap();
    println!("{READY}{}", std::process::id());
    let mut input = std::io::stdin().lock();
    input.read_line(&mut String::new()).unwrap();
    let mut address = 0;
    // SAFETY: the function writes an address to its first argument.
    unsafe { function(&raw mut address, 64) };
    input.read_to_end(&mut Vec::new()).unwrap();
}

/// A process of a test, which is killed on drop.
pub struct Acting {
    child: Child,
    lines: Receiver<String>,
}

impl Acting {
    /// Starts a process and waits until it is ready. Returns it with what it printed.
    pub fn start(mut command: Command, user: u32, action: &str, arguments: &[&str]) -> (Acting, String) {
        let lines = [&[&*user.to_string(), action], arguments].concat().join("\n");
        command.env(CALLER, lines).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let lines = lines_of(child.stdout.take().unwrap());
        let acting = Acting { child, lines };
        let ready = acting.line();
        (acting, ready)
    }

    fn line(&self) -> String {
        let line = self.lines.recv_timeout(WATCHDOG).expect("the process is not blocked, and does not fail");
        line.split_once(READY).unwrap().1.to_owned()
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Lets the process go on that waits for a line.
    pub fn go(&self) {
        self.child.stdin.as_ref().unwrap().write_all(b"\n").unwrap();
    }

    /// Lets the process end, and fails if it does not.
    fn end(mut self) {
        drop(self.child.stdin.take());
        let status = self.lines.recv_timeout(WATCHDOG);
        assert!(status.is_err_and(|e| e == std::sync::mpsc::RecvTimeoutError::Disconnected), "it ends");
    }
}

impl Drop for Acting {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Returns the lines by which the process is ready, as they come.
fn lines_of(output: ChildStdout) -> Receiver<String> {
    let (sender, receiver) = channel();
    std::thread::spawn(move || {
        let lines = BufReader::new(output).lines().map_while(Result::ok);
        lines.filter(|line| line.contains(READY)).for_each(|line| drop(sender.send(line)));
    });
    receiver
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
fn library_in(dir: &Path, library: Library) -> PathBuf {
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
    let (attacker, _) = Acting::start(own_program(), USER, "fifo", &[path.to_str().unwrap()]);
    let pid = attacker.pid().to_string();
    let (agent, coverage) = Acting::start(with_documented_capabilities(), ROOT, "agent", &[&pid]);
    assert!(coverage.contains("Fifo: expected a regular file"), "{coverage}");
    agent.end();
}

/// Returns the program in a user namespace of another user, where the file is at the second path, too.
fn with_file_at(file: &Path, also_at: &Path) -> Command {
    std::fs::write(also_at, "").unwrap();
    let mut command = Command::new("setpriv");
    command.args(["--reuid", &USER.to_string(), "--regid", &USER.to_string(), "--clear-groups"]);
    command.args(["unshare", "--user", "--map-root-user", "--mount", "sh", "-c"]);
    command.arg("mount --bind \"$0\" \"$1\" && shift && exec \"$@\"").args([file, also_at]);
    // The program itself may be in a directory that other users cannot read.
    let program = also_at.with_file_name("program");
    let _ = std::fs::hard_link(std::env::current_exe().unwrap(), &program);
    command.arg(program);
    command.args(["calling_process", "--exact", "--nocapture", "--quiet"]);
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
        Acting::start(with_file_at(&file, &also_at), ROOT, "map", &[also_at.to_str().unwrap()]);
    rig.capture.trace(attacker.pid()).unwrap();
    let (observed, gaps) = rig.capture.coverage(attacker.pid()).unwrap();
    assert!(observed.is_empty() && gaps[0].contains("none of the probed functions"), "{observed:?} {gaps:?}");
    let (victim, _) = Acting::start(own_program(), OTHER_USER, "map", &[file.to_str().unwrap()]);
    rig.capture.trace(victim.pid()).unwrap();
    let (observed, gaps) = rig.capture.coverage(victim.pid()).unwrap();
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
    let map_junk = |count: usize| {
        Acting::start(own_program(), USER, "junk", &[dir.to_str().unwrap(), &count.to_string()]).0
    };
    let attacker = map_junk(JUNK);
    let more: Vec<Acting> = (0..JUNK_PROCESSES).map(|_| map_junk(JUNK / JUNK_PROCESSES)).collect();
    [&attacker].into_iter().chain(&more).for_each(|acting| rig.capture.trace(acting.pid()).unwrap());
    rig.wait("the files to be examined", |rig| counts(rig).refused.iter().sum::<u64>() >= JUNK as u64);
    let path = library_in(&other, Library::Cudart);
    let (victim, _) = Acting::start(own_program(), OTHER_USER, "map", &[path.to_str().unwrap()]);
    rig.capture.trace(victim.pid()).unwrap();
    let (observed, gaps) = rig.capture.coverage(victim.pid()).unwrap();
    assert!(observed.iter().any(|text| text.starts_with("libcudart.so.12:")), "{observed:?} {gaps:?}");
    let counts = counts(&mut rig);
    assert!(counts.evicted[EvictionReason::Refused as usize] >= 70, "{counts:?}");
    let (_, gaps) = rig.capture.coverage(attacker.pid()).unwrap();
    assert!(gaps.len() < 100, "{} descriptions of gaps", gaps.len());
}
