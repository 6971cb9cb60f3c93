//! The attacks: some last, the others are repeated with new processes and files in every round.

use std::fmt;
use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::fs::chown;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use simulator::attacks::{Acting, Unanswering, install_long_names, install_oversized, with_file_at};
use transport::compress::{Compression, Level};

use crate::{ATTACKER, CALLER};

/// Time between two requests that decompress to millions of spans.
const SEND_EVERY: Duration = Duration::from_secs(1);
/// Spans in such a request: 16 MB, fewer than the receiver takes of bytes.
const SPANS: usize = 8_000_000;
/// Connections whose request never comes.
const SLOW: usize = 200;
/// Junk files that one process maps.
const JUNK: usize = 1_100;

/// A user without privileges.
pub struct Attacker {
    dir: PathBuf,
    http: SocketAddr,
    /// Processes and file systems of the whole time, and of this round.
    lasting: Vec<Acting>,
    file_systems: Vec<Unanswering>,
    acting: Vec<Acting>,
    slow: Vec<TcpStream>,
    sending: Option<JoinHandle<()>>,
    sent: Arc<Sent>,
    rounds: usize,
    /// Attacks that this machine does not permit.
    missing: Vec<&'static str>,
}

#[derive(Default)]
struct Sent {
    refused: AtomicU64,
    others: AtomicU64,
    is_over: AtomicBool,
}

impl Attacker {
    pub fn new(dir: PathBuf, http: SocketAddr) -> Attacker {
        Attacker {
            dir,
            http,
            lasting: Vec::new(),
            file_systems: Vec::new(),
            acting: Vec::new(),
            slow: Vec::new(),
            sending: None,
            sent: Arc::default(),
            rounds: 0,
            missing: Vec::new(),
        }
    }

    /// Begins what lasts: processes that replace a library, start and end others, map files that never come; requests.
    pub fn begin(&mut self) {
        let dir = directory(&self.dir, "lasting");
        let library = library(&dir, "libcudart.so.12");
        for (action, path) in [("replace", &library), ("flicker", &dir)] {
            self.lasting.push(act(own_program(), action, &[path]));
        }
        match Unanswering::mount(dir.join("served"), ATTACKER) {
            None => self.missing.push("file systems that never answer"),
            Some(files) => {
                self.lasting.push(act(own_program(), "map", &[&files.file()]));
                self.file_systems.push(files);
            }
        }
        self.slow = (0..SLOW).map(|_| TcpStream::connect(self.http).unwrap()).collect();
        self.slow.iter().for_each(|mut stream| stream.write_all(b"POST /v1/traces HT").unwrap());
        let (http, sent) = (self.http, self.sent.clone());
        self.sending = Some(std::thread::spawn(move || send(http, &sent)));
    }

    /// Attacks with new processes and files.
    pub fn attack(&mut self) {
        self.rounds += 1;
        let dir = directory(&self.dir, &format!("\x1b]0;{}\x07\r", self.rounds));
        let at = |name: &str| directory(&dir, name);
        let named = at("named");
        let (copy, other) = (library(&named, "libcudart.so.12"), named.join("libnccl.so.2"));
        let mut in_namespace = with_file_at(ATTACKER, &copy, &other);
        in_namespace.args(own_program().get_args());
        let (long, sparse, many) =
            (at("long").join("libcudart.so.12"), at("sparse").join("libcuda.so.1"), at("many"));
        install_long_names(&long).and_then(|()| install_oversized(&sparse)).unwrap();
        fs::write(many.join("data"), [0; 4096]).unwrap();
        let mut large = own_program();
        large.env("OTEL_RESOURCE_ATTRIBUTES", format!("k={},", "v".repeat(500)).repeat(200));
        large.args(std::iter::repeat_n("--skip=x".repeat(1_000), 20));
        let fifo = library(&at("fifo"), "libcudart.so.12");
        let mut acting = vec![
            act(own_program(), "fifo", &[&fifo]),
            act(own_program(), "map", &[&long]),
            act(own_program(), "map", &[&sparse]),
            act(own_program(), "many", &[&library(&many, "libcudart.so.12"), &many.join("data")]),
            act(own_program(), "junk", &[&at("junk"), Path::new(&JUNK.to_string())]),
            // The user is root there.
            act_as(0, in_namespace, "map", &[&other]),
        ];
        for (action, program) in [("call", large), ("stop", own_program()), ("suspend", own_program())] {
            let process = act(program, action, &[&library(&at(action), "libcudart.so.12")]);
            process.go();
            acting.push(process);
        }
        self.acting = acting;
    }

    /// Ends the processes of this round, and removes its files.
    pub fn pause(&mut self) {
        self.acting.clear();
        fs::remove_dir_all(self.dir.join(format!("\x1b]0;{}\x07\r", self.rounds))).unwrap();
    }
}

impl Drop for Attacker {
    fn drop(&mut self) {
        self.sent.is_over.store(true, Ordering::Relaxed);
        self.file_systems.clear();
        let _ = self.sending.take().map(JoinHandle::join);
    }
}

impl fmt::Display for Attacker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (refused, others) =
            (self.sent.refused.load(Ordering::Relaxed), self.sent.others.load(Ordering::Relaxed));
        write!(f, "attacker: {} rounds; {refused} requests refused, {others} not", self.rounds)?;
        if self.missing.is_empty() { Ok(()) } else { write!(f, "; without {:?}", self.missing) }
    }
}

fn own_program() -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["hostile_process", "--exact", "--nocapture", "--quiet"]);
    command
}

fn act(program: Command, action: &str, paths: &[&Path]) -> Acting {
    act_as(ATTACKER, program, action, paths)
}

fn act_as(user: u32, program: Command, action: &str, paths: &[&Path]) -> Acting {
    let paths: Vec<&str> = paths.iter().map(|path| path.to_str().unwrap()).collect();
    Acting::start(program, CALLER, user, action, &paths).0
}

/// Creates a directory of the attacker.
fn directory(dir: &Path, name: &str) -> PathBuf {
    let dir = dir.join(name);
    fs::create_dir(&dir).unwrap();
    chown(&dir, Some(ATTACKER), Some(ATTACKER)).unwrap();
    dir
}

/// Creates a copy of the CUDA runtime of the attacker.
fn library(dir: &Path, name: &str) -> PathBuf {
    let (stubs, path) = (simulator::install(&dir.join("stubs")).unwrap(), dir.join(name));
    fs::copy(stubs.cudart, &path).unwrap();
    chown(&path, Some(ATTACKER), Some(ATTACKER)).unwrap();
    path
}

/// Sends requests of a few KB that decompress to millions of empty spans, until it is over.
fn send(to: SocketAddr, sent: &Sent) {
    let spans = [0x12, 0].repeat(SPANS);
    let field = |bytes: &[u8]| [&[0x0a_u8][..], &varint(bytes.len()), bytes].concat();
    let scope = [&[0x12_u8][..], &varint(spans.len()), &spans].concat();
    let body = Compression::Gzip.compress(Level::default(), &field(&scope));
    let head = format!(
        "POST /v1/traces HTTP/1.1\r\nhost: h\r\nconnection: close\r\ncontent-type: application/x-protobuf\r\n\
         content-encoding: gzip\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    while !sent.is_over.load(Ordering::Relaxed) {
        let is_refused = ask(to, &[head.as_bytes(), &body].concat())
            .is_ok_and(|answer| answer.starts_with(b"HTTP/1.1 413"));
        if is_refused { &sent.refused } else { &sent.others }.fetch_add(1, Ordering::Relaxed);
        std::thread::sleep(SEND_EVERY);
    }
}

fn ask(to: SocketAddr, request: &[u8]) -> std::io::Result<Vec<u8>> {
    let (mut stream, mut answer) = (TcpStream::connect(to)?, Vec::new());
    stream.write_all(request)?;
    stream.read_to_end(&mut answer).map(|_| answer)
}

/// Returns a number as in protocol buffers.
fn varint(mut number: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    while number >= 0x80 {
        bytes.push(number as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
    bytes
}
