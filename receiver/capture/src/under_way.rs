//! Calls that do not return: what threads whose calls are told are inside of, looked for about once a second.
//!
//! The maps are read while their threads go on, so what one look sees may be torn: a call is told when the look before
//! saw the same one. Only these threads are looked at, not all that the programs know.

use std::collections::BTreeMap;
use std::mem::offset_of;

use event::{Event, ProcessId, UnderWay};
use probe_abi::Cookie;
use probe_abi::record::{ArgsFrame, ArgsRecord, Caller, Calls, FRAMES, Frame, Header, ThreadFold};

use crate::kernel::{CALLER_WORDS, CALLS_WORDS, Kernel, Words};

/// Calls remembered from one look to the next. Full: further ones are not told.
const CALLS_MAX: usize = 4_096;

/// What the last look saw: cookie and entry, by thread and map.
#[derive(Default)]
pub struct Watch {
    before: BTreeMap<(u32, Map), (u64, u64)>,
}

#[derive(Clone, Copy, Eq, Ord, PartialEq, PartialOrd)]
enum Map {
    Callers,
    Threads,
}

impl Watch {
    /// Tells the calls that are still under way.
    pub fn look(&mut self, kernel: &Kernel, now_ns: u64, into: &mut Vec<Event>) {
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
            let told = (Map::Callers, word(offset_of!(Calls, depth)), cookie, entry_ns);
            let calls = [Some(told), waits(kernel, tid)];
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

/// The thread's [`Calls`]: in its entry, or in its place beside.
fn calls_of(kernel: &Kernel, tid: u32, entry: &Words<CALLER_WORDS>) -> Option<Words<CALLS_WORDS>> {
    let calls: &Words<CALLS_WORDS> = entry[offset_of!(Caller, calls) / 8..].first_chunk()?;
    let owner = |words: &Words<CALLS_WORDS>| words[offset_of!(Calls, owner) / 8];
    if owner(calls) != 0 {
        return Some(*calls);
    }
    let beside = kernel.hot_calls.get(&Calls::slot(tid), 0).ok()?;
    (owner(&beside) as u32 == tid).then_some(beside)
}

/// The call of the runtime or the driver that the thread is inside of: depth, cookie, entry.
fn waits(kernel: &Kernel, tid: u32) -> Option<(Map, u64, u64, u64)> {
    let words = kernel.threads.get(&tid, 0).ok()?;
    let frame = &words[offset_of!(ThreadFold, frames) / 8..];
    let depth = words[offset_of!(ThreadFold, depth) / 8];
    let (cookie, entry_ns) = (frame[offset_of!(Frame, cookie) / 8], frame[offset_of!(Frame, entry_ns) / 8]);
    Some((Map::Threads, depth, cookie, entry_ns))
}
