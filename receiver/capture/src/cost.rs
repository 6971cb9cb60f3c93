//! The cost of a probe to the traced thread, measured on this machine: a function of the agent is called without a probe,
//! with an empty one, and with a probe program. The difference between the last two is the cost of the program; the
//! rest is the trap.
//!
//! The agent measures two variants at start, for its overhead metric and its budget. The benchmark has a function for each variant, all
//! probed at once, and calls them in turn for a fraction of a millisecond each, so that disturbances affect all alike.

#![expect(unsafe_code, reason = "the probed function must begin as a C function does")]

use std::arch::naked_asm;
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::time::Instant;

use aya_obj::generated::bpf_insn;
use probe_abi::detail::Detail;
use probe_abi::graph::GraphKey;
use probe_abi::record::StreamKey;
use probe_abi::{Cookie, PROBES};

use crate::attach::{Attach, Attached, Point};
use crate::budget::{ClassSet, HitCosts, ProbeClass};
use crate::kernel::{GRAPH_WORDS, Kernel, MapSizes, THREAD_WORDS};
use crate::multi::{ALL_PROCESSES, LinkPlan};
use crate::sys::{self, End, Kind};
use crate::totals::CallReader;
use crate::{CaptureError, attach, functions, maps, proc, totals, unfinished};

const CALLS: u32 = 2_000;
const RUNS: usize = 5;
const CALLS_A_WINDOW: u32 = 100;
const OWN_EXECUTABLE: &str = "/proc/self/exe";

type Site = unsafe extern "C" fn(u64, u64, u64, u64, u64, u64, u64, u64, u64) -> u64;

/// Defines functions that begin like those of libcudart: `push %rbp` is the probed instruction. They have nine arguments,
/// so that some are on the stack, and access nothing but their own stack frame: any thread may call them.
macro_rules! sites {
    ($($name:ident)*) => {
        $(
            #[cfg(target_arch = "x86_64")]
            #[unsafe(naked)]
            unsafe extern "C" fn $name(_: u64, _: u64, _: u64, _: u64, _: u64, _: u64, _: u64, _: u64, _: u64) -> u64 {
                naked_asm!(".p2align 6", "push rbp", "mov rbp, rsp", "xor eax, eax", "pop rbp", "ret")
            }

            #[cfg(not(target_arch = "x86_64"))]
            #[unsafe(naked)]
            unsafe extern "C" fn $name(_: u64, _: u64, _: u64, _: u64, _: u64, _: u64, _: u64, _: u64, _: u64) -> u64 {
                naked_asm!(".p2align 6", "stp x29, x30, [sp, #-16]!", "mov x0, #0", "ldp x29, x30, [sp], #16", "ret")
            }
        )*
        const SITES: [Site; Variant::ALL.len()] = [$($name),*];
    };
}

sites!(bare empty_entry launch empty_pair timed_call args_call args_on_stack graph_launch empty_session entry_session);

/// The first argument of every call, which `cudaGraphLaunch` takes as its graph.
const GRAPH: u64 = 0x1000;

fn ns_per_call(site: Site, calls: u32) -> f64 {
    let began = Instant::now();
    for _ in 0..calls {
        // SAFETY: see `sites`. As `cudaMemcpyAsync` the fourth argument is a direction and the fifth a stream; as
        // `cudaLaunchKernel` they are the block, and the eighth is the stream.
        std::hint::black_box(unsafe { site(GRAPH, 1, 1, 1, 0x100, 0, 0, 0x100, 0) });
    }
    began.elapsed().as_nanos() as f64 / f64::from(calls)
}

fn file_offset(site: Site) -> Option<u64> {
    let address = site as *const () as u64;
    let text = proc::read_text("/proc/self/maps").ok()?;
    let mapping = maps::parse(&text).into_iter().find(|m| (m.start..m.end).contains(&address))?;
    Some(address - mapping.start + mapping.offset)
}

/// Calls a function of this process once while it is probed with `cookie`.
#[cfg(test)]
pub(crate) fn call_as(kernel: &mut Kernel, attach: &dyn Attach, cookie: Cookie) {
    let site = SITES[Variant::ArgsOnStack as usize];
    let points = [Point { offset: file_offset(site).unwrap(), cookie }];
    let probes = attach.attach(kernel, Path::new(OWN_EXECUTABLE), &points).unwrap();
    ns_per_call(site, 1);
    drop(probes);
}

/// The probes on the function that is called.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Variant {
    /// No probe.
    Bare,
    /// An empty program at the entry.
    EmptyEntry,
    /// The launch program, which folds the call.
    Launch,
    /// Empty programs at entry and return.
    EmptyPair,
    /// An asynchronous copy: folded, timed, added to its histogram, and one in N recorded individually.
    TimedCall,
    /// A collective with all arguments in registers: one record with arguments for each call.
    ArgsCall,
    /// A collective whose stream is on the stack: all-reduce.
    ArgsOnStack,
    /// A launch of a graph with known contents: folded and timed.
    GraphLaunch,
    /// One empty program at entry and return, as a uprobe session (Linux 6.13). No probe where the kernel has none.
    EmptySession,
    /// An empty session whose program refuses the return at the entry.
    EntrySession,
}

impl Variant {
    /// All variants, in the order of their functions.
    pub const ALL: [Variant; 10] = [
        Variant::Bare,
        Variant::EmptyEntry,
        Variant::Launch,
        Variant::EmptyPair,
        Variant::TimedCall,
        Variant::ArgsCall,
        Variant::ArgsOnStack,
        Variant::GraphLaunch,
        Variant::EmptySession,
        Variant::EntrySession,
    ];

    fn cookie(self) -> Option<Cookie> {
        let wanted = |symbol: &str| PROBES.iter().find(|p| p.symbol == symbol);
        match self {
            Variant::Launch => wanted("cudaLaunchKernel").map(|p| Cookie::pack(p, false, false)),
            Variant::TimedCall => wanted("cudaMemcpyAsync").map(|p| Cookie::pack(p, false, true)),
            Variant::GraphLaunch => wanted("cudaGraphLaunch").map(|p| Cookie::pack(p, false, true)),
            Variant::ArgsCall => wanted("ncclAllGather").map(|p| Cookie::pack(p, false, true)),
            Variant::ArgsOnStack => wanted("ncclAllReduce").map(|p| Cookie::pack(p, false, true)),
            Variant::Bare
            | Variant::EmptyEntry
            | Variant::EmptyPair
            | Variant::EmptySession
            | Variant::EntrySession => None,
        }
    }
}

/// A benchmark of all variants, each on its own function, with one loaded set of programs.
pub struct Bench {
    _probes: Vec<Attached>,
    kernel: Kernel,
}

impl Bench {
    /// Loads the probe programs and an empty program, and attaches all variants.
    pub fn new() -> Result<Bench, CaptureError> {
        let mut kernel = Kernel::load(&MapSizes::default(), true)?;
        kernel.set_detail(Detail::HEALTHY)?;
        let graph = [std::process::id(), GraphKey::EXEC, GRAPH as u32, 0];
        let _ = kernel.graphs.insert(graph, [0; GRAPH_WORDS], 0);
        let attach = attach::best(&mut kernel);
        let empty = load_empty()
            .map_err(|e| CaptureError::Load { what: "an empty program", reason: e.to_string() })?;
        let mut probes = Vec::new();
        for (variant, site) in Variant::ALL.into_iter().zip(SITES) {
            probes.extend(put(&mut kernel, attach.as_ref(), &empty, variant, site)?);
        }
        Ok(Bench { _probes: probes, kernel })
    }

    /// Measures each of [`Variant::ALL`] in turn and returns nanoseconds per call.
    pub fn window(&mut self) -> [f64; Variant::ALL.len()] {
        // Drops the records of the last window: with a full ring a probe costs less.
        while self.kernel.ring.next().is_some() {}
        SITES.map(|site| {
            // Warms the caches after the calls of another function.
            ns_per_call(site, 3);
            ns_per_call(site, CALLS_A_WINDOW)
        })
    }
}

fn put(
    kernel: &mut Kernel,
    attach: &dyn Attach,
    empty: &OwnedFd,
    variant: Variant,
    site: Site,
) -> Result<Vec<Attached>, CaptureError> {
    let failed = |reason: String| CaptureError::Load { what: "a probe", reason };
    let offset = file_offset(site).ok_or_else(|| failed("the function is in no mapping".to_owned()))?;
    if let Some(cookie) = variant.cookie() {
        let ours = attach.attach(kernel, Path::new(OWN_EXECUTABLE), &[Point { offset, cookie }]);
        return ours.map(|probes| vec![probes]).map_err(|e| failed(e.to_string()));
    }
    if let Variant::EmptySession | Variant::EntrySession = variant {
        let result = i32::from(variant == Variant::EntrySession);
        let program = sys::load_as("empty", &returning(result), Kind::Session, 0);
        let link = program.and_then(|program| sys::link_session(&program, Path::new(OWN_EXECUTABLE), offset));
        return Ok(link.into_iter().map(Attached::new).collect());
    }
    let ends: &[End] = match variant {
        Variant::EmptyEntry => &[End::Entry],
        Variant::EmptyPair => &[End::Entry, End::Return],
        _ => &[],
    };
    let link = |end: &End| sys::link(empty, Path::new(OWN_EXECUTABLE), &[(offset, 0)], *end, ALL_PROCESSES);
    ends.iter().map(|end| link(end).map(Attached::new).map_err(|e| failed(e.to_string()))).collect()
}

/// Loads an empty program without the sleepable flag, as other tracers do.
fn load_empty() -> io::Result<OwnedFd> {
    sys::load_as("empty", &returning(0), Kind::Multi, 0)
}

/// Returns the program `r0 = result; exit`.
fn returning(result: i32) -> [bpf_insn; 2] {
    const MOVE_IMMEDIATE: u8 = 0xb7;
    const EXIT: u8 = 0x95;
    [(MOVE_IMMEDIATE, result), (EXIT, 0)].map(|(code, imm)| bpf_insn {
        code,
        _bitfield_align_1: [],
        _bitfield_1: bpf_insn::new_bitfield_1(0, 0),
        off: 0,
        imm,
    })
}

/// What is measured when the programs are loaded.
pub struct Calibration {
    /// The cost of hits; 0 where it cannot be measured.
    pub costs: HitCosts,
    /// Whether a link of a single process counts the calls of all of its threads. Kernels before 6.10 let it count those
    /// of one thread (kernel commit 46ba0e49b642).
    pub links_processes: bool,
}

/// Measures on this machine. Afterwards the maps have no entries of this process, and it is not traced.
pub fn calibrate(kernel: &mut Kernel, attach: &dyn Attach) -> Calibration {
    let pid = std::process::id();
    let _ = kernel.filter.insert(pid, 1, 0);
    let mut probes = Vec::new();
    let costs = [Variant::Launch, Variant::TimedCall]
        .map(|variant| variant_cost_ns(kernel, attach, variant, &mut probes));
    remove_traces(kernel, pid);
    let links_processes = hits_of_another_thread(kernel, pid, &mut probes) == Some(1);
    let _ = kernel.filter.insert(pid, 0, 0);
    remove_traces(kernel, pid);
    detach_later(probes);
    let [launch_ns, timed_ns] = costs;
    Calibration { costs: HitCosts { launch_ns, timed_ns }, links_processes }
}

/// Detaches probes of functions that are not called any more, which takes the kernel 50 ms each.
fn detach_later(probes: Vec<Attached>) {
    // If no thread can be started, the closure is dropped and the probes are detached here.
    let _ = std::thread::Builder::new().name("calibration".to_owned()).spawn(move || drop(probes));
}

/// Returns the cost of a probe on the function of its variant, which it adds to `probes`.
fn variant_cost_ns(
    kernel: &mut Kernel,
    attach: &dyn Attach,
    variant: Variant,
    probes: &mut Vec<Attached>,
) -> u64 {
    let site = SITES[variant as usize];
    let (Some(offset), Some(cookie)) = (file_offset(site), variant.cookie()) else { return 0 };
    ns_per_call(site, CALLS);
    let without = ns_per_call(site, CALLS);
    let Ok(attached) = attach.attach(kernel, Path::new(OWN_EXECUTABLE), &[Point { offset, cookie }]) else {
        return 0;
    };
    probes.push(attached);
    let mut with: Vec<f64> = (0..RUNS).map(|_| ns_per_call(site, CALLS)).collect();
    with.sort_by(f64::total_cmp);
    (with[RUNS / 2] - without).max(0.0) as u64
}

fn hits_of_another_thread(kernel: &mut Kernel, pid: u32, probes: &mut Vec<Attached>) -> Option<u64> {
    let site = SITES[Variant::Bare as usize];
    let (offset, cookie) = (file_offset(site)?, Variant::Launch.cookie()?);
    let plans = kernel.multi.as_mut()?.thinnable(&[Point { offset, cookie }]).ok()?;
    let all = ClassSet::NONE.with(ProbeClass::Launch);
    let links = LinkPlan::link(&plans, all, Path::new(OWN_EXECUTABLE), pid).ok()?;
    std::thread::scope(|scope| scope.spawn(|| ns_per_call(site, 1)).join()).ok()?;
    probes.push(Attached::new(links));
    let calls = CallReader::new(kernel.multi.as_ref()?)?.calls(pid)?;
    Some(calls[usize::from(cookie.id())])
}

fn remove_traces(kernel: &mut Kernel, pid: u32) {
    functions::remove(kernel, pid);
    let _ = totals::remove(kernel, pid);
    totals::remove_durations(kernel, pid);
    // Only the thread that calibrates has state: that of any other was removed when it ended.
    if let Some((slot, _)) = proc::own_tid().and_then(|tid| kernel.thread(pid, tid)) {
        let _ = kernel.threads.set(slot, [0; THREAD_WORDS], 0);
    }
    let _ = unfinished::take(kernel, &StreamKey { pid, tid: 0, stream: 0x100 });
}
