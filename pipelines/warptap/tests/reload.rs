//! Reloads of the binary by SIGHUP: an invalid configuration changes nothing, a valid one is applied, and an
//! unchanged component runs without interruption.

#![allow(clippy::unwrap_used, reason = "whatever fails here fails the test")]

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, ChildStderr, Command, Stdio};

use tempfile::TempDir;

struct Collector {
    process: Child,
    log: BufReader<ChildStderr>,
    folder: TempDir,
    port: u16,
}

impl Collector {
    fn start() -> Self {
        let folder = TempDir::new().unwrap();
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        write_config(folder.path(), port, "path", "a.jsonl");
        let mut process = Command::new(env!("CARGO_BIN_EXE_warptap"))
            .arg("--config")
            .arg(folder.path().join("config.yaml"))
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let log = BufReader::new(process.stderr.take().unwrap());
        let mut collector = Collector { process, log, folder, port };
        collector.until("Everything is ready");
        collector
    }

    /// Reads the log up to a line with `part`.
    fn until(&mut self, part: &str) -> String {
        let mut line = String::new();
        while self.log.read_line(&mut line).unwrap() > 0 {
            if line.contains(part) {
                return line;
            }
            line.clear();
        }
        panic!("the log ended without {part:?}");
    }

    fn signal(&self, name: &str) {
        let status = Command::new("kill").args([name, &self.process.id().to_string()]).status().unwrap();
        assert!(status.success());
    }

    fn reload(&mut self, key: &str, file: &str, message: &str) -> String {
        write_config(self.folder.path(), self.port, key, file);
        self.signal("-HUP");
        self.until(message)
    }

    /// Posts one log record on the connection, and returns the beginning of the status line.
    fn post(&self, stream: &mut TcpStream, body: &str) -> String {
        let json = format!(
            r#"{{"resourceLogs":[{{"scopeLogs":[{{"logRecords":[{{"body":{{"stringValue":"{body}"}}}}]}}]}}]}}"#
        );
        write!(
            stream,
            "POST /v1/logs HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{json}",
            json.len()
        )
        .unwrap();
        let mut response = [0; 12];
        stream.read_exact(&mut response).unwrap();
        let mut rest = [0; 4096];
        assert!(stream.read(&mut rest).unwrap() > 0);
        String::from_utf8_lossy(&response).into_owned()
    }

    fn written(&self, file: &str) -> Vec<String> {
        let text = std::fs::read_to_string(self.folder.path().join(file)).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }
}

fn write_config(folder: &Path, port: u16, key: &str, file: &str) {
    let path = folder.join(file);
    let yaml = format!(
        "receivers: {{otlp: {{protocols: {{http: {{endpoint: 'localhost:{port}'}}}}}}}}
exporters: {{file: {{append: true, {key}: {}}}}}
service: {{telemetry: {{metrics: {{level: none}}}}, pipelines: {{logs: {{receivers: [otlp], exporters: [file]}}}}}}
",
        path.display()
    );
    std::fs::write(folder.join("config.yaml"), yaml).unwrap();
}

#[test]
fn a_reload_applies_only_differences_of_a_valid_configuration() {
    let mut collector = Collector::start();
    // The connection stays open, since the receiver is not restarted.
    let mut stream = TcpStream::connect(("localhost", collector.port)).unwrap();
    assert_eq!(collector.post(&mut stream, "one"), "HTTP/1.1 200");

    let line = collector.reload("psth", "b.jsonl", "configuration not reloaded");
    assert!(line.contains("the previous one is still in use"), "{line}");
    assert_eq!(collector.post(&mut stream, "two"), "HTTP/1.1 200");

    let line = collector.reload("path", "b.jsonl", "Configuration reloaded");
    assert!(line.contains("unchanged=1") || line.contains("\"unchanged\""), "{line}");
    assert_eq!(collector.post(&mut stream, "three"), "HTTP/1.1 200");

    // The folder does not exist: the exporter fails to start, and the previous one is restored.
    collector.reload("path", "none/c.jsonl", "configuration not reloaded");
    assert_eq!(collector.post(&mut stream, "four"), "HTTP/1.1 200");

    collector.signal("-TERM");
    collector.until("Shutdown complete");
    assert!(collector.process.wait().unwrap().success());
    let bodies = |file| collector.written(file).iter().map(|l| l.contains("stringValue")).collect::<Vec<_>>();
    assert_eq!((bodies("a.jsonl").len(), bodies("b.jsonl").len()), (2, 2));
}
