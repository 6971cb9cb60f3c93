//! Calls that have not returned, of threads whose call arguments are recorded, sampled about once a second.
//!
//! The maps change while they are read, so one sample may be torn: a call is reported when two samples in a row agree on
//! it. Other threads are not sampled.

use std::collections::BTreeMap;
use std::mem::offset_of;

use event::{Event, ProcessId, UnderWay};
use probe_abi::Cookie;
use probe_abi::record::{ArgsFrame, ArgsRecord, Caller, Calls, FRAMES, Frame, Header, ThreadFold};

use crate::kernel::{CALLER_WORDS, CALLS_WORDS, Kernel, Words};

/// Maximum number of calls in a sample; further ones are not reported.
const CALLS_MAX: usize = 4_096;

/// A sampler of calls that have not returned: cookie and entry of the last sample, by thread and map.
#[derive(Default)]
pub struct CallSampler {
    before: BTreeMap<(u32, Map), (u64, u64)>,
}

#[derive(Clone, Copy, Eq, Ord, PartialEq, PartialOrd)]
enum Map {
    Callers,
    Threads,
}

impl CallSampler {
    /// Appends the calls that were under way in the last sample and still are.
    pub fn sample(&mut self, kernel: &Kernel, now_ns: u64, into: &mut Vec<Event>) {
        let mut seen = BTreeMap::new();
        for (tid, entry) in kernel.callers.iter().flatten() {
            let Some(words) = calls_of(kernel, tid, &entry) else { continue };
            let word = |at: usize| words[at / 8];
            let process = ProcessId {
                pid: (word(offset_of!(Calls, owner)) >> 32) as u32,
                start_ns: word(offset_of!(Calls, start_ns)),
            };
            let frame = |at: usize| words[(offset_of!(Calls, frames) + at) / 8];
            let cookie = frame(offset_of!(ArgsFrame, cookie));
            let entry_ns = frame(
                offset_of!(ArgsFrame, record) + offset_of!(ArgsRecord, header) + offset_of!(Header, entry_ns),
            );
            let call = (Map::Callers, word(offset_of!(Calls, depth)), cookie, entry_ns);
            let calls = [Some(call), waits(kernel, tid)];
            for (map, depth, cookie, entry_ns) in calls.into_iter().flatten() {
                if depth == 0 || depth > FRAMES as u64 || seen.len() >= CALLS_MAX {
                    continue;
                }
                if self.before.get(&(tid, map)) == Some(&(cookie, entry_ns)) {
                    let row = Cookie(cookie).id();
                    into.push(Event::UnderWay(UnderWay { at_ns: now_ns, process, tid, row, entry_ns }));
                }
                seen.insert((tid, map), (cookie, entry_ns));
            }
        }
        self.before = seen;
    }
}

/// Returns the [`Calls`] of a thread, from its entry or from its slot in the array.
fn calls_of(kernel: &Kernel, tid: u32, entry: &Words<CALLER_WORDS>) -> Option<Words<CALLS_WORDS>> {
    let calls: &Words<CALLS_WORDS> = entry[offset_of!(Caller, calls) / 8..].first_chunk()?;
    let owner = |words: &Words<CALLS_WORDS>| words[offset_of!(Calls, owner) / 8];
    if owner(calls) != 0 {
        return Some(*calls);
    }
    let hot = kernel.hot_calls.get(&Calls::slot(tid), 0).ok()?;
    (owner(&hot) as u32 == tid).then_some(hot)
}

/// Returns the call of the runtime or the driver that the thread is in: depth, cookie, entry.
fn waits(kernel: &Kernel, tid: u32) -> Option<(Map, u64, u64, u64)> {
    let words = kernel.threads.get(&tid, 0).ok()?;
    let frame = &words[offset_of!(ThreadFold, frames) / 8..];
    let depth = words[offset_of!(ThreadFold, depth) / 8];
    let (cookie, entry_ns) = (frame[offset_of!(Frame, cookie) / 8], frame[offset_of!(Frame, entry_ns) / 8]);
    Some((Map::Threads, depth, cookie, entry_ns))
}
