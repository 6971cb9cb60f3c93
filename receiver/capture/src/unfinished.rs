//! Steps that no sync call will end any more: the open work in a stream's fold when its process has ended.

use event::{ProcessId, StepRecord};
use probe_abi::fold::{Snapshot, Stamp, StreamFold};
use probe_abi::hot::HotStream;
use probe_abi::record::{NOT_SEEN, RecordKind, StreamKey, flag};

use crate::kernel::{HOT_STREAM_WORDS, Kernel, STREAM_WORDS, Words};

/// Removes the fold of a stream from the kernel's maps and adds its launches from the hot array. `key` is that of the
/// map of streams.
pub fn take(kernel: &mut Kernel, key: [u32; 4]) -> Option<StreamFold> {
    let place = HotStream::slot(&stream_key(key));
    let hot = kernel.hot_streams.get(&place, 0).map(hot).ok().filter(|hot| hot.is_of(&stream_key(key)));
    let found = kernel.streams.get(&key, 0).map(fold).ok();
    let _ = kernel.streams.remove(&key);
    if let Some(hot) = &hot {
        let _ = kernel.hot_streams.set(place, [0; HOT_STREAM_WORDS], 0);
        found.iter().for_each(|fold| fold.absorb(hot));
    }
    found
}

fn stream_key([pid, tid, low, high]: [u32; 4]) -> StreamKey {
    StreamKey { pid, tid, stream: u64::from(low) | u64::from(high) << 32 }
}

#[expect(unsafe_code, reason = "a fold read from its map is the same words")]
fn fold(words: Words<STREAM_WORDS>) -> StreamFold {
    // SAFETY: StreamFold is repr(C) and consists of 64-bit atomics, for which every bit pattern is valid; the
    // sizes are equal, or this would not compile.
    unsafe { std::mem::transmute(words) }
}

#[expect(unsafe_code, reason = "a place read from its map is the same words")]
fn hot(words: Words<HOT_STREAM_WORDS>) -> HotStream {
    // SAFETY: as above, for HotStream.
    unsafe { std::mem::transmute(words) }
}

/// Returns the open work of a stream as a step that ends at `at_ns`; `None` if there is none. `key` is that of the map
/// of streams.
pub fn unfinished_step(
    process: ProcessId,
    key: [u32; 4],
    fold: &StreamFold,
    at_ns: u64,
) -> Option<StepRecord> {
    let snapshot = Snapshot::default();
    fold.snapshot(&stream_key(key), 0, &snapshot);
    if !fold.closes(&snapshot) {
        return None;
    }
    let now = Stamp { ns: at_ns, runq_ns: NOT_SEEN, tid: 0 };
    let mut step = StepRecord::default();
    fold.close(&snapshot, &now, &now, &mut step);
    step.header.kind = RecordKind::Step as u16;
    step.header.flags |= flag::UNFINISHED;
    (step.header.pid, step.header.tid) = (process.pid, step.first_tid);
    step.header.process_start_ns = process.start_ns;
    step.header.entry_ns = at_ns;
    step.stream = stream_key(key).external_handle();
    step.device = -1;
    Some(step)
}
