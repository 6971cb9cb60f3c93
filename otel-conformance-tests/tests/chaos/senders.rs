//! Threads that send numbered records continuously and note the acknowledged ones.

use std::collections::BTreeSet;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use opentelemetry_proto::tonic::common::v1::{AnyValue, any_value::Value};
use opentelemetry_proto::tonic::logs::v1::{LogRecord, LogsData, ResourceLogs, ScopeLogs};
use prost::Message as _;

use crate::dice::Dice;

/// The maximum number of records of a request.
pub const RECORDS_MAX: usize = 20;

const THREADS: u64 = 4;

/// Time limit of an answer; a request without one may or may not have been accepted.
const ANSWER_WITHIN: Duration = Duration::from_secs(10);

#[derive(Default)]
struct Shared {
    target: Mutex<Option<SocketAddr>>,
    next_id: AtomicU64,
    stops: AtomicBool,
    acknowledged: Mutex<BTreeSet<u64>>,
    unsure: Mutex<BTreeSet<u64>>,
}

/// The sending threads.
pub struct Senders {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

/// The result of a request.
enum Answer {
    Taken,
    Refused,
    /// The connection ended without an answer.
    Unknown,
}

impl Senders {
    /// Starts the threads, paused.
    pub fn start() -> Self {
        let shared = Arc::<Shared>::default();
        let run = |n| {
            let shared = shared.clone();
            std::thread::spawn(move || work(&shared, Dice::of(n)))
        };
        let threads = (0..THREADS).map(run).collect();
        Senders { shared, threads }
    }

    /// Sets the address to send to; `None` pauses the senders.
    pub fn send_to(&self, target: Option<SocketAddr>) {
        *self.shared.target.lock().unwrap() = target;
    }

    /// Returns the number of acknowledged records.
    pub fn acknowledged(&self) -> usize {
        self.shared.acknowledged.lock().unwrap().len()
    }

    /// Stops the threads; returns the acknowledged records, and those whose requests were not answered.
    pub fn stop(&mut self) -> (BTreeSet<u64>, BTreeSet<u64>) {
        self.shared.stops.store(true, Ordering::Relaxed);
        self.threads.drain(..).for_each(|thread| thread.join().unwrap());
        let take = |set: &Mutex<BTreeSet<u64>>| std::mem::take(&mut *set.lock().unwrap());
        (take(&self.shared.acknowledged), take(&self.shared.unsure))
    }
}

fn work(shared: &Shared, mut dice: Dice) {
    let mut connection: Option<(SocketAddr, TcpStream)> = None;
    while !shared.stops.load(Ordering::Relaxed) {
        let target = *shared.target.lock().unwrap();
        let Some(target) = target else {
            connection = None;
            std::thread::sleep(Duration::from_millis(1));
            continue;
        };
        let kept = connection.take().filter(|(address, _)| *address == target);
        let Some((_, mut stream)) = kept.or_else(|| Some((target, connect(target)?))) else { continue };
        let count = 1 + dice.below(RECORDS_MAX as u64);
        let begin = shared.next_id.fetch_add(count, Ordering::Relaxed);
        let ids = begin..begin + count;
        match exchange(&mut stream, &request(ids.clone(), &mut dice)) {
            Answer::Taken => shared.acknowledged.lock().unwrap().extend(ids),
            Answer::Refused => {}
            Answer::Unknown => {
                shared.unsure.lock().unwrap().extend(ids);
                continue;
            }
        }
        connection = Some((target, stream));
    }
}

fn connect(target: SocketAddr) -> Option<TcpStream> {
    let stream = TcpStream::connect(target).ok()?;
    stream.set_read_timeout(Some(ANSWER_WITHIN)).ok()?;
    stream.set_nodelay(true).ok()?;
    Some(stream)
}

fn request(ids: std::ops::Range<u64>, dice: &mut Dice) -> Vec<u8> {
    // Most are small; some are larger than a page of the storage.
    let length = if dice.below(50) == 0 { 20_000 } else { dice.below(300) } as usize;
    let record = |id| LogRecord {
        time_unix_nano: id,
        body: Some(AnyValue { value: Some(Value::StringValue("x".repeat(length))) }),
        ..LogRecord::default()
    };
    let scope = ScopeLogs { log_records: ids.map(record).collect(), ..ScopeLogs::default() };
    let resource = ResourceLogs { scope_logs: vec![scope], ..ResourceLogs::default() };
    let body = LogsData { resource_logs: vec![resource] }.encode_to_vec();
    let mut request = format!(
        "POST /v1/logs HTTP/1.1\r\nhost: agent\r\ncontent-type: application/x-protobuf\r\ncontent-length: {}\r\n\r\n",
        body.len()
    )
    .into_bytes();
    request.extend(body);
    request
}

fn exchange(stream: &mut TcpStream, request: &[u8]) -> Answer {
    if stream.write_all(request).is_err() {
        return Answer::Unknown;
    }
    match response(stream) {
        Some(200) => Answer::Taken,
        Some(_) => Answer::Refused,
        None => Answer::Unknown,
    }
}

/// Reads an answer completely; returns its status, or `None` if it is cut off.
fn response(stream: &mut TcpStream) -> Option<u16> {
    let mut head = Vec::new();
    let mut byte = [0];
    while !head.ends_with(b"\r\n\r\n") {
        stream.read_exact(&mut byte).ok()?;
        head.extend(byte);
    }
    let head = String::from_utf8(head).ok()?.to_ascii_lowercase();
    let length = head.lines().find_map(|line| line.strip_prefix("content-length:"));
    let mut body = vec![0; length.map_or(Some(0), |length| length.trim().parse().ok())?];
    stream.read_exact(&mut body).ok()?;
    head.split(' ').nth(1)?.parse().ok()
}
