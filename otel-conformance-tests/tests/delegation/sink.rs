//! A server that accepts every request over HTTP and keeps the bodies, for exporters of other protocols.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

/// The server. Its threads end with the test.
pub struct Sink {
    pub port: u16,
    bodies: Arc<Mutex<Vec<String>>>,
}

impl Sink {
    pub fn start() -> Sink {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let bodies = Arc::<Mutex<Vec<String>>>::default();
        let kept = bodies.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let kept = kept.clone();
                std::thread::spawn(move || serve(stream, &kept));
            }
        });
        Sink { port, bodies }
    }

    /// Removes and returns the bodies so far.
    pub fn take(&self) -> Vec<String> {
        std::mem::take(&mut *self.bodies.lock().unwrap())
    }
}

fn serve(stream: TcpStream, kept: &Mutex<Vec<String>>) {
    let mut reader = BufReader::new(stream);
    loop {
        let (mut length, mut line) = (0, String::new());
        loop {
            line.clear();
            if reader.read_line(&mut line).unwrap_or(0) == 0 {
                return;
            }
            let lower = line.trim_end().to_ascii_lowercase();
            if let Some(value) = lower.strip_prefix("content-length:") {
                length = value.trim().parse().unwrap();
            }
            if lower.is_empty() {
                break;
            }
        }
        let mut body = vec![0; length];
        if reader.read_exact(&mut body).is_err() {
            return;
        }
        let body = String::from_utf8_lossy(&body).into_owned();
        if !body.is_empty() {
            kept.lock().unwrap().push(body);
        }
        // Elasticsearch's clients expect its name and a list of results.
        let answer = r#"{"took":1,"errors":false,"items":[]}"#;
        let head = format!(
            "HTTP/1.1 200 OK\r\nx-elastic-product: Elasticsearch\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
            answer.len()
        );
        if reader.get_mut().write_all(format!("{head}{answer}").as_bytes()).is_err() {
            return;
        }
    }
}
