//! Streams of a trace: the profiler numbers them, calls go by handles, and some calls name none.

use std::collections::BTreeMap;

use probe_abi::Library;

use super::join::Draft;
use crate::call::Call;

/// CUPTI's number of the default stream.
const CUPTI_DEFAULT_STREAM: u32 = 7;

/// Which handle a stream goes by, and which one a call without one is put on.
pub(super) struct Streams {
    /// Devices of a process in the order in which it first used them.
    devices: BTreeMap<(u32, u32), u64>,
    used: BTreeMap<u32, u64>,
    /// The stream that a thread enqueued on last; before that, the one it will enqueue on first.
    of_thread: BTreeMap<(u32, u32), u64>,
    /// The first stream of a process.
    of_process: BTreeMap<u32, u64>,
}

impl Streams {
    pub(super) fn new(drafts: &[Draft], told: &[Option<(u32, u32)>]) -> Streams {
        let mut streams = Streams {
            devices: BTreeMap::new(),
            used: BTreeMap::new(),
            of_thread: BTreeMap::new(),
            of_process: BTreeMap::new(),
        };
        for (draft, told) in drafts.iter().zip(told) {
            let Some((device, stream)) = *told else { continue };
            let handle = streams.handle(draft, device, stream);
            streams.of_thread.entry((draft.call.process.pid, draft.call.tid)).or_insert(handle);
            streams.of_process.entry(draft.call.process.pid).or_insert(handle);
        }
        streams
    }

    /// The stream of a call that tells it; remembered as its thread's last where it enqueues.
    pub(super) fn of(&mut self, draft: &Draft, told: Option<(u32, u32)>) -> Option<u64> {
        let (device, stream) = told?;
        let handle = self.handle(draft, device, stream);
        if draft.probe.action.enqueues() {
            self.of_thread.insert((draft.call.process.pid, draft.call.tid), handle);
        }
        Some(handle)
    }

    pub(super) fn guess(&self, call: &Call) -> u64 {
        let of_thread = self.of_thread.get(&(call.process.pid, call.tid));
        of_thread.or_else(|| self.of_process.get(&call.process.pid)).copied().unwrap_or(0)
    }

    /// The profiler's number, but 0 for the default stream, and never 1 or 2, which would mean default streams. A
    /// process's second device begins at 2^32, and so on.
    fn handle(&mut self, draft: &Draft, device: u32, stream: u32) -> u64 {
        let pid = draft.call.process.pid;
        let used = self.used.entry(pid).or_default();
        let ordinal = *self.devices.entry((pid, device)).or_insert_with(|| {
            *used += 1;
            *used - 1
        });
        let number = match stream {
            CUPTI_DEFAULT_STREAM if draft.probe.library != Library::Amdhip => 0,
            1 | 2 => u64::from(stream) + 0xff00_0000,
            other => u64::from(other),
        };
        ordinal << 32 | number
    }
}
