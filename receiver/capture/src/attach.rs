//! Attachment of the probe programs to functions of a file, with two implementations: uprobe_multi (Linux 6.6, one
//! link for all functions, CAP_BPF and CAP_PERFMON) and perf uprobes (Linux 5.15).
//!
//! Probes stay attached until their [`Attached`] is dropped, or their pins are removed.

use std::io;
use std::path::Path;

use aya::programs::uprobe::{UProbeAttachLocation, UProbeAttachPoint, UProbeScope};
use probe_abi::{Action, Cookie};

use crate::kernel::{Kernel, chain};
use crate::multi::{FileLinks, Links};
use crate::sys::End;

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

/// Attached probes; dropping the value detaches those that are not pinned.
pub enum Attached {
    /// Links of uprobe_multi.
    Multi(Box<FileLinks>),
    /// A value that detaches its probes when it is dropped.
    Other(Box<dyn Send>),
}

impl Attached {
    /// Takes the links that can be replaced by links of single processes; `None` for perf uprobes, and if they are taken.
    pub(crate) fn take_thinnable(&mut self) -> Option<Links> {
        match self {
            Attached::Multi(links) => links.thinnable.take(),
            Attached::Other(_) => None,
        }
    }

    /// Wraps a value that detaches its probes when it is dropped.
    pub fn new(probes: impl Send + 'static) -> Attached {
        Attached::Other(Box::new(probes))
    }

    /// Pins the probes in a directory. Fails for perf uprobes.
    pub fn pin(&self, dir: &Path) -> io::Result<()> {
        match self {
            Attached::Multi(links) => links.pin(dir),
            Attached::Other(_) => Err(io::ErrorKind::Unsupported.into()),
        }
    }
}

/// A file and its functions to attach to.
#[derive(Clone, Copy, Debug)]
pub struct ProbedFile<'a> {
    /// Path by which the file is opened.
    pub path: &'a Path,
    /// The functions.
    pub points: &'a [Point],
}

/// A step of attachment. All files of a process pass one stage before any passes the next, so that a call is probed
/// after the calls that end what it begins: an enqueue is not seen if the wait for it would not be.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(crate) enum Stage {
    /// Returns, so that every entry that is probed has a probed return.
    Return,
    /// Entries of all functions that enqueue no work: those that wait for it, order it, or change state.
    Wait,
    /// Entries of functions that enqueue work and do not wait for it.
    Enqueue,
    /// Entries of collectives, whose work the functions of the stage before enqueue.
    Collective,
}

impl Stage {
    /// Every stage, in order.
    pub(crate) const ALL: [Stage; 4] = [Stage::Return, Stage::Wait, Stage::Enqueue, Stage::Collective];

    /// Returns the stage in which the entry of a function is attached.
    fn of_entry(cookie: Cookie) -> Stage {
        if cookie.is(Action::RecordArgs) && cookie.is_operation() {
            Stage::Collective
        } else if cookie.enqueues() && !cookie.is_blocking() {
            Stage::Enqueue
        } else {
            Stage::Wait
        }
    }

    /// Returns the end of functions that is probed.
    pub(crate) fn end(self) -> End {
        if self == Stage::Return { End::Return } else { End::Entry }
    }

    /// Returns the functions that get a probe in this stage.
    pub(crate) fn points(self, points: &[Point]) -> impl Iterator<Item = &Point> {
        points.iter().filter(move |p| match self {
            Stage::Return => p.cookie.is_timed(),
            stage => Stage::of_entry(p.cookie) == stage,
        })
    }
}

/// A method of attachment.
pub trait Attach: Send {
    /// Returns the name of the method, for logs.
    fn name(&self) -> &'static str;

    /// Attaches the entry program to all points and the return program to the timed ones, for every process that
    /// maps the files, now or later, in the order of the stages. Fails for a file if the kernel rejects one of its
    /// probes.
    fn attach_all(&self, kernel: &mut Kernel, files: &[ProbedFile<'_>])
    -> Vec<Result<Attached, AttachError>>;

    /// Attaches to one file.
    fn attach(&self, kernel: &mut Kernel, path: &Path, points: &[Point]) -> Result<Attached, AttachError> {
        let attached = self.attach_all(kernel, &[ProbedFile { path, points }]).pop();
        attached.unwrap_or_else(|| Err(failed(path, "nothing was attached".to_owned())))
    }
}

/// Returns uprobe_multi if the kernel supports it, otherwise perf uprobes.
pub fn best(kernel: &mut Kernel) -> Box<dyn Attach> {
    match kernel.multi {
        Some(_) => Box::new(UprobeMulti),
        None => Box::new(PerfUprobe),
    }
}

/// Passes every file through one stage after the other. A file that fails a stage passes no further one.
pub(crate) fn in_stages<L: Default, E>(
    files: &[ProbedFile<'_>],
    mut attach: impl FnMut(Stage, &ProbedFile<'_>, &mut L) -> Result<(), E>,
) -> Vec<Result<L, E>> {
    let mut all: Vec<Result<L, E>> = files.iter().map(|_| Ok(L::default())).collect();
    for stage in Stage::ALL {
        for (file, links) in files.iter().zip(&mut all) {
            if let Ok(of) = links
                && let Err(error) = attach(stage, file, of)
            {
                *links = Err(error);
            }
        }
    }
    all
}

fn failed(path: &Path, reason: String) -> AttachError {
    AttachError { path: path.display().to_string(), reason }
}

/// Attachment by uprobe_multi: a few links for the functions of a stage, and one for each launch and each collective.
pub struct UprobeMulti;

impl Attach for UprobeMulti {
    fn name(&self) -> &'static str {
        "uprobe_multi"
    }

    fn attach_all(
        &self,
        kernel: &mut Kernel,
        files: &[ProbedFile<'_>],
    ) -> Vec<Result<Attached, AttachError>> {
        let Some(multi) = kernel.multi.as_mut() else {
            return files
                .iter()
                .map(|f| Err(failed(f.path, "uprobe_multi is not loaded".to_owned())))
                .collect();
        };
        let linked = multi.link_all(files).into_iter().zip(files);
        linked
            .map(|(links, f)| {
                links.map(|links| Attached::Multi(Box::new(links))).map_err(|e| failed(f.path, e.to_string()))
            })
            .collect()
    }
}

/// Attachment by perf uprobes: one perf event for each entry and each return.
pub struct PerfUprobe;

impl Attach for PerfUprobe {
    fn name(&self) -> &'static str {
        "perf uprobes"
    }

    fn attach_all(
        &self,
        kernel: &mut Kernel,
        files: &[ProbedFile<'_>],
    ) -> Vec<Result<Attached, AttachError>> {
        let linked = in_stages(files, |stage, file, links: &mut Vec<_>| {
            for point in stage.points(file.points) {
                let program =
                    kernel.perf_program(program_name(stage, point.cookie)).map_err(|e| e.to_string())?;
                let location = UProbeAttachLocation::AbsoluteOffset(point.offset);
                let at = UProbeAttachPoint { location, cookie: Some(point.cookie.0) };
                let id = program.attach(at, file.path, UProbeScope::AllProcesses).map_err(|e| chain(&e))?;
                links.push(program.take_link(id).map_err(|e| chain(&e))?);
            }
            Ok(())
        });
        let all = linked.into_iter().zip(files);
        all.map(|(links, f)| links.map(Attached::new).map_err(|e: String| failed(f.path, e))).collect()
    }
}

/// Returns the name of the program for a function's probe of a stage.
fn program_name(stage: Stage, cookie: Cookie) -> &'static str {
    match (stage, cookie.is(Action::RecordArgs)) {
        (Stage::Return, true) => "args_leave",
        (Stage::Return, false) => "leave",
        (_, true) => "args_enter",
        _ if cookie.is_timed() => "enter",
        _ => "launch",
    }
}

#[cfg(test)]
mod tests {
    use probe_abi::{Library, PROBES, attach_points};

    use super::*;

    fn points() -> Vec<Point> {
        let all = [Library::Amdhip, Library::Cuda, Library::Cudart, Library::Nccl];
        let all = all.into_iter().flat_map(|library| attach_points(library, false));
        all.enumerate().map(|(at, (_, cookie))| Point { offset: at as u64, cookie }).collect()
    }

    #[test]
    fn every_entry_and_timed_return_has_one_stage() {
        let points = points();
        let entries = |stage: Stage| if stage == Stage::Return { 0 } else { stage.points(&points).count() };
        assert_eq!(Stage::ALL.map(entries).iter().sum::<usize>(), points.len());
        let timed = points.iter().filter(|p| p.cookie.is_timed()).count();
        assert_eq!(Stage::Return.points(&points).count(), timed);
    }

    /// A step that ends without its enqueues is wrong; an enqueue without its wait falsifies the wait of a later step.
    #[test]
    fn waits_are_armed_before_the_calls_they_end() {
        let stage =
            |symbol: &str| Stage::of_entry(PROBES.iter().find(|p| p.symbol == symbol).unwrap().cookie());
        for wait in
            ["cudaStreamSynchronize", "cudaMemcpy", "cudaEventRecord", "cudaEventQuery", "ncclGroupEnd"]
        {
            assert_eq!(stage(wait), Stage::Wait, "{wait}");
        }
        for enqueue in ["cudaLaunchKernel", "cuLaunchKernelEx", "cudaMemcpyAsync", "cudaGraphLaunch"] {
            assert_eq!(stage(enqueue), Stage::Enqueue, "{enqueue}");
        }
        assert_eq!(stage("ncclAllReduce"), Stage::Collective);
    }

    #[test]
    fn all_files_pass_a_stage_before_any_passes_the_next() {
        let paths = ["a", "b"].map(Path::new);
        let files = paths.map(|path| ProbedFile { path, points: &[] });
        let mut passed = Vec::new();
        let all = in_stages(&files, |stage, file, _: &mut ()| {
            passed.push((stage, file.path.display().to_string()));
            if stage == Stage::Wait && file.path == paths[0] { Err("refused") } else { Ok(()) }
        });
        assert_eq!(all, [Err("refused"), Ok(())]);
        let order = [
            (Stage::Return, "a"),
            (Stage::Return, "b"),
            (Stage::Wait, "a"),
            (Stage::Wait, "b"),
            (Stage::Enqueue, "b"),
            (Stage::Collective, "b"),
        ];
        assert_eq!(passed, order.map(|(stage, path)| (stage, path.to_owned())));
    }
}
