//! An OTLP/HTTP server that fails in configured modes and counts the deliveries of each record.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use opentelemetry_proto::tonic::collector::logs::v1::{ExportLogsPartialSuccess, ExportLogsServiceResponse};
use opentelemetry_proto::tonic::logs::v1::LogsData;
use prost::Message as _;

/// The behaviour of the server.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Mood {
    /// Accepts everything.
    Takes,
    /// Is unavailable.
    Refuses,
    /// Is busy, with a retry delay.
    Busy,
    /// Accepts everything after a delay.
    Slow,
    /// Resets the connection before accepting anything.
    Resets,
    /// Accepts everything and resets the connection instead of answering.
    ResetsLate,
    /// Accepts everything and reports a partial success, after which the request must not be sent again.
    Rejects,
}

impl Mood {
    pub const ALL: [Mood; 7] =
        [Mood::Takes, Mood::Refuses, Mood::Busy, Mood::Slow, Mood::Resets, Mood::ResetsLate, Mood::Rejects];
}

struct Shared {
    mood: Mutex<Mood>,
    delivered: Mutex<BTreeMap<u64, usize>>,
    unanswered: Mutex<usize>,
}

/// The server. Its threads end with the test.
pub struct Backend {
    pub address: SocketAddr,
    shared: Arc<Shared>,
}

impl Backend {
    pub fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let shared = Arc::new(Shared {
            mood: Mutex::new(Mood::Takes),
            delivered: Mutex::default(),
            unanswered: Mutex::default(),
        });
        let accepting = shared.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let shared = accepting.clone();
                std::thread::spawn(move || shared.serve(stream));
            }
        });
        Backend { address, shared }
    }

    pub fn set(&self, mood: Mood) {
        *self.shared.mood.lock().unwrap() = mood;
    }

    /// Returns the number of deliveries of each record.
    pub fn delivered(&self) -> BTreeMap<u64, usize> {
        self.shared.delivered.lock().unwrap().clone()
    }

    /// Returns the number of records received without an acknowledgement to the sender.
    pub fn unanswered(&self) -> usize {
        *self.shared.unanswered.lock().unwrap()
    }
}

impl Shared {
    fn serve(&self, stream: TcpStream) {
        let _ = stream.set_nodelay(true);
        let mut reader = BufReader::new(stream);
        while let Some(body) = read_request(&mut reader) {
            let ids = ids(&body);
            let mood = *self.mood.lock().unwrap();
            let Some(answer) = self.answer(mood, &ids) else { return };
            if reader.get_mut().write_all(&answer).is_err() {
                *self.unanswered.lock().unwrap() += ids.len();
                return;
            }
        }
    }

    /// Returns the answer; `None` if the connection is reset.
    fn answer(&self, mood: Mood, ids: &[u64]) -> Option<Vec<u8>> {
        match mood {
            Mood::Takes => self.take(ids),
            Mood::Slow => {
                std::thread::sleep(Duration::from_millis(40));
                self.take(ids);
            }
            Mood::Refuses => return Some(response("503 Service Unavailable", "", &[])),
            Mood::Busy => return Some(response("429 Too Many Requests", "retry-after: 0\r\n", &[])),
            Mood::Resets => return None,
            Mood::ResetsLate => {
                self.take(ids);
                *self.unanswered.lock().unwrap() += ids.len();
                return None;
            }
            Mood::Rejects => {
                self.take(ids);
                let rejected = ExportLogsPartialSuccess {
                    rejected_log_records: 1,
                    error_message: "one is too many".to_owned(),
                };
                let body = ExportLogsServiceResponse { partial_success: Some(rejected) };
                return Some(response("200 OK", "", &body.encode_to_vec()));
            }
        }
        Some(response("200 OK", "", &[]))
    }

    fn take(&self, ids: &[u64]) {
        let mut delivered = self.delivered.lock().unwrap();
        ids.iter().for_each(|id| *delivered.entry(*id).or_default() += 1);
    }
}

fn ids(body: &[u8]) -> Vec<u64> {
    let data = LogsData::decode(body).expect("what comes is OTLP");
    let scopes = data.resource_logs.iter().flat_map(|r| &r.scope_logs);
    scopes.flat_map(|s| &s.log_records).map(|record| record.time_unix_nano).collect()
}

/// Returns the body of the next request; `None` if the connection ends before it is complete.
fn read_request(reader: &mut BufReader<TcpStream>) -> Option<Vec<u8>> {
    let mut length = 0;
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line).ok()? == 0 {
            return None;
        }
        let line = line.trim_end().to_ascii_lowercase();
        if let Some(value) = line.strip_prefix("content-length:") {
            length = value.trim().parse().ok()?;
        }
        if line.is_empty() {
            break;
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    Some(body)
}

fn response(status: &str, headers: &str, body: &[u8]) -> Vec<u8> {
    let length = body.len();
    let mut response = format!(
        "HTTP/1.1 {status}\r\n{headers}content-type: application/x-protobuf\r\ncontent-length: {length}\r\n\r\n"
    )
    .into_bytes();
    response.extend(body);
    response
}
