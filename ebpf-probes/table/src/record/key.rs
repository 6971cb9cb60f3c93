//! By what the maps find streams, events and operations.

use crate::histogram::Durations;

/// A key of the map of streams.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, Ord, PartialEq, PartialOrd)]
#[repr(C)]
pub struct StreamKey {
    /// Process id.
    pub pid: u32,
    /// 0, or the thread whose default stream it is.
    pub tid: u32,
    /// The stream's handle.
    pub stream: u64,
}

impl StreamKey {
    /// The stream that a call with the handle `stream` means. 1 and 2 are `cudaStreamLegacy` and
    /// `cudaStreamPerThread` (driver_types.h); a twin takes 0 for the thread's own.
    #[inline(always)]
    pub fn of(pid: u32, tid: u32, stream: u64, is_twin: bool) -> StreamKey {
        let mut key = StreamKey { pid, tid: 0, stream };
        key.settle(tid, is_twin);
        key
    }

    /// The legacy default stream of this process.
    #[inline(always)]
    pub fn legacy(pid: u32) -> StreamKey {
        StreamKey { pid, tid: 0, stream: 0 }
    }

    /// True for a legacy default stream.
    #[inline(always)]
    pub fn is_legacy(&self) -> bool {
        self.stream == 0 && self.tid == 0
    }

    /// True for a thread's own default stream.
    #[inline(always)]
    pub fn is_own_default(&self) -> bool {
        self.stream == 0 && self.tid != 0
    }

    /// Makes a key of one that holds the pid and a call's handle: what [`StreamKey::of`] gives, in place.
    #[inline(always)]
    pub fn settle(&mut self, tid: u32, is_twin: bool) {
        if self.stream <= 2 {
            let own = self.stream == 2 || (self.stream == 0 && is_twin);
            self.tid = if own { tid } else { 0 };
            self.stream = 0;
        }
    }
}

/// A key of the map of events.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
#[repr(C)]
pub struct EventKey {
    /// Process id.
    pub pid: u32,
    /// Always 0: the kernel compares keys byte by byte.
    pub pad: u32,
    /// The event's handle.
    pub event: u64,
}

/// A key of the map of durations.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
#[repr(C)]
pub struct OperationKey {
    /// Process id.
    pub pid: u32,
    /// The row's id.
    pub row: u32,
}

/// The value of the map of durations.
pub type OperationFold = Durations;

const _: () = assert!(size_of::<StreamKey>() == 16);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_handle_means_the_stream_that_the_header_says() {
        // The handle, whether the call is a twin; then the thread and the handle of the stream it means.
        let cases = [
            (0, false, 0, 0),
            (0, true, 9, 0),
            (1, false, 0, 0),
            (1, true, 0, 0),
            (2, false, 9, 0),
            (2, true, 9, 0),
            (77, false, 0, 77),
            (77, true, 0, 77),
        ];
        for (handle, is_twin, tid, stream) in cases {
            let expected = StreamKey { pid: 5, tid, stream };
            let mut key = StreamKey { pid: 5, tid: 0, stream: handle };
            key.settle(9, is_twin);
            assert_eq!(
                (key, StreamKey::of(5, 9, handle, is_twin)),
                (expected, expected),
                "{handle} {is_twin}"
            );
        }
    }
}
