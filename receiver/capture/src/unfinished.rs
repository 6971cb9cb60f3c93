//! Open work of processes that ended, as unfinished steps.

use event::{ProcessId, StepRecord};
use probe_abi::fold::{Snapshot, Stamp, StreamFold};
use probe_abi::hot::HotStream;
use probe_abi::record::{RecordKind, StreamKey, flag};
use zerocopy::transmute;

use crate::kernel::{HOT_STREAM_WORDS, Kernel};

/// Returns the streams of a process, sorted.
pub fn keys(kernel: &Kernel, pid: u32) -> Vec<StreamKey> {
    let keys = kernel.streams.keys().flatten().map(|key| transmute!(key));
    let mut keys: Vec<StreamKey> = keys.filter(|key: &StreamKey| key.pid == pid).collect();
    keys.sort_unstable();
    keys
}

/// Removes a stream's fold from the kernel's maps. Returns it with the launches that its slot counted.
pub fn take(kernel: &mut Kernel, key: &StreamKey) -> Option<StreamFold> {
    let slot = HotStream::slot(key);
    let hot: Option<HotStream> = kernel.hot_streams.get(&slot, 0).ok().map(|words| transmute!(words));
    let words = transmute!(*key);
    let found: Option<StreamFold> = kernel.streams.get(&words, 0).ok().map(|fold| transmute!(fold));
    let _ = kernel.streams.remove(&words);
    if let Some(hot) = hot.filter(|hot| hot.is_of(key)) {
        let _ = kernel.hot_streams.set(slot, [0; HOT_STREAM_WORDS], 0);
        found.iter().for_each(|fold| fold.absorb(&hot));
    }
    found
}

/// Returns the stream's open work as a step that ends at `at_ns`; `None` where there is none.
pub fn unfinished_step(
    process: ProcessId,
    key: &StreamKey,
    fold: &StreamFold,
    at_ns: u64,
) -> Option<StepRecord> {
    let snapshot = Snapshot::default();
    fold.snapshot(key, 0, &snapshot);
    if !fold.closes(&snapshot) {
        return None;
    }
    let now = Stamp::uncounted(at_ns, 0);
    let mut step = StepRecord::default();
    fold.close(&snapshot, &now, &now, &mut step);
    step.header.kind = RecordKind::Step as u16;
    step.header.flags |= flag::UNFINISHED;
    (step.header.pid, step.header.tid) = (process.pid, step.first_tid);
    step.header.process_start_ns = process.start_ns;
    step.header.entry_ns = at_ns;
    step.stream = key.external_handle();
    step.device = -1;
    Some(step)
}
