//! What the player did, as JSON lines: one per call, one per step, one per process.
//!
//! The one idea: the oracle is written from what was asked for and what came back, never from what a probe could
//! have seen; a test then compares the two. Times are CLOCK_MONOTONIC ns, taken right around the call.

use std::borrow::Cow;
use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

/// A line.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(tag = "line", rename_all = "lowercase")]
pub enum Line {
    /// A call was made.
    Call(CallLine),
    /// A step was closed.
    Step(StepLine),
    /// A player began.
    Process(ProcessLine),
    /// A call of NCCL was made.
    Nccl(NcclLine),
    /// A rank waited for a stream or an event.
    Wait(WaitLine),
}

/// A call of NCCL.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
pub struct NcclLine {
    /// The function called.
    pub symbol: Cow<'static, str>,
    /// Its row's id.
    pub row: u16,
    /// Process id.
    pub pid: u32,
    /// Thread id.
    pub tid: u32,
    /// Its C arguments. Argument 3 of a call that takes the id by value is 0.
    pub arguments: Vec<u64>,
    /// What stood behind the pointer that it reads, as hexadecimal digits.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub entry: String,
    /// What stood behind the pointer that it writes, after the call.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub exit: String,
    /// Before the call.
    pub entry_ns: u64,
    /// After the call.
    pub exit_ns: u64,
    /// What it returned.
    pub result: u32,
    /// Name of the communicator in the script, of a split with the color behind it: `pairs.1`; empty for none.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub communicator: String,
    /// This rank in it.
    #[serde(default)]
    pub rank: u32,
    /// Its ranks.
    #[serde(default)]
    pub nranks: u32,
    /// Of a collective: collectives of this rank on this communicator before it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seq: Option<u64>,
    /// How late the script made this rank for it, ns; jitter is not counted.
    #[serde(default)]
    pub late_ns: u64,
    /// It was captured into a graph, not run.
    #[serde(default)]
    pub captured: bool,
    /// It was in a group: its work began at the outermost end.
    #[serde(default)]
    pub grouped: bool,
}

/// A rank waited.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
pub struct WaitLine {
    /// The function called.
    pub symbol: Cow<'static, str>,
    /// Process id.
    pub pid: u32,
    /// Thread id.
    pub tid: u32,
    /// The stream.
    pub stream: u64,
    /// Before the call.
    pub enter_ns: u64,
    /// After the call.
    pub exit_ns: u64,
    /// The collectives that it covers: communicator's name and `seq`.
    pub covers: Vec<(String, u64)>,
}

/// A call.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
pub struct CallLine {
    /// The function called, a twin by its own name.
    pub symbol: Cow<'static, str>,
    /// Its row's id; 0 for a function that nobody probes.
    pub row: u16,
    /// True for a row's per-thread twin.
    pub twin: bool,
    /// Process id.
    pub pid: u32,
    /// Thread id.
    pub tid: u32,
    /// The thread's name in the script.
    pub thread: Cow<'static, str>,
    /// The stream passed; 0 for none and for the default stream.
    pub stream: u64,
    /// The handle, address or device passed; for a function that makes something, what it wrote.
    pub handle: u64,
    /// The graph passed that is no executable one; 0 for none.
    #[serde(default)]
    pub graph: u64,
    /// Bytes moved or asked for.
    pub bytes: u64,
    /// The direction of a copy, as [`probe_abi::Direction`]'s number.
    pub direction: u32,
    /// Threads started.
    pub threads: u64,
    /// Before the call.
    pub entry_ns: u64,
    /// After the call.
    pub exit_ns: u64,
    /// What it returned.
    pub result: u32,
    /// Function called inside this one by order, and how deep; empty for none.
    #[serde(default, skip_serializing_if = "str::is_empty")]
    pub inner: Cow<'static, str>,
    /// Depth of the calls inside.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub inner_depth: u32,
    /// The label of the step it belongs to; empty for none.
    #[serde(default, skip_serializing_if = "str::is_empty")]
    pub phase: Cow<'static, str>,
    /// The step's number in its process.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step: Option<u64>,
    /// Every argument word, by the C prototype; of sentinel calls alone.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub words: Vec<u64>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks for a reference")]
fn is_zero(value: &u32) -> bool {
    *value == 0
}

/// A step: what was enqueued on a stream, and the wait that closed it.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
pub struct StepLine {
    /// The number the script's `step` gave it, counted in its process; `None` for work outside any `step`.
    pub step: Option<u64>,
    /// The label; those of several steps closed at once are joined by `+`.
    pub phase: String,
    /// Process id.
    pub pid: u32,
    /// The thread that closed it.
    pub tid: u32,
    /// The stream; of a default stream, the thread that it belongs to, shifted left by 32, and 0 for the legacy
    /// one; below that, 0x1000 with the number of its device where the process chose another before.
    pub stream: u64,
    /// Entry of the first call that enqueued its work.
    pub first_ns: u64,
    /// The thread of that call.
    pub first_tid: u32,
    /// The closing function.
    pub closer: Cow<'static, str>,
    /// Its entry.
    pub enter_ns: u64,
    /// Its return.
    pub exit_ns: u64,
    /// The fault injected; empty for none.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub fault: String,
    /// The work.
    pub work: Work,
}

/// What was enqueued.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
pub struct Work {
    /// Calls.
    pub enqueues: u64,
    /// Kernel launches.
    pub launches: u64,
    /// Graph launches.
    pub graph_launches: u64,
    /// Threads of the kernel launches.
    pub threads: u64,
    /// Copies.
    pub copies: u64,
    /// Bytes of copies by [`probe_abi::Direction`]'s number.
    pub bytes: [u64; 5],
    /// Bytes filled.
    pub filled: u64,
    /// What the launched graphs hold.
    #[serde(default)]
    pub graphs: Graphs,
}

/// What graphs hold that were captured under the player's eyes.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
pub struct Graphs {
    /// So many.
    pub known: u64,
    /// Kernels.
    pub kernels: u64,
    /// Threads of these.
    pub threads: u64,
    /// Those by another thread than the one that began the capture.
    pub foreign: u64,
    /// Bytes copied and filled.
    pub bytes: u64,
}

impl Graphs {
    /// Adds what others hold.
    pub fn add(&mut self, other: &Graphs) {
        self.known += other.known;
        self.kernels += other.kernels;
        self.threads = self.threads.wrapping_add(other.threads);
        self.foreign += other.foreign;
        self.bytes = self.bytes.wrapping_add(other.bytes);
    }
}

impl Work {
    /// Adds what somebody else enqueued.
    pub fn add(&mut self, other: &Work) {
        self.enqueues += other.enqueues;
        self.launches += other.launches;
        self.graph_launches += other.graph_launches;
        self.threads = self.threads.wrapping_add(other.threads);
        self.copies += other.copies;
        self.filled = self.filled.wrapping_add(other.filled);
        self.graphs.add(&other.graphs);
        for (own, more) in self.bytes.iter_mut().zip(other.bytes) {
            *own = own.wrapping_add(more);
        }
    }
}

/// A player began, or went on after an `exec`.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
pub struct ProcessLine {
    /// Process id.
    pub pid: u32,
    /// What it plays.
    pub script: String,
    /// When.
    pub at_ns: u64,
    /// Calls of a trace that are not played, since the runtime makes them itself.
    #[serde(default)]
    pub left_out: u64,
}

/// An oracle log that cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// The file.
    #[error("cannot read oracle log {path}: {source}")]
    File {
        /// Its path.
        path: String,
        /// Why.
        source: std::io::Error,
    },
    /// A line of it.
    #[error("line {line} of oracle log {path} is no oracle line: {source}")]
    Line {
        /// Its path.
        path: String,
        /// The line, from 1.
        line: usize,
        /// Why.
        source: serde_json::Error,
    },
}

/// Reads an oracle log.
pub fn read(path: &Path) -> Result<Vec<Line>, ReadError> {
    let shown = || path.display().to_string();
    let file = |source| ReadError::File { path: shown(), source };
    let lines = BufReader::new(File::open(path).map_err(file)?).lines();
    lines
        .enumerate()
        .map(|(at, line)| {
            let text = line.map_err(file)?;
            serde_json::from_str(&text).map_err(|source| ReadError::Line {
                path: shown(),
                line: at + 1,
                source,
            })
        })
        .collect()
}

/// The log as the threads of a player, and the players of a script, share it; without a file it swallows all.
#[derive(Clone, Debug, Default)]
pub struct Log(Option<Arc<File>>);

impl Log {
    /// Begins a log at `path`, or goes on with the one that is there.
    pub fn open(path: &Path, goes_on: bool) -> std::io::Result<Log> {
        if !goes_on {
            File::create(path)?;
        }
        Ok(Log(Some(Arc::new(File::options().create(true).append(true).open(path)?))))
    }

    /// True where there is somebody to write for.
    pub fn is_kept(&self) -> bool {
        self.0.is_some()
    }

    /// Writes lines in one piece, so that those of several processes stay whole.
    pub fn write(&self, lines: &[Line]) -> std::io::Result<()> {
        let Some(file) = &self.0 else { return Ok(()) };
        let mut text = Vec::with_capacity(lines.len() * 256);
        for line in lines {
            serde_json::to_writer(&mut text, line)?;
            text.push(b'\n');
        }
        (&**file).write_all(&text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let path = std::env::temp_dir().join(format!("stubs-oracle-{}", std::process::id()));
        let call = CallLine { symbol: "cudaMalloc".into(), bytes: 7, step: Some(3), ..CallLine::default() };
        let step = StepLine { phase: "decode".into(), fault: "slow".into(), ..StepLine::default() };
        let lines = [Line::Call(call), Line::Step(step), Line::Process(ProcessLine::default())];
        Log::open(&path, false).unwrap().write(&lines[..1]).unwrap();
        Log::open(&path, true).unwrap().write(&lines[1..]).unwrap();
        assert_eq!(read(&path).unwrap(), lines);
        std::fs::write(&path, "{\"line\":\"call\"").unwrap();
        assert!(read(&path).unwrap_err().to_string().contains("line 1 of"));
        std::fs::remove_file(&path).unwrap();
    }
}
