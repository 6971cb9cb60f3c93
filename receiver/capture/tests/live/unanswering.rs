//! Processes that never answer: their libraries or their memory are on a file system in user space that keeps pages back.

#![expect(unsafe_code, reason = "mounts a file system")]

use std::ffi::CString;
use std::fs::File;
use std::io::{Read as _, Write as _};
use std::os::fd::AsRawFd as _;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use event::{Event, EventSource as _, RefusalReason};

use crate::hostile::{Acting, USER, counts, directory, own_program};
use crate::pins;
use crate::rig::{Rig, rig, settings};

/// The numbers of requests and the sizes of their answers (include/uapi/linux/fuse.h).
const LOOKUP: u32 = 1;
const GETATTR: u32 = 3;
const OPEN: u32 = 14;
const READ: u32 = 15;
const INIT: u32 = 26;
const HEADER_BYTES: usize = 16;
const ATTR_BYTES: usize = 88;
const ROOT_NODE: u64 = 1;
const FILE_NODE: u64 = 2;
const FILE_BYTES: u64 = 1 << 20;
/// The name of the only file.
const NAME: &str = "libcudart.so.12";
/// Longer than a read of the capture may take, also on a busy machine.
const READ_MAX: Duration = Duration::from_secs(1);

/// A file system with one file, whose pages never come. Dropping it ends it with an error for who waits.
struct Unanswering {
    dir: PathBuf,
    server: Option<File>,
    asked: mpsc::Receiver<()>,
}

impl Unanswering {
    /// Mounts it for this user; returns `None`, with the reason printed, where that cannot be done.
    fn mount(dir: PathBuf, user: u32) -> Option<Unanswering> {
        std::fs::create_dir_all(&dir).unwrap();
        let server = File::options().read(true).write(true).open("/dev/fuse");
        let server = server.inspect_err(|e| println!("skipped: /dev/fuse: {e}")).ok()?;
        let fd = server.as_raw_fd();
        let options = format!("fd={fd},rootmode=40000,user_id={user},group_id={user},allow_other");
        let [target, options] =
            [dir.as_os_str().as_bytes(), options.as_bytes()].map(|s| CString::new(s).unwrap());
        let (source, kind) = (c"unanswering", c"fuse");
        // SAFETY: all pointers are to strings that end with a zero byte.
        let mounted = unsafe {
            libc::mount(source.as_ptr(), target.as_ptr(), kind.as_ptr(), 0, options.as_ptr().cast())
        };
        if mounted != 0 {
            println!("skipped: cannot mount a file system: {}", std::io::Error::last_os_error());
            return None;
        }
        let (answering, (sender, asked)) = (server.try_clone().unwrap(), mpsc::channel());
        std::thread::spawn(move || serve(answering, || sender.send(()).unwrap_or_default()));
        Some(Unanswering { dir, server: Some(server), asked })
    }

    fn file(&self) -> PathBuf {
        self.dir.join(NAME)
    }

    /// Ends the file system: who waits for a page gets an error.
    fn end(&mut self) {
        self.server = None;
        let target = CString::new(self.dir.as_os_str().as_bytes()).unwrap();
        // SAFETY: the pointer is to a string that ends with a zero byte.
        unsafe { libc::umount2(target.as_ptr(), libc::MNT_FORCE | libc::MNT_DETACH) };
    }
}

impl Drop for Unanswering {
    fn drop(&mut self) {
        self.end();
    }
}

/// Answers all requests except those for pages, of which it is noted that there is one, until the file system ends.
fn serve(mut server: File, mut note: impl FnMut()) {
    let mut request = vec![0; 1 << 17];
    while let Ok(length) = server.read(&mut request) {
        let word = |at: usize| u32::from_ne_bytes(request[at..at + 4].try_into().unwrap());
        let long = |at: usize| u64::from_ne_bytes(request[at..at + 8].try_into().unwrap());
        assert!(length >= 40, "a request has a header");
        let (operation, unique, node) = (word(4), long(8), long(16));
        let answer = match operation {
            INIT => init(),
            LOOKUP => [words([FILE_NODE, 0, 1, 1, 0]).as_slice(), &attributes(FILE_NODE)].concat(),
            GETATTR => [words([1, 0]).as_slice(), &attributes(node)].concat(),
            OPEN => words([0, 0]),
            READ => {
                note();
                continue;
            }
            // The answer to all others is that they are not supported; some want none, and ignore it.
            _ => Vec::new(),
        };
        let error: i32 = if answer.is_empty() { -libc::ENOSYS } else { 0 };
        let length = (HEADER_BYTES + answer.len()) as u32;
        let header = [&length.to_ne_bytes()[..], &error.to_ne_bytes(), &unique.to_ne_bytes()].concat();
        let _ = server.write(&[header, answer].concat());
    }
}

fn words<const N: usize>(words: [u64; N]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_ne_bytes()).collect()
}

/// Version 7.31 of the protocol, without further features.
fn init() -> Vec<u8> {
    let mut answer = vec![0; 64];
    answer[0..4].copy_from_slice(&7u32.to_ne_bytes());
    answer[4..8].copy_from_slice(&31u32.to_ne_bytes());
    answer[20..24].copy_from_slice(&4096u32.to_ne_bytes());
    answer
}

/// The attributes of the directory or the file: inode number, size, mode and number of links.
fn attributes(node: u64) -> [u8; ATTR_BYTES] {
    let is_root = node == ROOT_NODE;
    let mode: u32 = if is_root { 0o040_755 } else { 0o100_755 };
    let mut attributes = [0; ATTR_BYTES];
    attributes[0..8].copy_from_slice(&node.to_ne_bytes());
    attributes[8..16].copy_from_slice(&(if is_root { 0 } else { FILE_BYTES }).to_ne_bytes());
    attributes[60..64].copy_from_slice(&mode.to_ne_bytes());
    attributes[64..68].copy_from_slice(&1u32.to_ne_bytes());
    attributes
}

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

fn mapping(path: &Path) -> (Acting, String) {
    Acting::start(own_program(), USER, "map", &[path.to_str().unwrap()])
}

/// The kernel reads a page of a file before it probes it, and no process can fork meanwhile.
#[test]
fn library_that_a_user_serves_is_refused_and_not_read() {
    let Some(mut rig) = rig("served", &settings()) else { return };
    let Some(dir) = directory(&rig, USER) else { return };
    let Some(files) = Unanswering::mount(dir.join("mount"), USER) else { return };
    let (attacker, _) = mapping(&files.file());
    rig.capture.trace(attacker.pid()).unwrap();
    let (_, gaps) = rig.capture.coverage(attacker.pid()).unwrap();
    assert!(gaps.iter().any(|gap| gap.contains("that user 61001 serves")), "{gaps:?}");
    assert_eq!(counts(&mut rig).refused[RefusalReason::Untrusted as usize], 1);
    assert!(files.asked.try_recv().is_err(), "no page was asked for");
    play(&mut rig);
}

/// A file system of root is trusted to answer, as NFS is, and may fail to.
#[test]
fn file_system_that_does_not_answer_stops_neither_others_nor_the_end() {
    let Some(mut rig) = rig("unanswered", &settings()) else { return };
    let Some(dir) = directory(&rig, USER) else { return };
    let Some(mut files) = Unanswering::mount(dir.join("mount"), 0) else { return };
    let (attacker, _) = mapping(&files.file());
    rig.capture.trace(attacker.pid()).unwrap();
    files.asked.recv_timeout(READ_MAX).unwrap();
    let (_, gaps) = rig.capture.coverage(attacker.pid()).unwrap();
    assert!(gaps.iter().any(|gap| gap.contains("does not answer")), "{gaps:?}");
    assert!(counts(&mut rig).unanswered > 0);
    play(&mut rig);
    files.end();
    let pid = attacker.pid();
    rig.wait("the end of the look", |rig| {
        let gaps = rig.capture.coverage(pid).unwrap().1;
        !gaps.iter().any(|gap| gap.contains("does not answer"))
    });
}

#[test]
fn capture_ends_while_a_file_system_does_not_answer() {
    let Some(mut rig) = rig("end", &settings()) else { return };
    let Some(dir) = directory(&rig, USER) else { return };
    let Some(files) = Unanswering::mount(dir.join("mount"), 0) else { return };
    let (attacker, _) = mapping(&files.file());
    rig.capture.trace(attacker.pid()).unwrap();
    files.asked.recv_timeout(READ_MAX).unwrap();
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
    let (keeper, _) = mapping(Path::new(library));
    rig.capture.trace(keeper.pid()).unwrap();
    let (attacker, _) = Acting::start(own_program(), USER, "call", &[file.to_str().unwrap(), library]);
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
