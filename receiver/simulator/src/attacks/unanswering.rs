//! A file system in user space (FUSE) that keeps its pages back.

use std::ffi::CString;
use std::fs::File;
use std::io::{Read as _, Write as _};
use std::os::fd::AsRawFd as _;
use std::os::unix::ffi::OsStrExt as _;
use std::path::PathBuf;
use std::sync::mpsc;
use std::time::Duration;

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

/// A file system with one file, whose pages never come. Dropping it ends it with an error for who waits.
#[derive(Debug)]
pub struct Unanswering {
    dir: PathBuf,
    server: Option<File>,
    asked: mpsc::Receiver<()>,
}

impl Unanswering {
    /// Mounts it for this user; returns `None`, with the reason printed, where that cannot be done.
    pub fn mount(dir: PathBuf, user: u32) -> Option<Unanswering> {
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

    /// Returns the path of its file, which has the name of a library.
    pub fn file(&self) -> PathBuf {
        self.dir.join(NAME)
    }

    /// Waits until a page is asked for; returns false if none was within this time.
    pub fn is_asked(&self, within: Duration) -> bool {
        self.asked.recv_timeout(within).is_ok()
    }

    /// Ends the file system: who waits for a page gets an error.
    pub fn end(&mut self) {
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
