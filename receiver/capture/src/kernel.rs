//! The kernel programs: loads and configures them, and gives access to their maps.
//!
//! aya creates the maps and the tracepoint programs; where the kernel supports uprobe_multi, [`crate::multi`] loads the
//! probe programs. [`crate::attach`] attaches them.

use std::path::{Path, PathBuf};

use aya::maps::{Array, HashMap, Map, MapData, PerCpuArray};
use aya::programs::links::{FdLink, PinnedLink};
use aya::programs::{RawTracePoint, UProbe};
use aya::{Ebpf, EbpfLoader};
use probe_abi::counters::Counters;
use probe_abi::detail::Detail;
use probe_abi::fold::StreamFold;
use probe_abi::function::HotFunction;
use probe_abi::graph::Contents;
use probe_abi::hot::{HotDurations, HotProcess, HotStream};
use probe_abi::record::{Caller, Calls, OperationFold, ProcessFold, RuntimeCode, Settings, ThreadFold};
use probe_abi::thread_counter::ThreadCounter;

use crate::CaptureError;
use crate::btf::Btf;
use crate::multi::Multi;
use crate::objects::OBJECT;
use crate::publishers;
use crate::ring::Ring;

/// A struct of 64-bit fields as words: a field is at its offset divided by eight.
pub type Words<const BYTES: usize> = [u64; BYTES];

pub(crate) const PROCESS_WORDS: usize = size_of::<ProcessFold>() / 8;
pub(crate) const COUNTER_WORDS: usize = size_of::<Counters>() / 8;
pub(crate) const OPERATION_WORDS: usize = size_of::<OperationFold>() / 8;
pub(crate) const HOT_PROCESS_WORDS: usize = size_of::<HotProcess>() / 8;
pub(crate) const HOT_DURATION_WORDS: usize = size_of::<HotDurations>() / 8;
pub(crate) const HOT_FUNCTION_WORDS: usize = size_of::<HotFunction>() / 8;
pub(crate) const HOT_STREAM_WORDS: usize = size_of::<HotStream>() / 8;
pub(crate) const GRAPH_WORDS: usize = size_of::<Contents>() / 8;
pub(crate) const STREAM_WORDS: usize = size_of::<StreamFold>() / 8;
pub(crate) const CALLER_WORDS: usize = size_of::<Caller>() / 8;
pub(crate) const CALLS_WORDS: usize = size_of::<Calls>() / 8;
pub(crate) const THREAD_WORDS: usize = size_of::<ThreadFold>() / 8;
const SETTING_WORDS: usize = size_of::<Settings>() / 8;

/// The sizes of the maps that are configurable.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct MapSizes {
    /// Bytes of the ring: a power of two, at least a page.
    pub ring_bytes: u32,
    /// Maximum number of streams of all processes.
    pub streams: u32,
    /// Maximum number of processes.
    pub processes: u32,
    /// Maximum number of threads that make calls recorded with arguments.
    pub threads: u32,
    /// Maximum number of processes in the filter: the named and the excluded ones, and this one.
    pub filter: u32,
}

impl Default for MapSizes {
    fn default() -> Self {
        MapSizes { ring_bytes: 4 << 20, streams: 16_384, processes: 1_024, threads: 32_768, filter: 4_096 }
    }
}

/// Where the maps are, and who made them.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Load<'a> {
    /// This agent makes them, and they end with it.
    Alone,
    /// This agent makes them and pins them in a directory, with the links of the tracepoints.
    Pinned(&'a Path),
    /// An earlier agent pinned them in a directory.
    Adopted(&'a Path),
}

impl<'a> Load<'a> {
    fn dir(self) -> Option<&'a Path> {
        match self {
            Load::Alone => None,
            Load::Pinned(dir) | Load::Adopted(dir) => Some(dir),
        }
    }
}

/// The tracepoint programs, and their tracepoints.
const HOOKS: [(&str, &str); 2] = [("exec", "sched_process_exec"), ("exit", "sched_process_exit")];

/// The loaded programs and their maps.
pub struct Kernel {
    maps: Maps,
    /// The consumer of the ring.
    pub ring: Ring,
    /// [`ProcessFold`]s by pid.
    pub processes: HashMap<MapData, u32, Words<PROCESS_WORDS>>,
    /// [`Counters`] of each CPU.
    pub counters: PerCpuArray<MapData, Words<COUNTER_WORDS>>,
    /// [`OperationFold`]s by pid and row.
    pub durations: HashMap<MapData, [u32; 2], Words<OPERATION_WORDS>>,
    /// [`StreamFold`]s by [`StreamKey`](probe_abi::record::StreamKey).
    pub streams: HashMap<MapData, [u32; 4], Words<STREAM_WORDS>>,
    /// [`Contents`] by [`GraphKey`](probe_abi::graph::GraphKey).
    pub graphs: HashMap<MapData, [u32; 4], Words<GRAPH_WORDS>>,
    /// [`HotStream`]s by [`HotStream::slot`].
    pub hot_streams: Array<MapData, Words<HOT_STREAM_WORDS>>,
    /// [`HotFunction`]s by [`HotFunction::slots`].
    pub hot_functions: Array<MapData, Words<HOT_FUNCTION_WORDS>>,
    /// Addresses of the names of registered functions, by pid and address.
    pub registered: HashMap<MapData, [u64; 2], u64>,
    /// [`HotDurations`] by [`HotDurations::slot`].
    pub hot_durations: Array<MapData, Words<HOT_DURATION_WORDS>>,
    /// [`HotProcess`]es by [`HotProcess::slot`].
    pub hot_processes: Array<MapData, Words<HOT_PROCESS_WORDS>>,
    /// [`Caller`]s by thread id.
    pub callers: HashMap<MapData, u32, Words<CALLER_WORDS>>,
    /// [`Calls`] by [`Calls::slot`].
    pub hot_calls: Array<MapData, Words<CALLS_WORDS>>,
    /// [`ThreadFold`]s by [`ThreadFold::slots`].
    pub threads: Array<MapData, Words<THREAD_WORDS>>,
    /// Processes by pid: 1 to trace, 0 not to.
    pub filter: HashMap<MapData, u32, u64>,
    /// Address ranges of the runtime by pid.
    pub runtime: HashMap<MapData, u32, RuntimeCode>,
    /// Locations of published trace contexts, by [`probe_abi::context::Variable::slot`].
    pub variables: Array<MapData, publishers::PublisherWords>,
    /// Details of processes as [`Detail::word`]s by [`Detail::slot`].
    pub details: Array<MapData, u64>,
    settings: Array<MapData, Words<SETTING_WORDS>>,
    /// The probe programs for uprobe_multi, if the kernel supports it.
    pub multi: Option<Multi>,
}

fn missing(name: &str) -> CaptureError {
    CaptureError::Load { what: "the object", reason: format!("there is no {name}") }
}

fn problem(what: &'static str) -> impl Fn(aya::maps::MapError) -> CaptureError {
    move |e| CaptureError::Load { what, reason: e.to_string() }
}

/// Where maps are taken from.
enum Maps {
    /// The loaded object, with its programs.
    Loaded(Box<Ebpf>),
    /// A directory in which an earlier agent pinned them.
    Pinned(PathBuf),
}

impl Maps {
    fn map(&mut self, name: &'static str) -> Result<Map, CaptureError> {
        match self {
            Maps::Loaded(ebpf) => ebpf.take_map(name).ok_or_else(|| missing(name)),
            Maps::Pinned(dir) => {
                MapData::from_pin(dir.join(name)).and_then(Map::from_map_data).map_err(problem(name))
            }
        }
    }
}

fn take<T: TryFrom<Map, Error = aya::maps::MapError>>(
    maps: &mut Maps,
    name: &'static str,
) -> Result<T, CaptureError> {
    T::try_from(maps.map(name)?).map_err(problem(name))
}

impl Kernel {
    /// Loads programs and maps, and attaches the tracepoints. No function is probed yet.
    pub fn load(sizes: &MapSizes, trace_all: bool) -> Result<Kernel, CaptureError> {
        Kernel::load_as(sizes, trace_all, Load::Alone)
    }

    /// Loads as [`Kernel::load`] does, with pinned maps. Adopted maps and tracepoints stay as they are. Only the links of
    /// uprobe_multi can be pinned.
    pub(crate) fn load_as(sizes: &MapSizes, trace_all: bool, load: Load<'_>) -> Result<Kernel, CaptureError> {
        Kernel::load_with(sizes, trace_all, load, Multi::load)
    }

    /// Loads as [`Kernel::load_as`] does, with `load_multi` for uprobe_multi. If that fails, the programs for perf uprobes
    /// are loaded, before the maps are moved out of `ebpf`.
    fn load_with(
        sizes: &MapSizes,
        trace_all: bool,
        load: Load<'_>,
        load_multi: fn(&Ebpf) -> Result<Multi, CaptureError>,
    ) -> Result<Kernel, CaptureError> {
        let mut ebpf = load_object(sizes, load.dir())?;
        let mut multi = load_multi(&ebpf);
        if load != Load::Alone {
            multi = Ok(multi?);
        }
        if let Err(reason) = &multi {
            tracing::info!(%reason, "uprobe_multi is not available: using perf uprobes, which detach slowly");
            for name in ["enter", "launch", "leave", "args_enter", "args_leave"] {
                let program = probe_program(&mut ebpf, name)?;
                program
                    .load()
                    .map_err(|e| CaptureError::Load { what: "a probe program", reason: chain(&e) })?;
            }
        }
        if let Load::Adopted(dir) = load {
            check_hooks(dir)?;
        } else {
            let settings = ebpf.map_mut("SETTINGS").ok_or_else(|| missing("SETTINGS"))?;
            let mut settings: Array<_, [u64; SETTING_WORDS]> =
                Array::try_from(settings).map_err(problem("SETTINGS"))?;
            settings.set(0, settings_words(trace_all), 0).map_err(problem("SETTINGS"))?;
            for (program, tracepoint) in HOOKS {
                attach_tracepoint(&mut ebpf, program, tracepoint, load.dir())?;
            }
        }
        Kernel::of(Maps::Loaded(Box::new(ebpf)), multi.ok())
    }

    /// Opens the maps that an earlier agent pinned, which may have other sizes, without loading programs. Fails if their
    /// values have another layout.
    pub(crate) fn open(dir: &Path) -> Result<Kernel, CaptureError> {
        Kernel::of(Maps::Pinned(dir.join("maps")), None)
    }

    fn of(mut maps: Maps, multi: Option<Multi>) -> Result<Kernel, CaptureError> {
        Ok(Kernel {
            ring: take(&mut maps, "RING")?,
            processes: take(&mut maps, "PROCESSES")?,
            counters: take(&mut maps, "COUNTERS")?,
            durations: take(&mut maps, "DURATIONS")?,
            streams: take(&mut maps, "STREAMS")?,
            graphs: take(&mut maps, "GRAPHS")?,
            hot_streams: take(&mut maps, "HOT_STREAMS")?,
            hot_functions: take(&mut maps, "HOT_FUNCTIONS")?,
            registered: take(&mut maps, "REGISTERED")?,
            hot_durations: take(&mut maps, "HOT_DURATIONS")?,
            hot_processes: take(&mut maps, "HOT_PROCESSES")?,
            callers: take(&mut maps, "CALLERS")?,
            hot_calls: take(&mut maps, "HOT_CALLS")?,
            threads: take(&mut maps, "THREADS")?,
            filter: take(&mut maps, "FILTER")?,
            runtime: take(&mut maps, "RUNTIME")?,
            details: take(&mut maps, "DETAILS")?,
            variables: take(&mut maps, "VARIABLES")?,
            settings: take(&mut maps, "SETTINGS")?,
            multi,
            maps,
        })
    }

    /// Sets the detail of processes without their own.
    pub fn set_detail(&mut self, detail: Detail) -> Result<(), CaptureError> {
        let words = self.settings.get(&0, 0).map_err(problem("SETTINGS"))?;
        let settings = Settings { detail: detail.word(0), ..zerocopy::transmute!(words) };
        let words: Words<SETTING_WORDS> = zerocopy::transmute!(settings);
        self.settings.set(0, words, 0).map_err(problem("SETTINGS"))
    }

    /// Returns the state of a thread and its slot.
    pub(crate) fn thread(&self, pid: u32, tid: u32) -> Option<(u32, ThreadFold)> {
        let slots = ThreadFold::slots(tid).filter_map(|at| Some((at, self.threads.get(&at, 0).ok()?)));
        let folds = slots.map(|(at, words)| (at, zerocopy::transmute!(words)));
        folds.into_iter().find(|(_, thread): &(u32, ThreadFold)| thread.is_of(pid, tid))
    }

    /// Returns a program for perf uprobes by its name.
    pub fn perf_program(&mut self, name: &str) -> Result<&mut UProbe, CaptureError> {
        match &mut self.maps {
            Maps::Loaded(ebpf) => probe_program(ebpf, name),
            Maps::Pinned(_) => Err(missing(name)),
        }
    }
}

fn probe_program<'a>(ebpf: &'a mut Ebpf, name: &str) -> Result<&'a mut UProbe, CaptureError> {
    let failed = |reason: String| CaptureError::Load { what: "a probe program", reason };
    let program = ebpf.program_mut(name).ok_or_else(|| failed(format!("there is no {name}")))?;
    program.try_into().map_err(|e: aya::programs::ProgramError| failed(e.to_string()))
}

/// Returns the names of the maps, without the constants of the programs, which each load has for itself.
fn map_names() -> Result<Vec<String>, CaptureError> {
    let failed = |e: aya_obj::ParseError| CaptureError::Load { what: "the object", reason: chain(&e) };
    let object = aya_obj::Object::parse(OBJECT).map_err(failed)?;
    Ok(object.maps.into_keys().filter(|name| !name.starts_with('.')).collect())
}

/// Loads the object, with its maps pinned in a directory or opened from there.
fn load_object(sizes: &MapSizes, pins: Option<&Path>) -> Result<Ebpf, CaptureError> {
    if OBJECT.is_empty() {
        return Err(CaptureError::Architecture(std::env::consts::ARCH));
    }
    let names = if pins.is_some() { map_names()? } else { Vec::new() };
    let mut loader = EbpfLoader::new();
    for (name, dir) in names.iter().zip(pins.into_iter().cycle()) {
        loader.map_pin_path(name, dir.join("maps").join(name));
    }
    loader.map_max_entries("RING", sizes.ring_bytes);
    loader.map_max_entries("STREAMS", sizes.streams);
    loader.map_max_entries("PROCESSES", sizes.processes);
    loader.map_max_entries("FILTER", sizes.filter);
    loader.map_max_entries("CALLERS", sizes.threads);
    loader.load(OBJECT).map_err(|e| CaptureError::Load { what: "the kernel programs", reason: chain(&e) })
}

/// Returns an error and its causes in one line, without causes whose text the error already contains.
pub(crate) fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(inner) = cause {
        let inner_text = inner.to_string();
        if !text.contains(&inner_text) {
            text = format!("{text}: {inner_text}");
        }
        cause = inner.source();
    }
    text
}

/// Checks that the tracepoint programs of an earlier agent are attached.
fn check_hooks(dir: &Path) -> Result<(), CaptureError> {
    let open = |(name, _): (&str, &str)| PinnedLink::from_pin(dir.join("hooks").join(name)).map(drop);
    let missing = |e| CaptureError::Load { what: "a pinned tracepoint program", reason: chain(&e) };
    HOOKS.into_iter().try_for_each(open).map_err(missing)
}

fn attach_tracepoint(
    ebpf: &mut Ebpf,
    name: &str,
    tracepoint: &str,
    pins: Option<&Path>,
) -> Result<(), CaptureError> {
    let failed = |reason: String| CaptureError::Load { what: "a tracepoint program", reason };
    let program = ebpf.program_mut(name).ok_or_else(|| failed(format!("there is no {name}")))?;
    let program: &mut RawTracePoint = program.try_into().map_err(|e| failed(chain(&e)))?;
    program.load().map_err(|e| failed(chain(&e)))?;
    let id = program.attach(tracepoint).map_err(|e| failed(chain(&e)))?;
    if let Some(dir) = pins {
        let link: FdLink = program.take_link(id).map_err(|e| failed(chain(&e)))?.into();
        link.pin(dir.join("hooks").join(name)).map_err(|e| failed(chain(&e)))?;
    }
    Ok(())
}

fn settings_words(trace_all: bool) -> [u64; SETTING_WORDS] {
    let data = std::fs::read("/sys/kernel/btf/vmlinux").unwrap_or_default();
    let btf = Btf::parse(&data)
        .inspect_err(|e| tracing::warn!(%e, "run-queue waits and exits of processes are not recorded"));
    let offset = |structure: &str, field: &str| btf.as_ref().ok().and_then(|b| b.offset(structure, field));
    let nested =
        |path: &[(&str, &str)]| path.iter().map(|(outer, inner)| offset(outer, inner)).sum::<Option<u64>>();
    // On AArch64 the first member of the struct `uw` (asm/processor.h of both).
    let thread_pointer = if cfg!(target_arch = "aarch64") { "uw" } else { "fsbase" };
    // Before Linux 5.5 the field was called real_start_time.
    let start = offset("task_struct", "start_boottime").or_else(|| offset("task_struct", "real_start_time"));
    let settings = Settings {
        trace_all: u64::from(trace_all),
        detail: Detail::NONE.word(0),
        counters_at: ThreadCounter::ALL.map(|counter| nested(counter.path()).unwrap_or(0)),
        group_leader_at: offset("task_struct", "group_leader").unwrap_or(0),
        start_boottime_at: start.unwrap_or(0),
        signal_at: offset("task_struct", "signal").unwrap_or(0),
        live_at: offset("signal_struct", "live").unwrap_or(0),
        exit_code_at: offset("task_struct", "exit_code").unwrap_or(0),
        thread_pointer_at: nested(&[("task_struct", "thread"), ("thread_struct", thread_pointer)])
            .unwrap_or(0),
    };
    zerocopy::transmute!(settings)
}

#[cfg(test)]
mod tests {
    use std::sync::{Mutex, MutexGuard, PoisonError};

    use probe_abi::frontier::Frontier;

    use super::*;

    /// Loads what a kernel without uprobe_multi loads; prints why and returns `None` if nothing can be loaded. As long as the
    /// guard lives, no other such test calls the function that is probed: its calls would be recorded, too.
    fn with_perf_uprobes() -> Option<(MutexGuard<'static, ()>, Kernel)> {
        static CALLS: Mutex<()> = Mutex::new(());
        let missing = crate::checks().into_iter().find(|c| c.readiness == crate::Readiness::Missing);
        if let Some(check) = missing {
            println!("skipped: {} {}", check.name, check.found);
            return None;
        }
        let none = |_: &Ebpf| {
            Err(CaptureError::Load { what: "uprobe_multi", reason: "disabled by the test".to_owned() })
        };
        let alone = CALLS.lock().unwrap_or_else(PoisonError::into_inner);
        Some((alone, Kernel::load_with(&MapSizes::default(), true, Load::Alone, none).unwrap()))
    }

    /// The fallback loaded its programs after the maps had been moved out, so that no kernel without uprobe_multi could
    /// be used.
    #[test]
    fn perf_uprobes_are_used_without_uprobe_multi() {
        let Some((_alone, mut kernel)) = with_perf_uprobes() else { return };
        let attach = crate::attach::best(&mut kernel);
        assert_eq!(attach.name(), "perf uprobes");
        let cost_ns = crate::cost::calibrate(&mut kernel, attach.as_ref()).costs.launch_ns;
        assert!(cost_ns > 50, "a probe that is hit costs more than {cost_ns} ns");
    }

    /// Both methods of attachment run the same programs, but only uprobe_multi embeds cookies.
    #[test]
    fn perf_uprobes_record_arguments_of_every_nccl_row() {
        let Some((_alone, mut kernel)) = with_perf_uprobes() else { return };
        let attach = crate::attach::best(&mut kernel);
        let rows: Vec<_> =
            probe_abi::PROBES.iter().filter(|p| p.library == probe_abi::Library::Nccl).collect();
        for row in &rows {
            crate::cost::call_as(&mut kernel, attach.as_ref(), probe_abi::Cookie::pack(row, false, true));
        }
        let mut recorded = Vec::new();
        while let Some(item) = kernel.ring.next() {
            if let Ok(event::decode::Record::CallArgs(call)) = event::decode::decode(&item) {
                recorded.push(call);
            }
        }
        let of = |p: &&&probe_abi::Probe| (p.id, p.wiring.args.counted != probe_abi::ArgPos::NONE);
        let expected: Vec<_> = rows.iter().map(|p| of(&p)).collect();
        let seen: Vec<_> = recorded.iter().map(|t| (t.header.row, t.ordinal.is_some())).collect();
        assert_eq!(seen, expected);
        assert!(recorded.iter().all(|t| t.header.duration_ns > 0 && t.header.process_start_ns > 0));
        let account = crate::totals::account(&kernel, crate::totals::Share::default(), 0);
        assert_eq!((account.hits, account.delivered), (rows.len() as u64, rows.len() as u64), "{account:?}");
    }

    /// The slots of a thread may be those of others with nearby ids.
    #[test]
    fn thread_uses_the_next_free_slot_and_its_calls_are_dropped_without_one() {
        let Some((_alone, mut kernel)) = with_perf_uprobes() else { return };
        let attach = crate::attach::best(&mut kernel);
        let copy = probe_abi::PROBES.iter().find(|p| p.symbol == "cudaMemcpyAsync").unwrap().cookie();
        let (pid, tid) = (std::process::id(), crate::proc::own_tid().unwrap());
        let slots: Vec<u32> = ThreadFold::slots(tid).collect();
        let mut another = [0; THREAD_WORDS];
        another[0] = Calls::owner(u32::MAX, u32::MAX);
        for (taken, expected) in [(1, Some(slots[1])), (slots.len(), None)] {
            slots[..taken].iter().for_each(|slot| kernel.threads.set(*slot, another, 0).unwrap());
            crate::cost::call_as(&mut kernel, attach.as_ref(), copy);
            assert_eq!(kernel.thread(pid, tid).map(|(slot, _)| slot), expected);
        }
        let dropped = crate::totals::values(&crate::totals::counters(&kernel).dropped);
        assert_eq!(dropped[probe_abi::counters::DropReason::ThreadsFull as usize], 1, "{dropped:?}");
    }

    /// A struct was changed and the objects were not rebuilt: every load failed, and live tests were skipped as on a
    /// machine without privileges. This test needs none.
    #[test]
    fn committed_object_matches_the_structs_of_this_agent() {
        let object = aya_obj::Object::parse(OBJECT).unwrap();
        let sizes = [
            ("CALLERS", size_of::<Caller>()),
            ("COUNTERS", size_of::<Counters>()),
            ("DURATIONS", size_of::<OperationFold>()),
            ("EVENTS", size_of::<Frontier>()),
            ("GRAPHS", size_of::<Contents>()),
            ("PROCESSES", size_of::<ProcessFold>()),
            ("HOT_CALLS", size_of::<Calls>()),
            ("HOT_DURATIONS", size_of::<HotDurations>()),
            ("HOT_FUNCTIONS", size_of::<HotFunction>()),
            ("HOT_PROCESSES", size_of::<HotProcess>()),
            ("HOT_STREAMS", size_of::<HotStream>()),
            ("RUNTIME", size_of::<RuntimeCode>()),
            ("SETTINGS", size_of::<Settings>()),
            ("STREAMS", size_of::<StreamFold>()),
            ("THREADS", size_of::<ThreadFold>()),
            ("VARIABLES", size_of::<probe_abi::context::Variable>()),
        ];
        for (name, size) in sizes {
            assert_eq!(object.maps[name].value_size() as usize, size, "{name}: run cargo xtask bpf");
        }
    }
}
