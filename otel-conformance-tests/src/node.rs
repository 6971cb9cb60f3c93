//! OpenTelemetry's JavaScript: its SDK makes data, its transformer writes and reads OTLP. The program lies in
//! `node`.

use std::path::{Path, PathBuf};
use std::process::Command;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use pdata::{Data, Signal};
use serde_json::{Value, json};

use crate::peers::{self, Skip};
use crate::python::{converse, from_base64};

/// A request that JavaScript wrote.
#[derive(Clone, Debug)]
pub struct Written {
    /// In protobuf, decoded here.
    pub data: Data,
    /// In JSON, as it is.
    pub json: Vec<u8>,
}

/// A response for JavaScript to read.
#[derive(Clone, Debug)]
pub struct Response {
    /// To a request of this signal.
    pub signal: Signal,
    /// True for JSON, false for protobuf.
    pub is_json: bool,
    /// Its body.
    pub body: Vec<u8>,
}

/// Has JavaScript write a request of each signal, and read responses.
pub fn javascript(responses: &[Response]) -> Result<(Vec<Written>, Vec<Value>), Skip> {
    let lines: Vec<String> = responses.iter().map(question).collect();
    let program = Path::new(env!("CARGO_MANIFEST_DIR")).join("node/otlp.cjs");
    let mut node = Command::new("node");
    node.arg(program).env("NODE_PATH", modules()?);
    let said: Vec<Value> = converse(&mut node, &lines)?
        .iter()
        .map(|line| serde_json::from_str(line).expect("it speaks JSON"))
        .collect();
    let (requests, read) = said.split_at(Signal::STABLE.len());
    Ok((requests.iter().map(written).collect(), read.to_vec()))
}

fn question(response: &Response) -> String {
    let encoding = if response.is_json { "json" } else { "proto" };
    let body = STANDARD.encode(&response.body);
    json!({"signal": response.signal.name(), "encoding": encoding, "body": body}).to_string()
}

fn written(said: &Value) -> Written {
    let text = |key: &str| said[key].as_str().expect("a text");
    let json = STANDARD.decode(text("json")).expect("it writes base64");
    Written { data: from_base64(text("signal"), text("proto")), json }
}

/// Where the packages are, which are installed where they are missing.
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
