//! Looks at processes: which there are, which libraries they map, and what is told of them before their first record.

use event::{Event, ExitStatus, LauncherEnv, ProcessId};
use probe_abi::record::{RANGES, RuntimeCode};

use super::Capture;
use crate::libraries::Sight;
use crate::maps::{self, Mapping};
use crate::proc;

impl Capture {
    pub(super) fn list(&mut self, now_ns: u64, into: &mut Vec<Event>) {
        let pids = proc::pids();
        let gone: Vec<u32> = self.processes.pids().filter(|pid| !pids.contains(pid)).collect();
        for pid in gone {
            self.end(pid, now_ns, ExitStatus::Unknown, into);
        }
        for pid in pids {
            if self.trace_all && self.processes.get_mut(pid).is_none() {
                self.processes.follow(pid, now_ns);
                self.processes.hurry(pid);
            }
        }
        self.libraries.sweep(now_ns, self.linger_ns);
    }

    pub(super) fn look(&mut self, pid: u32, now_ns: u64, into: &mut Vec<Event>) {
        let Ok(text) = proc::read_text(format!("/proc/{pid}/maps")) else { return };
        let mappings = maps::parse(&text);
        let (mut visible, mut blind) = self.attach_all(pid, &mappings);
        self.look_for_contexts(pid, &mappings, &mut visible, &mut blind);
        self.libraries.retain(pid, &mappings.iter().map(|m| m.file).collect::<Vec<_>>(), now_ns);
        let Some(followed) = self.processes.get_mut(pid) else { return };
        if followed.visible != visible || followed.blind != blind {
            (followed.visible, followed.blind) = (visible, blind);
            if let Some(process) = followed.traced {
                self.describe(process, now_ns, into);
            }
        }
    }

    /// A process without a probed library has no step to name, and is not looked into.
    fn look_for_contexts(
        &mut self,
        pid: u32,
        mappings: &[Mapping],
        visible: &mut Vec<String>,
        blind: &mut Vec<String>,
    ) {
        if !self.contexts || visible.is_empty() {
            return self.publishers.forget(&mut self.kernel, pid);
        }
        match self.publishers.look(&mut self.kernel, pid, mappings) {
            Some(Sight::Seen(what)) => visible.push(what),
            Some(Sight::Blind(why)) => blind.push(why),
            Some(Sight::Other) | None => {}
        }
    }

    fn attach_all(&mut self, pid: u32, mappings: &[Mapping]) -> (Vec<String>, Vec<String>) {
        if pid == std::process::id() {
            return Default::default();
        }
        let mut code = RuntimeCode::default();
        let (mut seen, mut blind) = (Vec::new(), Vec::new());
        let mut found: Vec<(&Mapping, probe_abi::Library, bool)> =
            mappings.iter().filter_map(|m| Some((m, m.library()?, false))).collect();
        found.extend(inside(mappings));
        found.dedup_by_key(|(m, _, _)| m.file);
        found.retain(|(_, library, _)| self.collectives || *library != probe_abi::Library::Nccl);
        for (mapping, library, inside) in found {
            let sight =
                self.libraries.attach(&mut self.kernel, self.attach.as_ref(), pid, mapping, library, inside);
            match sight {
                Sight::Seen(what) => seen.push(what),
                Sight::Blind(why) => blind.push(why),
                Sight::Other => {}
            }
        }
        let runtime = mappings.iter().filter(|m| m.library() == Some(probe_abi::Library::Cudart));
        for (place, mapping) in code.iter_mut().zip(runtime.take(RANGES)) {
            *place = [mapping.start, mapping.end];
        }
        self.tell_runtime(pid, code);
        (seen, blind)
    }

    /// Where the runtime lies in a process, so that its own calls of the driver are not counted twice.
    fn tell_runtime(&mut self, pid: u32, code: RuntimeCode) {
        if self.runtime.get(&pid).copied().unwrap_or_default() == code {
            return;
        }
        if code == RuntimeCode::default() {
            return self.forget_runtime(pid);
        }
        match self.kernel.runtime.insert(pid, code, 0) {
            Ok(()) => drop(self.runtime.insert(pid, code)),
            Err(e) => {
                tracing::warn!(pid, %e, "driver calls made by the runtime will count twice in this process")
            }
        }
    }

    fn describe(&mut self, process: ProcessId, at_ns: u64, into: &mut Vec<Event>) {
        let mut info = proc::describe(process, at_ns);
        if let Some(followed) = self.processes.get_mut(process.pid) {
            (info.visible, info.blind) = (followed.visible.clone(), followed.blind.clone());
        }
        into.push(Event::Process(Box::new(info)));
        let variables = proc::launched(process.pid);
        if !variables.is_empty() {
            into.push(Event::LauncherEnv(Box::new(LauncherEnv { process, at_ns, variables })));
        }
    }

    /// A record names a process: makes sure that it was described first.
    pub(super) fn know(&mut self, process: ProcessId, at_ns: u64, into: &mut Vec<Event>) {
        if self.processes.get_mut(process.pid).is_none() {
            self.processes.follow(process.pid, at_ns);
        }
        let Some(followed) = self.processes.get_mut(process.pid) else { return };
        match followed.traced {
            Some(known) if known == process => return,
            Some(_) => self.end(process.pid, at_ns, ExitStatus::Unknown, into),
            None => {}
        }
        self.processes.follow(process.pid, at_ns);
        if let Some(followed) = self.processes.get_mut(process.pid) {
            followed.traced = Some(process);
        }
        self.look(process.pid, at_ns, into);
        self.describe(process, at_ns, into);
    }

    pub(super) fn forget_runtime(&mut self, pid: u32) {
        if self.runtime.remove(&pid).is_some() {
            let _ = self.kernel.runtime.remove(&pid);
        }
    }
}

/// A program that carries the runtime inside itself: it uses the driver and has no runtime library.
fn inside(mappings: &[Mapping]) -> Option<(&Mapping, probe_abi::Library, bool)> {
    let has = |library| mappings.iter().any(|m| m.library() == Some(library));
    let main = mappings.first()?;
    (has(probe_abi::Library::Cuda) && !has(probe_abi::Library::Cudart)).then_some((
        main,
        probe_abi::Library::Cudart,
        true,
    ))
}
