//! Scans of processes: attaches to the libraries they map, and describes them before their first record.

use std::fs::File;
use std::io::BufReader;

use event::{Event, ExitStatus, LauncherEnv, ProcessId};
use probe_abi::Library;
use probe_abi::record::{RANGES, RuntimeCode};

use super::Capture;
use crate::arming::ArmedFile;
use crate::inspect::Question;
use crate::libraries::{Coverage, FoundLibrary, LibraryKey};
use crate::maps::{self, Mapping, Mappings};
use crate::processes::{Selected, Tracked};
use crate::{clock, proc, user};

/// Files of a process that its description names, observed or not.
const TEXTS_MAX: usize = 64;

impl Capture {
    /// Reads the mappings of a process, attaches to its libraries, and describes it again if that changed its coverage.
    /// `mapped_ns` is when it made the first mapping since the last scan, if the kernel reported that. Returns false if the
    /// process has ended.
    pub(super) fn scan(
        &mut self,
        pid: u32,
        now_ns: u64,
        mapped_ns: Option<u64>,
        into: &mut Vec<Event>,
    ) -> bool {
        if self.is_excluded(pid) {
            return true;
        }
        let user = user::of(pid);
        if self.libraries.postpone(pid, user, now_ns) {
            return true;
        }
        let began_ns = clock::now_ns();
        let is_alive = self.scan_now((pid, user), now_ns, mapped_ns, into);
        self.libraries.charge(user, began_ns);
        is_alive
    }

    fn scan_now(
        &mut self,
        (pid, user): (u32, u32),
        now_ns: u64,
        mapped_ns: Option<u64>,
        into: &mut Vec<Event>,
    ) -> bool {
        // Without an answer, it is scanned again when there is one.
        let inspected = self.inspector.inspect_once((pid, user), Question::Maps, move || mappings(pid));
        let Ok(Mappings { all: mappings, has_more }) = inspected else { return true };
        if mappings.is_empty() {
            // A kernel thread, or a process that has ended.
            self.remove_if_irrelevant(pid);
            return false;
        }
        let (mut observed, mut gaps) = self.attach_all((pid, user), &mappings, mapped_ns, into);
        self.find_contexts((pid, user), &mappings, &mut observed, &mut gaps);
        if has_more {
            gaps.push(
                "the process has too many mappings: libraries among the last ones are not seen".to_owned(),
            );
        }
        self.libraries.retain(pid, &mappings.iter().map(|m| m.file).collect(), now_ns);
        let Some(tracked) = self.processes.get_mut(pid) else { return true };
        if tracked.observed != observed || tracked.gaps != gaps || tracked.is_outlined {
            (tracked.observed, tracked.gaps) = (observed, gaps);
            if let Some(process) = tracked.traced {
                self.describe(process, now_ns, into);
            }
        } else {
            self.remove_if_irrelevant(pid);
        }
        true
    }

    /// Stops tracking a process that is irrelevant.
    fn remove_if_irrelevant(&mut self, pid: u32) {
        if self.is_irrelevant(pid) {
            self.processes.remove(pid);
            self.arming.remove(pid);
        }
    }

    /// Returns true for a process without libraries, while the kernel would report that it maps one.
    fn is_irrelevant(&mut self, pid: u32) -> bool {
        let is_without = |t: &mut Tracked| {
            let is_excluded = matches!(t.selected, Selected::No { .. });
            !is_excluded && t.traced.is_none() && t.observed.is_empty() && t.gaps.is_empty()
        };
        self.trace_all
            && self.finder.follows_mappings()
            && self.processes.get_mut(pid).is_some_and(is_without)
    }

    /// Finds where a process publishes trace contexts. A process without a probed library has no steps and is skipped.
    fn find_contexts(
        &mut self,
        (pid, user): (u32, u32),
        mappings: &[Mapping],
        observed: &mut Vec<String>,
        gaps: &mut Vec<String>,
    ) {
        if !self.contexts || observed.is_empty() {
            return self.publishers.clear(&mut self.kernel, pid);
        }
        match self.publishers.update(&mut self.kernel, &mut self.inspector, (pid, user), mappings) {
            Some(Coverage::Observed(what)) => observed.push(what),
            Some(Coverage::Gap(why)) => gaps.push(why),
            Some(Coverage::Absent) | None => {}
        }
    }

    /// Attaches to the libraries among the mappings, the first of which was made at `mapped_ns` if the kernel reported it.
    fn attach_all(
        &mut self,
        (pid, user): (u32, u32),
        mappings: &[Mapping],
        mapped_ns: Option<u64>,
        into: &mut Vec<Event>,
    ) -> (Vec<String>, Vec<String>) {
        if pid == std::process::id() {
            return Default::default();
        }
        let library = |mapping| {
            let library = Mapping::library(mapping)?;
            Some(FoundLibrary { mapping, library, is_embedded: false })
        };
        let mut found: Vec<FoundLibrary<'_>> = mappings.iter().filter_map(library).collect();
        found.extend(embedded_runtime(mappings));
        found.dedup_by_key(|f| f.key());
        found.retain(|f| self.collectives || f.library != Library::Nccl);
        if !found.is_empty() && !self.is_selected(pid) {
            return Default::default();
        }
        // Before the driver is probed, so that none of the runtime's own calls is counted.
        self.set_runtime(pid, runtime_code(mappings));
        let (mut observed, mut gaps) = (Vec::new(), Vec::new());
        let (attach, inspector) = (self.attach.as_ref(), &mut self.inspector);
        let _attaching = self.stalls.attaching(pid);
        for coverage in self.libraries.attach_all(&mut self.kernel, attach, inspector, (pid, user), &found) {
            match coverage {
                Coverage::Observed(what) => observed.push(what),
                Coverage::Gap(why) => gaps.push(why),
                Coverage::Absent => {}
            }
        }
        self.note_armed_files(pid, &found, mapped_ns, into);
        (bounded(observed), bounded(gaps))
    }

    /// Notes when the libraries of a process were mapped and probed.
    fn note_armed_files(
        &mut self,
        pid: u32,
        found: &[FoundLibrary<'_>],
        reported_ns: Option<u64>,
        into: &mut Vec<Event>,
    ) {
        // Of a process that was not scanned before, older mappings may not have been reported.
        let reported_ns = reported_ns.filter(|_| self.arming.knows(pid) || self.finder.is_complete_for(pid));
        let is_mapping_known = reported_ns.is_some();
        let Some(mapped_ns) = reported_ns.or_else(|| proc::started_ns(pid)) else { return };
        let mut last_armed_ns = 0;
        for f in found {
            let LibraryKey { file, library } = f.key();
            if let Some(armed_ns) = self.libraries.armed_ns(&f.key()) {
                let noted_ns = clock::now_ns();
                let file = ArmedFile { file, library, armed_ns, mapped_ns, is_mapping_known, noted_ns };
                self.arming.note(pid, &file, proc::has_gpu_open);
                last_armed_ns = last_armed_ns.max(armed_ns);
            }
        }
        if is_mapping_known && last_armed_ns > mapped_ns {
            into.push(Event::Armed { at_ns: last_armed_ns, pid, mapped_ns });
        }
    }

    /// Stores the address ranges of a process's runtime before its calls are counted.
    pub(super) fn find_runtime(&mut self, pid: u32) {
        let mappings = self.inspector.inspect((pid, user::of(pid)), Question::Maps, move || mappings(pid));
        if let Ok(mappings) = mappings {
            self.set_runtime(pid, runtime_code(&mappings.all));
        }
    }

    /// Stores the address ranges of the runtime, by which the kernel programs suppress its own driver calls.
    fn set_runtime(&mut self, pid: u32, code: RuntimeCode) {
        if self.runtime.get(&pid).copied().unwrap_or_default() == code {
            return;
        }
        if code == RuntimeCode::default() {
            return self.clear_runtime(pid);
        }
        match self.kernel.runtime.insert(pid, code, 0) {
            Ok(()) => drop(self.runtime.insert(pid, code)),
            Err(e) => {
                tracing::warn!(pid, %e, "cannot store the runtime's address ranges: its driver calls are counted twice in this process")
            }
        }
    }

    fn describe(&mut self, process: ProcessId, at_ns: u64, into: &mut Vec<Event>) {
        let (pid, describe) = (process.pid, move || proc::describe_all(process, at_ns));
        let described = self.inspector.inspect((pid, user::of(pid)), Question::Description, describe);
        let is_outlined = described.is_err();
        let (mut info, variables) = described.unwrap_or_else(|_| (proc::outline(process, at_ns), Vec::new()));
        if let Some(tracked) = self.processes.get_mut(pid) {
            (info.observed, info.gaps) = (tracked.observed.clone(), tracked.gaps.clone());
            tracked.is_outlined = is_outlined;
        }
        if let Some(pins) = &mut self.pins {
            pins.describe(&mut info);
            info.since_unix_ns = pins.since(process);
        }
        info.unobserved_ns = self.arming.unobserved_ns(pid);
        into.push(Event::Process(Box::new(info)));
        if !variables.is_empty() {
            into.push(Event::LauncherEnv(Box::new(LauncherEnv { process, at_ns, variables })));
        }
    }

    /// Describes the process of a record unless it was described before. Returns false if the process is excluded.
    pub(super) fn ensure_described(&mut self, process: ProcessId, at_ns: u64, into: &mut Vec<Event>) -> bool {
        if self.processes.get_mut(process.pid).is_none() {
            self.processes.track(process.pid, at_ns);
        }
        // Too many processes: their records are of unknown processes, which cannot be selected.
        let Some(tracked) = self.processes.get_mut(process.pid) else { return self.selects_all() };
        match tracked.traced {
            Some(known) if known == process => return true,
            Some(_) => self.process_exited(process.pid, at_ns, ExitStatus::Unknown, into),
            None => {}
        }
        if !self.is_selected(process.pid) {
            return false;
        }
        self.processes.track(process.pid, at_ns);
        if let Some(tracked) = self.processes.get_mut(process.pid) {
            tracked.traced = Some(process);
        }
        self.scan(process.pid, at_ns, None, into);
        self.describe(process, at_ns, into);
        true
    }

    pub(super) fn clear_runtime(&mut self, pid: u32) {
        if self.runtime.remove(&pid).is_some() {
            let _ = self.kernel.runtime.remove(&pid);
        }
    }
}

/// Reads the files that a process has mapped as code; none of a process that has ended.
fn mappings(pid: u32) -> Mappings {
    let file = File::open(format!("/proc/{pid}/maps"));
    file.and_then(|file| maps::read(BufReader::new(file))).unwrap_or_default()
}

/// Shortens a list that a process can make as long as the number of its mappings.
fn bounded(mut texts: Vec<String>) -> Vec<String> {
    if let Some(more) = texts.len().checked_sub(TEXTS_MAX).filter(|more| *more > 0) {
        texts.truncate(TEXTS_MAX);
        texts.push(format!("{more} further files"));
    }
    texts
}

/// Returns the address ranges of the runtime library.
fn runtime_code(mappings: &[Mapping]) -> RuntimeCode {
    let mut code = RuntimeCode::default();
    let runtime = mappings.iter().filter(|m| m.library() == Some(Library::Cudart));
    for (range, mapping) in code.iter_mut().zip(runtime.take(RANGES)) {
        *range = [mapping.start, mapping.end];
    }
    code
}

/// Returns the main program if it uses the driver without a runtime library: the runtime is then linked statically.
fn embedded_runtime(mappings: &[Mapping]) -> Option<FoundLibrary<'_>> {
    let has = |library| mappings.iter().any(|m| m.library() == Some(library));
    let mapping = mappings.first()?;
    let is_embedded = has(Library::Cuda) && !has(Library::Cudart);
    is_embedded.then_some(FoundLibrary { mapping, library: Library::Cudart, is_embedded })
}
