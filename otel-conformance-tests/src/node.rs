//! OpenTelemetry's JavaScript SDK, which generates data, and its transformer, which encodes and decodes OTLP. The
//! program is in `node`.

use std::path::{Path, PathBuf};
use std::process::Command;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use pdata::{Data, Signal};
use serde_json::{Value, json};

use crate::peers::{self, Skip};
use crate::python::{converse, from_base64};

/// A request encoded by JavaScript.
#[derive(Clone, Debug)]
pub struct Written {
    /// The data, decoded from its protobuf form.
    pub data: Data,
    /// The JSON form.
    pub json: Vec<u8>,
}

/// A response to be decoded by JavaScript.
#[derive(Clone, Debug)]
pub struct Response {
    /// The signal of the request.
    pub signal: Signal,
    /// Whether it is JSON; otherwise it is protobuf.
    pub is_json: bool,
    /// The body of the response.
    pub body: Vec<u8>,
}

/// Encodes a request of each signal and decodes responses in JavaScript.
pub fn javascript(responses: &[Response]) -> Result<(Vec<Written>, Vec<Value>), Skip> {
    let lines: Vec<String> = responses.iter().map(question).collect();
    let program = Path::new(env!("CARGO_MANIFEST_DIR")).join("node/otlp.cjs");
    let mut node = Command::new("node");
    node.arg(program).env("NODE_PATH", modules()?);
    let output: Vec<Value> = converse(&mut node, &lines)?
        .iter()
        .map(|line| serde_json::from_str(line).expect("it prints JSON"))
        .collect();
    let (requests, read) = output.split_at(Signal::STABLE.len());
    Ok((requests.iter().map(written).collect(), read.to_vec()))
}

fn question(response: &Response) -> String {
    let encoding = if response.is_json { "json" } else { "proto" };
    let body = STANDARD.encode(&response.body);
    json!({"signal": response.signal.name(), "encoding": encoding, "body": body}).to_string()
}

fn written(output: &Value) -> Written {
    let text = |key: &str| output[key].as_str().expect("a text");
    let json = STANDARD.decode(text("json")).expect("it writes base64");
    Written { data: from_base64(text("signal"), text("proto")), json }
}

/// Returns the folder of packages, which are installed if missing.
fn modules() -> Result<PathBuf, Skip> {
    let folder = peers::folder()?.join("node");
    let manifest = include_str!("../node/package.json");
    let done = folder.join("installed");
    peers::once(
        "node",
        || std::fs::read_to_string(&done).is_ok_and(|installed| installed == manifest),
        || {
            let failed = |e: std::io::Error| Skip(format!("{}: {e}", folder.display()));
            std::fs::create_dir_all(&folder).map_err(failed)?;
            std::fs::write(folder.join("package.json"), manifest).map_err(failed)?;
            let mut npm = Command::new("npm");
            npm.args(["install", "--no-audit", "--no-fund", "--ignore-scripts", "--fetch-retries", "1"]);
            peers::run("npm install", npm.current_dir(&folder))?;
            std::fs::write(&done, manifest).map_err(failed)
        },
    )?;
    Ok(folder.join("node_modules"))
}
