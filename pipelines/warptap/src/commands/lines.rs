//! Files of JSON lines written by commands.
//!
//! Callers that write a line cannot handle an error such as a full disk: the first error is stored, further lines are
//! skipped, and [`Lines::finish`] returns the error.

use std::fs::File;
use std::io::{BufWriter, Write as _};
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use event::ProcessId;
use pdata::Data;
use probe_abi::fold::Counter;
use serde::Serialize;
use steps::Step;

use super::output;

/// An output file, or none if it was not requested.
pub(crate) struct Lines {
    out: Option<(BufWriter<File>, PathBuf)>,
    failed: std::io::Result<()>,
}

impl Lines {
    /// Creates the file, replacing an existing one.
    pub(crate) fn create(path: Option<&Path>) -> anyhow::Result<Lines> {
        let open = |path: &Path| {
            let file = output::create(path).with_context(|| format!("cannot create {}", path.display()))?;
            anyhow::Ok((BufWriter::new(file), path.to_owned()))
        };
        Ok(Lines { out: path.map(open).transpose()?, failed: Ok(()) })
    }

    /// Creates a file with a random name among the temporary files; returns its path, too.
    pub(crate) fn create_temporary(prefix: &str, suffix: &str) -> anyhow::Result<(Lines, PathBuf)> {
        let created = output::create_temporary(prefix, suffix);
        let (file, path) = created.context("cannot create a temporary file")?;
        Ok((Lines { out: Some((BufWriter::new(file), path.clone())), failed: Ok(()) }, path))
    }

    /// Writes telemetry as one line of OTLP JSON.
    pub(crate) fn telemetry(&mut self, data: &Data) {
        self.write(|| pdata::json::encode(data));
    }

    /// Writes a step as one line.
    pub(crate) fn step(&mut self, step: &Step) {
        self.write(|| serde_json::to_vec(&Row::of(step)).unwrap_or_default());
    }

    /// Flushes the file, and returns the first error of all writes.
    pub(crate) fn finish(self) -> anyhow::Result<()> {
        let Some((mut out, path)) = self.out else { return Ok(()) };
        self.failed.and_then(|()| out.flush()).with_context(|| format!("cannot write {}", path.display()))
    }

    fn write(&mut self, line: impl FnOnce() -> Vec<u8>) {
        if let (Some((out, _)), Ok(())) = (&mut self.out, &self.failed) {
            self.failed = out.write_all(&line()).and_then(|()| out.write_all(b"\n"));
        }
    }
}

/// A step as a JSON line. Times are nanoseconds of CLOCK_MONOTONIC, or of the clock of a profiler trace. Copies on or
/// between devices are apart from those between host and device, with which copies of unknown direction are counted.
#[derive(Serialize)]
struct Row {
    id: String,
    pid: u32,
    thread: u32,
    first_thread: u32,
    stream: u32,
    start_ns: u64,
    end_ns: u64,
    gap_ns: u64,
    enqueue_ns: u64,
    wait_ns: u64,
    phase: &'static str,
    confidence: f64,
    is_unfinished: bool,
    outlier: &'static str,
    ratio: f64,
    launches: u64,
    graph_launches: u64,
    threads: u64,
    copies: u64,
    copied_bytes: u64,
    device_copied_bytes: u64,
}

impl Row {
    fn of(step: &Step) -> Row {
        let ProcessId { pid, .. } = step.process;
        Row {
            id: step.id.to_string(),
            pid,
            thread: step.thread,
            first_thread: step.first_thread,
            stream: step.stream,
            start_ns: step.start_ns,
            end_ns: step.end_ns,
            gap_ns: step.gap_ns,
            enqueue_ns: step.enqueue_ns,
            wait_ns: step.wait_ns,
            phase: step.phase.as_str(),
            confidence: step.confidence,
            is_unfinished: step.is_unfinished,
            outlier: step.outlier.as_str(),
            ratio: step.ratio,
            launches: step.work.of(Counter::Launches),
            graph_launches: step.work.of(Counter::GraphLaunches),
            threads: step.work.of(Counter::Threads),
            copies: step.work.of(Counter::Copies),
            copied_bytes: step.work.copied_bytes(),
            device_copied_bytes: step.work.of(Counter::BytesOnDevice),
        }
    }
}
