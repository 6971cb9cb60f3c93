//! Since when each process is observed as a whole, and the marks of records whose times are incomplete for that reason.
//!
//! Work that was enqueued before a library was probed is unknown, and so is when it began. A process is *late* if it may
//! have made calls before the probes: if its libraries were mapped before they were probed, and it had a GPU open by
//! then. The first step of each of its streams is marked [`flag::UNARMED`], up to the first wait for work that was
//! enqueued later, and so is a collective that began earlier. Its allocations are marked [`flag::LATE`].

use std::collections::{BTreeMap, BTreeSet};

use event::{CallArgs, CallRecord, StepRecord};
use probe_abi::record::flag;
use probe_abi::{Action, Library};

use crate::maps::FileKey;

/// Streams of a late process whose work is known from their last wait on. When full, each step of a further stream is
/// marked until [`SETTLED_NS`].
const STREAMS_MAX: usize = 1_024;
/// Time after which no work from before the probes is awaited for the first time: later steps are not marked.
const SETTLED_NS: u64 = 10_000_000_000;
/// Longest time from the mapping of the driver by a call of the runtime to the program's own first driver call, which
/// follows the initialization of the GPU.
const DRIVER_LOAD_NS: u64 = 100_000_000;

/// Actions of calls that allocate and free memory, which they do with a GPU open.
const MEMORY: [Action; 4] = [Action::Alloc, Action::AllocPhysical, Action::Free, Action::FreePhysical];

/// A library file and the time from which a process may have called it unobserved.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ArmedFile {
    pub(crate) file: FileKey,
    pub(crate) library: Library,
    /// When its functions were probed, ns.
    pub(crate) armed_ns: u64,
    /// Earliest time of its mapping by the process, ns.
    pub(crate) mapped_ns: u64,
    /// The kernel reported the mapping; otherwise `mapped_ns` is a lower bound.
    pub(crate) is_mapping_known: bool,
    /// When the mapping was found, ns.
    pub(crate) noted_ns: u64,
}

/// Whether a process may have made calls before its libraries were probed.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
enum Lateness {
    /// Every library was probed before its first call.
    #[default]
    Whole,
    /// No GPU was open when the libraries were probed. If one is open later, the process is whole.
    Unproven,
    Late,
}

/// What is known of one process.
#[derive(Debug, Default)]
struct Process {
    files: BTreeSet<FileKey>,
    /// When its first library was noted, ns.
    noted_ns: u64,
    /// When the process executed its program, if that was seen, ns.
    since_ns: u64,
    /// When the process was added to the traced ones, ns; 0 if all processes are.
    admitted_ns: u64,
    /// A library that waits for work is probed.
    has_waits: bool,
    has_runtime: bool,
    /// An earlier agent traced the process.
    is_adopted: bool,
    lateness: Lateness,
    /// When all libraries were probed, ns; 0 if the process is whole.
    armed_ns: u64,
    /// Streams that were waited for since.
    complete: BTreeSet<u64>,
    /// Time during which libraries were mapped and not all of them probed, ns.
    unobserved_ns: u64,
    /// End of the last part of that time, ns.
    unobserved_until_ns: u64,
}

/// The processes whose libraries are probed.
#[derive(Debug, Default)]
pub(crate) struct Arming {
    processes: BTreeMap<u32, Process>,
}

impl Arming {
    /// Notes that the process was added to the traced ones at `at_ns`, unless an earlier agent did so.
    pub(crate) fn admit(&mut self, pid: u32, at_ns: u64) {
        let process = self.processes.entry(pid).or_default();
        if !process.is_adopted {
            process.admitted_ns = at_ns;
        }
    }

    /// Notes that records of the process up to `read_ns` were read by an earlier agent. The process is late: of a step or
    /// a call that extends over that time a part is unknown, and so are earlier allocations.
    pub(crate) fn adopt(&mut self, pid: u32, read_ns: u64) {
        let known = Process { is_adopted: true, noted_ns: read_ns, ..Process::default() };
        self.processes.insert(pid, Process { lateness: Lateness::Late, armed_ns: read_ns, ..known });
    }

    /// Notes that a process executed another program at `at_ns`, whose libraries are noted again. What was found later
    /// than that, since an exec is reported with delay, is true of this program already, except that it is late.
    pub(crate) fn restart(&mut self, pid: u32, at_ns: u64) {
        let process = self.processes.entry(pid).or_default();
        if process.noted_ns < at_ns || process.lateness == Lateness::Late {
            let (noted_ns, admitted_ns) = (process.noted_ns, process.admitted_ns);
            *process = Process { noted_ns, admitted_ns, ..Process::default() };
        }
        process.since_ns = at_ns;
    }

    /// Returns true if libraries of the process were noted before.
    pub(crate) fn knows(&self, pid: u32) -> bool {
        self.processes.get(&pid).is_some_and(|p| !p.files.is_empty())
    }

    /// Removes a process.
    pub(crate) fn remove(&mut self, pid: u32) {
        self.processes.remove(&pid);
    }

    /// Notes that a file which the process has mapped is probed. `has_gpu_open` returns whether the process has a GPU
    /// open, which it has before it enqueues work or allocates memory.
    pub(crate) fn note(&mut self, pid: u32, file: &ArmedFile, has_gpu_open: impl Fn(u32) -> bool) {
        let process = self.processes.entry(pid).or_default();
        if !process.files.insert(file.file) {
            return;
        }
        process.add_unobserved(file);
        // Collectives enqueue their work by the runtime or the driver, and what came before is known by the communicator.
        if file.library == Library::Nccl {
            return;
        }
        process.has_waits = true;
        process.noted_ns = if process.noted_ns == 0 { file.noted_ns } else { process.noted_ns };
        let armed_ns = file.armed_ns.max(process.admitted_ns);
        let is_late = armed_ns > file.mapped_ns.max(process.since_ns) && !process.is_loaded_by_runtime(file);
        process.has_runtime |= file.library == Library::Cudart;
        if !is_late {
            return;
        }
        process.lateness = match process.lateness {
            Lateness::Late => Lateness::Late,
            _ if has_gpu_open(pid) => Lateness::Late,
            _ => Lateness::Unproven,
        };
        if armed_ns > process.armed_ns {
            process.armed_ns = armed_ns;
            process.complete.clear();
        }
    }

    /// Returns how long libraries of the process were mapped and not all of them probed, ns: calls in that time may be
    /// missing. Of a library whose mapping was not reported, the time begins with the process.
    pub(crate) fn unobserved_ns(&self, pid: u32) -> u64 {
        self.processes.get(&pid).map_or(0, |process| process.unobserved_ns)
    }

    /// Marks a step that may contain work from before the probes.
    pub(crate) fn mark_step(&mut self, step: &mut StepRecord, has_gpu_open: impl Fn(u32) -> bool) {
        let Some(process) = self.late(step.header.pid, has_gpu_open) else { return };
        let settled_ns = process.armed_ns.saturating_add(SETTLED_NS);
        if step.first_ns >= settled_ns || process.complete.contains(&step.stream) {
            return;
        }
        step.header.flags |= flag::UNARMED;
        // The wait covered all work before this instant, so that later steps contain later work only.
        let covered_ns = if step.recorded_ns > 0 { step.recorded_ns } else { step.header.entry_ns };
        if covered_ns >= process.armed_ns && process.complete.len() < STREAMS_MAX {
            process.complete.insert(step.stream);
        }
    }

    /// Marks a call that began before the waits for its work were probed.
    pub(crate) fn mark_args(&mut self, args: &mut CallArgs, has_gpu_open: impl Fn(u32) -> bool) {
        let (pid, entry_ns) = (args.header.pid, args.header.entry_ns);
        let Some(process) = self.processes.get(&pid) else { return };
        let (has_waits, is_early) = (process.has_waits, entry_ns < process.armed_ns);
        if !has_waits || is_early && self.late(pid, has_gpu_open).is_some() {
            args.header.flags |= flag::UNARMED;
        }
    }

    /// Marks an allocation or a free of a late process.
    pub(crate) fn mark_call(&mut self, call: &mut CallRecord, has_gpu_open: impl Fn(u32) -> bool) {
        let is_of_memory = probe_abi::row(call.header.row).is_some_and(|row| MEMORY.contains(&row.action));
        if is_of_memory && self.late(call.header.pid, has_gpu_open).is_some() {
            call.header.flags |= flag::LATE;
        }
    }

    /// Returns the process if it is late.
    fn late(&mut self, pid: u32, has_gpu_open: impl Fn(u32) -> bool) -> Option<&mut Process> {
        let process = self.processes.get_mut(&pid)?;
        if process.lateness == Lateness::Unproven {
            process.lateness = if has_gpu_open(pid) { Lateness::Whole } else { Lateness::Late };
        }
        (process.lateness == Lateness::Late).then_some(process)
    }
}

impl Process {
    /// Adds the time from the mapping of a file to its probes, except for time that was added with another file.
    fn add_unobserved(&mut self, file: &ArmedFile) {
        let from_ns = file.mapped_ns.max(self.since_ns).max(self.unobserved_until_ns);
        let until_ns = file.armed_ns.max(self.admitted_ns);
        if until_ns > from_ns {
            self.unobserved_ns += until_ns - from_ns;
            self.unobserved_until_ns = until_ns;
        }
    }

    /// Returns true if the runtime, which is probed, has just loaded the driver for its own calls.
    fn is_loaded_by_runtime(&self, file: &ArmedFile) -> bool {
        file.library == Library::Cuda
            && self.has_runtime
            && file.is_mapping_known
            && file.armed_ns.saturating_sub(file.mapped_ns) < DRIVER_LOAD_NS
    }
}

#[cfg(test)]
mod tests {
    use probe_abi::record::Header;

    use super::*;

    const PID: u32 = 7;
    const SECOND: u64 = 1_000_000_000;

    fn malloc() -> u16 {
        probe_abi::PROBES.iter().find(|p| p.symbol == "cudaMalloc").unwrap().id
    }

    fn file(inode: u64, library: Library, mapped_ns: u64, armed_ns: u64) -> ArmedFile {
        let file = FileKey { device: (0, 1), inode };
        ArmedFile { file, library, armed_ns, mapped_ns, is_mapping_known: true, noted_ns: armed_ns + 1 }
    }

    /// Returns a process whose runtime was mapped at 1 s and probed at 2 s.
    fn late() -> Arming {
        let mut arming = Arming::default();
        arming.note(PID, &file(1, Library::Cudart, SECOND, 2 * SECOND), |_| true);
        arming
    }

    fn is_step_marked(arming: &mut Arming, stream: u64, first_ns: u64, entry_ns: u64) -> bool {
        let header = Header { pid: PID, entry_ns, ..Header::default() };
        let mut step = StepRecord { header, stream, first_ns, ..StepRecord::default() };
        arming.mark_step(&mut step, |_| false);
        step.header.flags & flag::UNARMED != 0
    }

    fn is_call_marked(arming: &mut Arming, entry_ns: u64) -> (bool, bool) {
        let header = Header { pid: PID, entry_ns, ..Header::default() };
        let mut args = CallArgs { header, ..CallArgs::default() };
        arming.mark_args(&mut args, |_| false);
        let mut call = CallRecord { header: Header { row: malloc(), ..header }, ..CallRecord::default() };
        arming.mark_call(&mut call, |_| false);
        (args.header.flags & flag::UNARMED != 0, call.header.flags & flag::LATE != 0)
    }

    #[test]
    fn first_step_of_each_stream_of_a_late_process_is_marked() {
        let (mut arming, t) = (late(), 2 * SECOND);
        let marked = [(1, t + 1), (1, t + 5), (2, t + 6), (1, t + 7), (2, t + 8)]
            .map(|(stream, at_ns)| is_step_marked(&mut arming, stream, at_ns, at_ns + 1));
        assert_eq!(marked, [true, false, true, false, false]);
        assert!(!is_step_marked(&mut arming, 3, t + SETTLED_NS, t + SETTLED_NS + 1), "long after the probes");
    }

    /// An event that was recorded before the probes says nothing about what was enqueued between.
    #[test]
    fn wait_for_earlier_work_leaves_the_next_step_marked() {
        let (mut arming, t) = (late(), 2 * SECOND);
        let header = Header { pid: PID, entry_ns: t + 5, ..Header::default() };
        let first_ns = t - 9;
        let mut step =
            StepRecord { header, stream: 1, first_ns, recorded_ns: t - 1, ..StepRecord::default() };
        arming.mark_step(&mut step, |_| false);
        assert_ne!(step.header.flags & flag::UNARMED, 0);
        assert!(is_step_marked(&mut arming, 1, t + 6, t + 7));
        assert!(!is_step_marked(&mut arming, 1, t + 8, t + 9));
    }

    #[test]
    fn calls_before_all_libraries_are_probed_are_marked() {
        let mut arming = late();
        assert_eq!(is_call_marked(&mut arming, 2 * SECOND - 1), (true, true));
        assert_eq!(is_call_marked(&mut arming, 2 * SECOND), (false, true));
        arming.note(PID, &file(2, Library::Amdhip, SECOND, 3 * SECOND), |_| true);
        assert_eq!(is_call_marked(&mut arming, 3 * SECOND - 1), (true, true));
    }

    #[test]
    fn collectives_are_marked_until_a_wait_can_be_seen() {
        let mut arming = Arming::default();
        arming.note(PID, &file(1, Library::Nccl, 3, 2), |_| true);
        assert_eq!(is_call_marked(&mut arming, 9), (true, false));
        arming.note(PID, &file(2, Library::Cudart, 3, 2), |_| true);
        assert_eq!(is_call_marked(&mut arming, 9), (false, false));
    }

    #[test]
    fn process_that_maps_a_probed_file_loses_nothing() {
        let mut arming = Arming::default();
        arming.note(PID, &file(1, Library::Cudart, 3 * SECOND, 2 * SECOND), |_| true);
        assert!(!is_step_marked(&mut arming, 1, 4 * SECOND, 5 * SECOND));
        assert_eq!(is_call_marked(&mut arming, 4 * SECOND), (false, false));
    }

    #[test]
    fn program_executed_after_the_probes_loses_nothing() {
        let mut arming = Arming::default();
        arming.restart(PID, 3 * SECOND);
        arming.note(PID, &file(1, Library::Cudart, SECOND, 2 * SECOND), |_| true);
        assert!(!is_step_marked(&mut arming, 1, 4 * SECOND, 5 * SECOND));
    }

    /// The exec was before the scan that found the libraries, and its record is read after the first calls.
    #[test]
    fn exec_that_is_reported_late_withdraws_no_evidence() {
        let mut arming = Arming::default();
        let runtime = file(1, Library::Cudart, SECOND, 2 * SECOND);
        arming.note(PID, &runtime, |_| false);
        arming.restart(PID, SECOND);
        arming.note(PID, &runtime, |_| true);
        let header = Header { pid: PID, row: malloc(), ..Header::default() };
        let mut call = CallRecord { header, ..CallRecord::default() };
        arming.mark_call(&mut call, |_| true);
        assert_eq!(call.header.flags & flag::LATE, 0);
    }

    #[test]
    fn process_is_late_when_it_is_added_later_than_its_files() {
        let mut arming = Arming::default();
        arming.admit(PID, 9 * SECOND);
        arming.note(PID, &file(1, Library::Cudart, 3 * SECOND, 2 * SECOND), |_| true);
        assert_eq!(is_call_marked(&mut arming, 9 * SECOND - 1), (true, true));
    }

    /// A library is usually probed milliseconds after its mapping, and a GPU takes longer to open.
    #[test]
    fn process_that_opens_its_gpu_after_the_probes_loses_nothing() {
        for opens_later in [true, false] {
            let mut arming = Arming::default();
            arming.note(PID, &file(1, Library::Cudart, SECOND, 2 * SECOND), |_| false);
            let header = Header { pid: PID, row: malloc(), ..Header::default() };
            let mut call = CallRecord { header, ..CallRecord::default() };
            arming.mark_call(&mut call, |_| opens_later);
            assert_eq!(call.header.flags & flag::LATE == 0, opens_later);
        }
    }

    #[test]
    fn time_without_probes_is_counted_once() {
        let mut arming = Arming::default();
        assert_eq!(arming.unobserved_ns(PID), 0);
        arming.note(PID, &file(1, Library::Cudart, SECOND, 2 * SECOND), |_| false);
        assert_eq!(arming.unobserved_ns(PID), SECOND);
        arming.note(PID, &file(2, Library::Nccl, SECOND, 3 * SECOND), |_| false);
        assert_eq!(arming.unobserved_ns(PID), 2 * SECOND, "a second of both is counted once");
        arming.note(PID, &file(3, Library::Cuda, 8 * SECOND, 7 * SECOND), |_| false);
        assert_eq!(arming.unobserved_ns(PID), 2 * SECOND, "probed before it was mapped");
    }

    #[test]
    fn driver_that_the_runtime_loads_makes_no_process_late() {
        let mut arming = Arming::default();
        arming.note(PID, &file(1, Library::Cudart, 3 * SECOND, 2 * SECOND), |_| true);
        arming.note(PID, &file(2, Library::Cuda, 4 * SECOND, 4 * SECOND + 5_000_000), |_| true);
        assert_eq!(is_call_marked(&mut arming, 4 * SECOND), (false, false));
        arming.note(PID, &file(3, Library::Cuda, 4 * SECOND, 5 * SECOND), |_| true);
        assert_eq!(is_call_marked(&mut arming, 4 * SECOND), (true, true));
    }

    /// The records of the first half of a step may have been read by the earlier agent.
    #[test]
    fn process_of_an_earlier_agent_is_late_since_its_last_read() {
        let (mut arming, t) = (Arming::default(), 9 * SECOND);
        arming.adopt(PID, t);
        arming.admit(PID, t + SECOND);
        arming.note(PID, &file(1, Library::Cudart, 3 * SECOND, 2 * SECOND), |_| true);
        assert_eq!(is_call_marked(&mut arming, t - 1), (true, true));
        assert_eq!(is_call_marked(&mut arming, t), (false, true));
        assert!(is_step_marked(&mut arming, 1, t - 5, t + 1));
        assert!(!is_step_marked(&mut arming, 1, t + 2, t + 3));
    }

    #[test]
    fn streams_of_a_late_process_take_bounded_memory() {
        let mut arming = late();
        for stream in 0..10 * STREAMS_MAX as u64 {
            is_step_marked(&mut arming, stream, 2 * SECOND + 1, 2 * SECOND + 2);
        }
        assert_eq!(arming.processes[&PID].complete.len(), STREAMS_MAX);
        arming.remove(PID);
        assert!(arming.processes.is_empty());
    }
}
