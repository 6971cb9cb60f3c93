//! Peers in Python: an OTLP server with given answers, a client that sends given requests, the SDK as a sender, and
//! protobuf's JSON mapping of OTLP. The programs are in `python`.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use pdata::{Data, Signal};
use serde_json::Value;

use crate::peers::{self, Skip};

/// Python packages of the programs.
const PACKAGES: [&str; 6] = [
    "googleapis-common-protos>=1.63",
    "grpcio>=1.60",
    "opentelemetry-exporter-otlp-proto-grpc>=1.40",
    "opentelemetry-exporter-otlp-proto-http>=1.40",
    "opentelemetry-proto>=1.40",
    "opentelemetry-sdk>=1.40",
];

/// Longest wait for an event.
const PATIENCE: Duration = Duration::from_secs(30);

/// The protocol of a request.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Protocol {
    /// gRPC.
    Grpc,
    /// HTTP with protobuf.
    HttpProto,
    /// HTTP with JSON.
    HttpJson,
}

/// A request that the server received.
#[derive(Clone, Debug)]
pub struct Received {
    /// Protocol of the request.
    pub protocol: Protocol,
    /// Time of the request by the server's monotonic clock.
    pub at: Duration,
    /// Port of the connection.
    pub port: u64,
    /// Path of a request over HTTP.
    pub path: String,
    /// Whether it was compressed.
    pub is_gzip: bool,
    /// Its headers, or its gRPC metadata, by lower-case name.
    pub headers: Vec<(String, String)>,
    /// Message as decoded and encoded by Python's protobuf.
    pub data: Data,
}

/// A running server; killed on drop.
#[derive(Debug)]
pub struct PythonServer {
    /// Address of the gRPC endpoint.
    pub grpc: SocketAddr,
    /// Address of the HTTP endpoint.
    pub http: SocketAddr,
    lines: Receiver<String>,
    process: Child,
}

/// Starts a server on free ports that accepts everything.
pub fn python_server() -> Result<PythonServer, Skip> {
    python_server_answering(&[])
}

/// Starts a server on free ports that gives these answers, in the format of `server.py`, to the first requests.
pub fn python_server_answering(answers: &[Value]) -> Result<PythonServer, Skip> {
    let mut process = command("server.py")?
        .arg(Value::from(answers.to_vec()).to_string())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .map_err(|e| Skip(format!("python: {e}")))?;
    let stdout = process.stdout.take().expect("it is piped");
    let (sender, lines) = channel();
    std::thread::spawn(move || {
        for line in BufReader::new(stdout).lines().map_while(Result::ok) {
            if sender.send(line).is_err() {
                return;
            }
        }
    });
    let ports =
        lines.recv_timeout(PATIENCE).map_err(|e| Skip(format!("the python server printed nothing: {e}")))?;
    let ports: Value = serde_json::from_str(&ports).expect("it says its ports in JSON");
    let address = |key: &str| -> SocketAddr {
        let port = ports[key].as_u64().and_then(|port| port.try_into().ok());
        ([127, 0, 0, 1], port.expect("a port")).into()
    };
    Ok(PythonServer { grpc: address("grpc"), http: address("http"), lines, process })
}

impl PythonServer {
    /// Waits for the next request, up to [`PATIENCE`].
    pub fn next(&self) -> Received {
        self.until(PATIENCE).expect("the server receives a request in time")
    }

    /// Waits for the next request, up to `patience`.
    pub fn until(&self, patience: Duration) -> Option<Received> {
        let line = self.lines.recv_timeout(patience).ok()?;
        let received: Value = serde_json::from_str(&line).expect("it prints JSON");
        let text = |key: &str| received[key].as_str().expect("a text");
        let pair =
            |(name, value): (&String, &Value)| (name.clone(), value.as_str().unwrap_or_default().to_owned());
        Some(Received {
            protocol: match text("protocol") {
                "grpc" => Protocol::Grpc,
                "http/protobuf" => Protocol::HttpProto,
                "http/json" => Protocol::HttpJson,
                other => panic!("unknown protocol {other:?}"),
            },
            at: Duration::from_nanos(received["at_ns"].as_u64().expect("a time")),
            port: received["port"].as_u64().expect("a port"),
            path: text("path").to_owned(),
            is_gzip: text("compression") == "gzip",
            headers: received["headers"].as_object().into_iter().flatten().map(pair).collect(),
            data: from_base64(text("signal"), text("request")),
        })
    }
}

impl Drop for PythonServer {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Data that Python's SDK passed to one of its exporters, and the result.
#[derive(Clone, Debug)]
pub struct Exported {
    /// The data as the exporter encodes it.
    pub data: Data,
    /// Whether the SDK considers it sent.
    pub is_sent: bool,
}

/// Sends the data of Python's SDK with each of its exporters: all signals, or spans only.
pub fn python_sdk(spans_alone: bool, grpc: SocketAddr, http: SocketAddr) -> Result<Vec<Exported>, Skip> {
    let [grpc, http] = [grpc, http].map(|to| to.port().to_string());
    let lines = sdk(&[if spans_alone { "spans" } else { "send" }, &grpc, &http])?;
    let exported = lines.into_iter().map(|received| {
        let text = |key: &str| received[key].as_str().expect("a text");
        Exported { data: from_base64(text("signal"), text("request")), is_sent: text("result") == "SUCCESS" }
    });
    Ok(exported.collect())
}

/// Returns what two readers of Python's SDK collect from the same instruments in several rounds: cumulative and
/// delta metrics.
pub fn python_temporality() -> Result<Vec<[Data; 2]>, Skip> {
    let metrics =
        |received: &Value, key: &str| from_base64("metrics", received[key].as_str().expect("a text"));
    let lines = sdk(&["temporality"])?;
    Ok(lines.iter().map(|received| ["cumulative", "delta"].map(|key| metrics(received, key))).collect())
}

/// Returns the output lines of the SDK's program.
fn sdk(arguments: &[&str]) -> Result<Vec<Value>, Skip> {
    let output = command("sdk.py")?.args(arguments).output().map_err(|e| Skip(format!("python: {e}")))?;
    let received = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Ok(received.lines().map(|line| serde_json::from_str(line).expect("it prints JSON")).collect())
}

/// Sends requests by Python's clients, in the format of `client.py`; returns the answers.
pub fn python_client(requests: &[Value]) -> Result<Vec<Value>, Skip> {
    let lines: Vec<String> = requests.iter().map(Value::to_string).collect();
    let answers = converse(&mut command("client.py")?, &lines)?;
    assert_eq!(answers.len(), requests.len(), "each request has an answer");
    Ok(answers.iter().map(|line| serde_json::from_str(line).expect("it answers in JSON")).collect())
}

/// Writes lines to a program; returns its output lines.
pub(crate) fn converse(command: &mut Command, lines: &[String]) -> Result<Vec<String>, Skip> {
    let mut process = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .map_err(|e| Skip(format!("{command:?}: {e}")))?;
    let stdin = process.stdin.take().expect("it is piped");
    let stdout = process.stdout.take().expect("it is piped");
    let lines = lines.to_vec();
    let asking = std::thread::spawn(move || ask(stdin, &lines));
    let answers = BufReader::new(stdout).lines().map(|line| line.expect("it writes UTF-8")).collect();
    asking.join().expect("asking does not panic");
    let status = process.wait().expect("it ends");
    assert!(status.success(), "{command:?}: {status}");
    Ok(answers)
}

pub(crate) fn from_base64(signal: &str, base64: &str) -> Data {
    let bytes = STANDARD.decode(base64).expect("it writes base64");
    from_proto(Signal::STABLE.into_iter().find(|s| s.name() == signal).expect("a signal"), &bytes)
}

fn from_proto(signal: Signal, bytes: &[u8]) -> Data {
    Data::decode(signal, bytes).expect("Python writes protobuf")
}

fn to_proto(data: &Data) -> Vec<u8> {
    let mut bytes = Vec::new();
    data.encode(&mut bytes);
    bytes
}

/// Decodes each JSON text in Python and compares it with its data. Returns Python's JSON of the same data, or the
/// first difference.
pub fn json_by_python(cases: &[(Data, Vec<u8>)]) -> Result<Result<Vec<Vec<u8>>, String>, Skip> {
    let lines: Vec<String> = cases.iter().map(|(data, json)| question(data, json)).collect();
    let received = converse(&mut command("json_check.py")?, &lines)?;
    assert_eq!(received.len(), cases.len(), "each text has an answer");
    let same = received.iter().zip(cases).map(|(line, (_, json))| match line.strip_prefix("same ") {
        Some(answer) => Ok(answer.as_bytes().to_vec()),
        None => Err(format!("{line}: {}", String::from_utf8_lossy(json))),
    });
    Ok(same.collect())
}

fn question(data: &Data, json: &[u8]) -> String {
    let proto = STANDARD.encode(to_proto(data));
    let json = String::from_utf8_lossy(json);
    serde_json::json!({"signal": data.signal().name(), "proto": proto, "json": json}).to_string()
}

fn ask(mut stdin: ChildStdin, lines: &[String]) {
    for line in lines {
        if writeln!(stdin, "{line}").is_err() {
            return;
        }
    }
}

/// Returns the command of a program, run by a Python with the packages.
fn command(program: &str) -> Result<Command, Skip> {
    let mut command = Command::new(interpreter()?);
    command.arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("python").join(program));
    Ok(command)
}

/// Returns the interpreter of the virtual environment, which is created if missing.
fn interpreter() -> Result<PathBuf, Skip> {
    let folder = peers::folder()?.join("python");
    let (interpreter, done) = (folder.join("bin/python3"), folder.join("installed"));
    let wanted = PACKAGES.join("\n");
    peers::once(
        "python",
        || std::fs::read_to_string(&done).is_ok_and(|installed| installed == wanted),
        || {
            peers::run("python3 -m venv", Command::new("python3").args(["-m", "venv"]).arg(&folder))?;
            let mut pip = Command::new(&interpreter);
            pip.args([
                "-m",
                "pip",
                "install",
                "--quiet",
                "--disable-pip-version-check",
                "--only-binary",
                ":all:",
            ]);
            peers::run("pip install", pip.args(["--retries", "1", "--timeout", "10"]).args(PACKAGES))?;
            std::fs::write(&done, &wanted).map_err(|e| Skip(e.to_string()))
        },
    )?;
    Ok(interpreter)
}
