//! The oracle log: JSON lines of the player's calls, steps and processes.
//!
//! It is written from the arguments and results of the calls, independent of any probe, so that tests can compare it with
//! the agent's output. Times are CLOCK_MONOTONIC ns, taken immediately before and after the call.

use std::borrow::Cow;
use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

/// A line of the oracle log.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(tag = "line", rename_all = "lowercase")]
pub enum Line {
    /// A call of a device library.
    Call(CallLine),
    /// The end of a step.
    Step(StepLine),
    /// The start of a player.
    Process(ProcessLine),
    /// A call of NCCL.
    Nccl(NcclLine),
    /// A sync call of a rank.
    Wait(WaitLine),
}

/// A call of NCCL.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
pub struct NcclLine {
    /// Function called.
    pub symbol: Cow<'static, str>,
    /// Id of the probe row.
    pub row: u16,
    /// Process id.
    pub pid: u32,
    /// Thread id.
    pub tid: u32,
    /// C arguments. Argument 3 is 0 if it is an id by value.
    pub arguments: Vec<u64>,
    /// Memory that the call reads, as hexadecimal digits.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub entry: String,
    /// Memory that the call wrote, as hexadecimal digits.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub exit: String,
    /// Time before the call.
    pub entry_ns: u64,
    /// Time after the call.
    pub exit_ns: u64,
    /// Return value.
    pub result: u32,
    /// Name of the communicator in the script, for a split with the color appended (`pairs.1`); empty for none.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub communicator: String,
    /// Rank in the communicator.
    #[serde(default)]
    pub rank: u32,
    /// Number of ranks of the communicator.
    #[serde(default)]
    pub nranks: u32,
    /// Number of earlier collectives of this rank on this communicator; `None` for other calls.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seq: Option<u64>,
    /// Delay by the script before the call, ns, without jitter.
    #[serde(default)]
    pub late_ns: u64,
    /// Whether it was captured into a graph.
    #[serde(default)]
    pub captured: bool,
    /// Whether it was in a group, so that its work began at the end of the outermost group.
    #[serde(default)]
    pub grouped: bool,
}

/// A sync call of a rank.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
pub struct WaitLine {
    /// Function called.
    pub symbol: Cow<'static, str>,
    /// Process id.
    pub pid: u32,
    /// Thread id.
    pub tid: u32,
    /// Stream handle.
    pub stream: u64,
    /// Time before the call.
    pub enter_ns: u64,
    /// Time after the call.
    pub exit_ns: u64,
    /// Collectives that it covers: name of the communicator and `seq`.
    pub covers: Vec<(String, u64)>,
}

/// A call of a device library.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
pub struct CallLine {
    /// Function called, a twin by its own symbol.
    pub symbol: Cow<'static, str>,
    /// Id of the probe row; 0 without a probe.
    pub row: u16,
    /// Whether it is the row's per-thread twin.
    pub twin: bool,
    /// Process id.
    pub pid: u32,
    /// Thread id.
    pub tid: u32,
    /// Name of the thread in the script.
    pub thread: Cow<'static, str>,
    /// Stream argument; 0 for none and for the default stream.
    pub stream: u64,
    /// Handle, address or device argument; for functions that create an object, the handle written.
    pub handle: u64,
    /// Graph argument, not executable; 0 for none.
    #[serde(default)]
    pub graph: u64,
    /// Bytes copied, set or allocated.
    pub bytes: u64,
    /// Direction of a copy, the number of a [`probe_abi::Direction`].
    pub direction: u32,
    /// Threads that a launch starts.
    pub threads: u64,
    /// Address or handle of the function that is launched or registered; 0 for none.
    #[serde(default)]
    pub kernel: u64,
    /// Name of that function in the script; empty for none.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// Time before the call.
    pub entry_ns: u64,
    /// Time after the call.
    pub exit_ns: u64,
    /// Return value.
    pub result: u32,
    /// Function of nested calls; empty for none.
    #[serde(default, skip_serializing_if = "str::is_empty")]
    pub inner: Cow<'static, str>,
    /// Depth of nested calls.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub inner_depth: u32,
    /// Phase of its step; empty for none.
    #[serde(default, skip_serializing_if = "str::is_empty")]
    pub phase: Cow<'static, str>,
    /// Number of its step in the process.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step: Option<u64>,
    /// Argument words by the C prototype; only of sentinel calls.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub words: Vec<u64>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_zero(value: &u32) -> bool {
    *value == 0
}

/// A step: the work enqueued on a stream, and the sync call that ended it.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
pub struct StepLine {
    /// Number of the script's `step` in the process; `None` for work outside of steps.
    pub step: Option<u64>,
    /// Phase; those of several steps ended by one call are joined by `+`.
    pub phase: String,
    /// Process id.
    pub pid: u32,
    /// Thread of the sync call.
    pub tid: u32,
    /// Stream handle; for a default stream its thread in the upper half, 0 for the legacy one, and in the lower half 0 or,
    /// if the process set another device before, 0x1000 with the number of its device.
    pub stream: u64,
    /// Entry time of the first call that enqueued its work.
    pub first_ns: u64,
    /// Thread of the first call that enqueued its work.
    pub first_tid: u32,
    /// Function of the sync call.
    pub closer: Cow<'static, str>,
    /// Entry time of the sync call.
    pub enter_ns: u64,
    /// Return time of the sync call.
    pub exit_ns: u64,
    /// Injected fault; empty for none.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub fault: String,
    /// Work of the step.
    pub work: EnqueuedWork,
}

/// Work enqueued on a stream.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
pub struct EnqueuedWork {
    /// Number of calls.
    pub enqueues: u64,
    /// Number of kernel launches.
    pub launches: u64,
    /// Number of graph launches.
    pub graph_launches: u64,
    /// Threads of the kernel launches.
    pub threads: u64,
    /// Number of copies.
    pub copies: u64,
    /// Bytes of copies by the number of a [`probe_abi::Direction`].
    pub bytes: [u64; 5],
    /// Bytes set.
    pub filled: u64,
    /// Contents of the launched graphs.
    #[serde(default)]
    pub graphs: Graphs,
}

/// The contents of launched graphs that the player captured.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
pub struct Graphs {
    /// Number of graphs.
    pub known: u64,
    /// Number of kernels.
    pub kernels: u64,
    /// Threads of the kernels.
    pub threads: u64,
    /// Kernels launched by another thread than the one that began the capture.
    pub foreign: u64,
    /// Bytes copied and set.
    pub bytes: u64,
}

impl Graphs {
    /// Adds the contents of other graphs.
    pub fn add(&mut self, other: &Graphs) {
        self.known += other.known;
        self.kernels += other.kernels;
        self.threads = self.threads.wrapping_add(other.threads);
        self.foreign += other.foreign;
        self.bytes = self.bytes.wrapping_add(other.bytes);
    }
}

impl EnqueuedWork {
    /// Adds other work.
    pub fn add(&mut self, other: &EnqueuedWork) {
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

/// The start of a player, also after an `exec`.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
pub struct ProcessLine {
    /// Process id.
    pub pid: u32,
    /// Name of the script or trace.
    pub script: String,
    /// Time of the start.
    pub at_ns: u64,
    /// Number of calls of a trace that are not played because the runtime makes them.
    #[serde(default)]
    pub left_out: u64,
}

/// An error when reading an oracle log.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// The file could not be read.
    #[error("cannot read oracle log {path}: {source}")]
    File {
        /// Path of the log.
        path: String,
        /// Cause of the error.
        source: std::io::Error,
    },
    /// A line could not be parsed.
    #[error("line {line} of oracle log {path} cannot be parsed: {source}")]
    Line {
        /// Path of the log.
        path: String,
        /// Number of the line, from 1.
        line: usize,
        /// Cause of the error.
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

/// A writer of an oracle log, shared by threads and processes; without a file it discards all lines.
#[derive(Clone, Debug, Default)]
pub struct Log(Option<Arc<File>>);

impl Log {
    /// Creates a log at `path`, or opens it for appending.
    pub fn open(path: &Path, append: bool) -> std::io::Result<Log> {
        if !append {
            File::create(path)?;
        }
        Ok(Log(Some(Arc::new(File::options().create(true).append(true).open(path)?))))
    }

    /// Returns true if lines are written to a file.
    pub fn is_open(&self) -> bool {
        self.0.is_some()
    }

    /// Writes lines by one write call, so that lines of several processes are not mixed.
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
    fn log_survives_a_round_trip() {
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
