//! Steps that nothing will close any more: what a stream's fold still holds when its process is gone.

use event::{ProcessId, StepRecord};
use table::fold::{Stamp, StreamFold};
use table::record::{Kind, NOT_SEEN, flag};

/// The open work of a stream as a step that ends at `at_ns`; `None` where all was closed. `key` and `words` are those of
/// the map of streams.
#[expect(unsafe_code, reason = "a fold read from its map is the same words")]
pub fn unfinished_step(
    process: ProcessId,
    key: [u32; 4],
    words: [u64; size_of::<StreamFold>() / 8],
    at_ns: u64,
) -> Option<StepRecord> {
    // SAFETY: StreamFold is repr(C) and holds nothing but 64-bit atomics, for which every bit pattern is valid; the
    // sizes are equal, or this would not compile.
    let fold: StreamFold = unsafe { std::mem::transmute(words) };
    if !fold.begin_close() {
        return None;
    }
    let now = Stamp { ns: at_ns, runq_ns: NOT_SEEN, tid: 0 };
    let mut step = StepRecord::default();
    fold.close(&now, &now, &mut step);
    step.header.kind = Kind::Step as u16;
    step.header.flags |= flag::UNFINISHED;
    (step.header.pid, step.header.tid) = (process.pid, step.first_tid);
    step.header.process_start_ns = process.start_ns;
    step.header.entry_ns = at_ns;
    step.stream = u64::from(key[2]) | u64::from(key[3]) << 32 | u64::from(key[1]) << 32;
    step.device = -1;
    Some(step)
}
