//! Calls that have not returned: what threads that make collective calls are inside of, polled about once a second.
//!
//! The maps are read while their threads run, so one read may be torn: a call is reported when two reads in a row see
//! it. Only threads with an entry in the map of callers are read.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering::Relaxed;

use event::{Event, ProcessId, UnderWay};
use probe_abi::Cookie;
use probe_abi::record::{Caller, Calls, FRAMES};
use zerocopy::transmute;

use crate::kernel::{CALLER_WORDS, Kernel, Words};

/// Calls stored from one read to the next. Full: further ones are not reported.
const CALLS_MAX: usize = 4_096;

/// Reports calls that are under way for longer than the time between two reads.
#[derive(Default)]
pub struct CallSampler {
    /// Cookie and entry of the calls that the last read saw, by thread and map.
    before: BTreeMap<(u32, Map), (u64, u64)>,
}

#[derive(Clone, Copy, Eq, Ord, PartialEq, PartialOrd)]
enum Map {
    Callers,
    Threads,
}

/// The outermost call of a thread.
struct Outermost {
    map: Map,
    depth: u64,
    cookie: u64,
    entry_ns: u64,
}

impl CallSampler {
    /// Reads the maps and appends the calls that the last read saw, too.
    pub fn sample(&mut self, kernel: &Kernel, now_ns: u64, into: &mut Vec<Event>) {
        let mut seen = BTreeMap::new();
        for (tid, entry) in kernel.callers.iter().flatten() {
            let Some(calls) = calls_of(kernel, tid, entry) else { continue };
            let pid = (calls.owner.load(Relaxed) >> 32) as u32;
            let process = ProcessId { pid, start_ns: calls.start_ns };
            for call in [Some(recorded(&calls)), timed(kernel, pid, tid)].into_iter().flatten() {
                if call.depth == 0 || call.depth > FRAMES as u64 || seen.len() >= CALLS_MAX {
                    continue;
                }
                let (key, value) = ((tid, call.map), (call.cookie, call.entry_ns));
                if self.before.get(&key) == Some(&value) {
                    let (row, entry_ns) = (Cookie(call.cookie).id(), call.entry_ns);
                    into.push(Event::UnderWay(UnderWay { at_ns: now_ns, process, tid, row, entry_ns }));
                }
                seen.insert(key, value);
            }
        }
        self.before = seen;
    }
}

/// Returns the thread's [`Calls`]: from its entry, or from its slot in the array of hot calls.
fn calls_of(kernel: &Kernel, tid: u32, entry: Words<CALLER_WORDS>) -> Option<Calls> {
    let caller: Caller = transmute!(entry);
    if caller.calls.owner.load(Relaxed) != 0 {
        return Some(caller.calls);
    }
    let hot: Calls = transmute!(kernel.hot_calls.get(&Calls::slot(tid), 0).ok()?);
    (hot.owner.load(Relaxed) as u32 == tid).then_some(hot)
}

fn recorded(calls: &Calls) -> Outermost {
    let frame = &calls.frames[0];
    let entry_ns = frame.record.header.entry_ns;
    Outermost { map: Map::Callers, depth: calls.depth, cookie: frame.cookie, entry_ns }
}

/// Returns the outermost call of the runtime or the driver that the thread is in.
fn timed(kernel: &Kernel, pid: u32, tid: u32) -> Option<Outermost> {
    let (_, thread) = kernel.thread(pid, tid)?;
    let frame = &thread.frames[0];
    let (depth, cookie) = (thread.depth, frame.cookie);
    Some(Outermost { map: Map::Threads, depth, cookie, entry_ns: frame.entry_ns })
}
