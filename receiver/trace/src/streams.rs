//! Handles of streams from the stream numbers of a trace, and inferred streams of calls without one.

use std::collections::BTreeMap;

use probe_abi::Library;

use super::join::Draft;
use crate::call::Call;

/// CUPTI's number of the default stream.
const CUPTI_DEFAULT_STREAM: u32 = 7;

/// The handles of streams, and the last stream of each thread.
pub(super) struct Streams {
    /// Ordinals of the devices of a process, in the order of their first use.
    devices: BTreeMap<(u32, u32), u64>,
    used: BTreeMap<u32, u64>,
    /// Last stream that a thread enqueued on; before its first call, the one that it enqueues on first.
    of_thread: BTreeMap<(u32, u32), u64>,
    /// First stream of a process.
    of_process: BTreeMap<u32, u64>,
}

impl Streams {
    pub(super) fn new(drafts: &[Draft], known: &[Option<(u32, u32)>]) -> Streams {
        let mut streams = Streams {
            devices: BTreeMap::new(),
            used: BTreeMap::new(),
            of_thread: BTreeMap::new(),
            of_process: BTreeMap::new(),
        };
        for (draft, known) in drafts.iter().zip(known) {
            let Some((device, stream)) = *known else { continue };
            let handle = streams.handle(draft, device, stream);
            streams.of_thread.entry((draft.call.process.pid, draft.call.tid)).or_insert(handle);
            streams.of_process.entry(draft.call.process.pid).or_insert(handle);
        }
        streams
    }

    /// Returns the handle of a known stream; an enqueueing call makes it the last stream of its thread.
    pub(super) fn resolve(&mut self, draft: &Draft, known: Option<(u32, u32)>) -> Option<u64> {
        let (device, stream) = known?;
        let handle = self.handle(draft, device, stream);
        if draft.probe.cookie().enqueues() {
            self.of_thread.insert((draft.call.process.pid, draft.call.tid), handle);
        }
        Some(handle)
    }

    /// Infers the stream of a call: the last of its thread, else the first of its process, else the default stream.
    pub(super) fn infer(&self, call: &Call) -> u64 {
        let of_thread = self.of_thread.get(&(call.process.pid, call.tid));
        of_thread.or_else(|| self.of_process.get(&call.process.pid)).copied().unwrap_or(0)
    }

    /// Returns the profiler's number, but 0 for the default stream, and never 1 or 2, which are handles of default streams.
    /// The handles of the second device of a process start at 2^32, and so on.
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
