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

    /// What stands for the handle of default streams of the process's further devices, their number behind it: no
    /// address. That of the first device that the process chose is 0, as everywhere where devices are not known.
    const OF_DEVICE: u64 = 0x1000;
    const DEVICES: u64 = 0xfff;

    /// The handle of default streams of a device, where the process chose `first` first; both plus one, 0 where not known.
    #[inline(always)]
    pub fn default_of(device: u64, first: u64) -> u64 {
        match device == 0 || device == first {
            true => 0,
            false => Self::OF_DEVICE | (device.wrapping_sub(1) & Self::DEVICES),
        }
    }

    /// The handle by which the stream is told: a thread's own default stream has the thread in its upper half.
    #[inline(always)]
    pub fn external_handle(&self) -> u64 {
        self.stream | ((u64::from(self.tid) << 32) * u64::from(self.is_default()))
    }

    /// The legacy default stream of the same device as this default stream.
    #[inline(always)]
    pub fn legacy(&self) -> StreamKey {
        StreamKey { tid: 0, ..*self }
    }

    /// True for a default stream.
    #[inline(always)]
    pub fn is_default(&self) -> bool {
        self.stream == 0 || self.stream & !Self::DEVICES == Self::OF_DEVICE
    }

    /// True for a legacy default stream.
    #[inline(always)]
    pub fn is_legacy(&self) -> bool {
        self.tid == 0 && self.is_default()
    }

    /// True for a thread's own default stream.
    #[inline(always)]
    pub fn is_own_default(&self) -> bool {
        self.tid != 0 && self.is_default()
    }

    /// Makes a key of one that holds the pid and a call's handle: what [`StreamKey::of`] gives, in slot.
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
    fn each_device_has_default_streams_of_its_own_and_the_first_that_was_chosen_those_without_number() {
        // Device and first device, plus one; what stands for the handle.
        for (device, first, stream) in [(0, 0, 0), (0, 3, 0), (3, 3, 0), (1, 3, 0x1000), (8, 3, 0x1007)] {
            assert_eq!(StreamKey::default_of(device, first), stream, "{device}, first {first}");
            let [legacy, own] = [0, 9].map(|tid| StreamKey { pid: 5, tid, stream });
            assert!(legacy.is_legacy() && !legacy.is_own_default() && own.is_own_default());
            assert_eq!(
                (own.legacy(), own.external_handle(), legacy.external_handle()),
                (legacy, 9 << 32 | stream, stream)
            );
        }
        let made = StreamKey { pid: 5, tid: 0, stream: 0x7f00_0000_1000 };
        assert!(!made.is_default() && made.external_handle() == made.stream);
    }

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
