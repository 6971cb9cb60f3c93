//! Attachment of the probe programs to functions of a file, with two implementations: uprobe_multi (Linux 6.6, one
//! link for all functions, CAP_BPF and CAP_PERFMON) and perf uprobes (Linux 5.15).
//!
//! Probes stay attached until their [`Attached`] is dropped.

use std::path::Path;

use aya::programs::uprobe::{UProbeAttachLocation, UProbeAttachPoint, UProbeScope};
use probe_abi::{Action, Cookie};

use crate::kernel::{Kernel, chain};

/// A function to attach to.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Point {
    /// Offset of its first instruction in the file.
    pub offset: u64,
    /// The cookie of its probe row.
    pub cookie: Cookie,
}

/// An error in attaching to a file.
#[derive(Debug, thiserror::Error)]
#[error("cannot attach to {path}: {reason}")]
pub struct AttachError {
    path: String,
    reason: String,
}

/// Attached probes; dropping the value detaches them.
pub struct Attached(#[expect(dead_code, reason = "held for its drop")] Box<dyn Send>);

impl Attached {
    /// Wraps a value that detaches its probes when it is dropped.
    pub fn new(probes: impl Send + 'static) -> Attached {
        Attached(Box::new(probes))
    }
}

/// A method of attachment.
pub trait Attach: Send {
    /// Returns the name of the method, for logs.
    fn name(&self) -> &'static str;

    /// Attaches the entry program to all points and the return program to the timed ones, for every process that
    /// maps the file at `path`, now or later. Fails if the kernel rejects a probe.
    fn attach(&self, kernel: &mut Kernel, path: &Path, points: &[Point]) -> Result<Attached, AttachError>;
}

/// Returns uprobe_multi if the kernel supports it, otherwise perf uprobes.
pub fn best(kernel: &mut Kernel) -> Box<dyn Attach> {
    match kernel.multi {
        Some(_) => Box::new(UprobeMulti),
        None => Box::new(PerfUprobe),
    }
}

pub(crate) fn timed(points: &[Point]) -> impl Iterator<Item = &Point> {
    points.iter().filter(|p| p.cookie.is_timed() && !p.cookie.is(Action::RecordArgs))
}

pub(crate) fn with_args(points: &[Point]) -> impl Iterator<Item = &Point> {
    points.iter().filter(|p| p.cookie.is(Action::RecordArgs))
}

pub(crate) fn untimed(points: &[Point]) -> impl Iterator<Item = &Point> {
    points.iter().filter(|p| !p.cookie.is_timed())
}

fn failed(path: &Path, reason: String) -> AttachError {
    AttachError { path: path.display().to_string(), reason }
}

/// Attachment by uprobe_multi: one link for all entries of timed functions, one for their returns, one for each launch.
pub struct UprobeMulti;

impl Attach for UprobeMulti {
    fn name(&self) -> &'static str {
        "uprobe_multi"
    }

    fn attach(&self, kernel: &mut Kernel, path: &Path, points: &[Point]) -> Result<Attached, AttachError> {
        let multi =
            kernel.multi.as_mut().ok_or_else(|| failed(path, "uprobe_multi is not loaded".to_owned()))?;
        multi.link(path, points).map(Attached::new).map_err(|e| failed(path, e.to_string()))
    }
}

/// Attachment by perf uprobes: one perf event for each entry and each return.
pub struct PerfUprobe;

impl Attach for PerfUprobe {
    fn name(&self) -> &'static str {
        "perf uprobes"
    }

    fn attach(&self, kernel: &mut Kernel, path: &Path, points: &[Point]) -> Result<Attached, AttachError> {
        let mut links = Vec::new();
        let mut link = |name: &str, point: &Point| -> Result<(), String> {
            let program = kernel.perf_program(name).map_err(|e| e.to_string())?;
            let location = UProbeAttachLocation::AbsoluteOffset(point.offset);
            let at = UProbeAttachPoint { location, cookie: Some(point.cookie.0) };
            let id = program.attach(at, path, UProbeScope::AllProcesses).map_err(|e| chain(&e))?;
            links.push(program.take_link(id).map_err(|e| chain(&e))?);
            Ok(())
        };
        timed(points).try_for_each(|p| link("leave", p)).map_err(|e| failed(path, e))?;
        timed(points).try_for_each(|p| link("enter", p)).map_err(|e| failed(path, e))?;
        with_args(points).try_for_each(|p| link("args_leave", p)).map_err(|e| failed(path, e))?;
        with_args(points).try_for_each(|p| link("args_enter", p)).map_err(|e| failed(path, e))?;
        untimed(points).try_for_each(|p| link("launch", p)).map_err(|e| failed(path, e))?;
        Ok(Attached::new(links))
    }
}
