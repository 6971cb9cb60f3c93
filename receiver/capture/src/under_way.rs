//! Calls that do not return: what threads whose calls are told are inside of, looked for about once a second.
//!
//! The maps are read while their threads go on, so what one look sees may be torn: a call is told when the look before
//! saw the same one. Only these threads are looked at, not all that the programs know.

use std::collections::BTreeMap;
use std::mem::offset_of;

use event::{Event, ProcessId, UnderWay};
use table::Cookie;
use table::record::{Caller, FRAMES, Frame, ThreadFold, ToldFrame};

use crate::kernel::Kernel;

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
        for (tid, words) in kernel.callers.iter().flatten() {
            let word = |at: usize| words[at / 8];
            let process = ProcessId {
                pid: word(offset_of!(Caller, pid)) as u32,
                start_ns: word(offset_of!(Caller, start_ns)),
            };
            let first = offset_of!(Caller, frames) / 8;
            let frame = &words[first..first + size_of::<ToldFrame>() / 8];
            let told = (word(offset_of!(Caller, depth)), frame[offset_of!(ToldFrame, cookie) / 8]);
            let entry_ns = frame[offset_of!(ToldFrame, entry_ns) / 8];
            let calls = [Some((Map::Callers, told.0, told.1, entry_ns)), waits(kernel, tid)];
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

/// The call of the runtime or the driver that the thread is inside of: depth, cookie, entry.
fn waits(kernel: &Kernel, tid: u32) -> Option<(Map, u64, u64, u64)> {
    let words = kernel.threads.get(&tid, 0).ok()?;
    let frame = &words[offset_of!(ThreadFold, frames) / 8..];
    let depth = words[offset_of!(ThreadFold, depth) / 8];
    let (cookie, entry_ns) = (frame[offset_of!(Frame, cookie) / 8], frame[offset_of!(Frame, entry_ns) / 8]);
    Some((Map::Threads, depth, cookie, entry_ns))
}
