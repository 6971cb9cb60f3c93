//! Keys of the maps of streams, events and operations.

use crate::histogram::Durations;

/// Key of the map of streams.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, Ord, PartialEq, PartialOrd)]
#[cfg_attr(feature = "user", derive(zerocopy::FromBytes, zerocopy::IntoBytes))]
#[repr(C)]
pub struct StreamKey {
    /// Process id.
    pub pid: u32,
    /// Thread of a per-thread default stream; 0 for other streams.
    pub tid: u32,
    /// The stream's handle.
    pub stream: u64,
}

impl StreamKey {
    /// Returns the stream that a call refers to by the handle `stream`. 1 and 2 are `cudaStreamLegacy` and
    /// `cudaStreamPerThread` (driver_types.h); for a twin, 0 is the thread's own.
    #[inline(always)]
    pub fn of(pid: u32, tid: u32, stream: u64, is_twin: bool) -> StreamKey {
        let mut key = StreamKey { pid, tid: 0, stream };
        key.settle(tid, is_twin);
        key
    }

    /// Substitute handle, plus the device's number, of the default streams of further devices; not a valid address.
    /// The default streams of the process's first device have the handle 0.
    const OF_DEVICE: u64 = 0x1000;
    const DEVICES: u64 = 0xfff;

    /// Returns the handle of a device's default streams. `first` is the device that the process chose first; both plus
    /// one, 0 if not known.
    #[inline(always)]
    pub fn default_of(device: u64, first: u64) -> u64 {
        match device == 0 || device == first {
            true => 0,
            false => Self::OF_DEVICE | (device.wrapping_sub(1) & Self::DEVICES),
        }
    }

    /// Returns the handle as user space sees it: a thread's own default stream has the thread in the upper half.
    #[inline(always)]
    pub fn external_handle(&self) -> u64 {
        self.stream | ((u64::from(self.tid) << 32) * u64::from(self.is_default()))
    }

    /// Returns the legacy default stream of the same device as this default stream.
    #[inline(always)]
    pub fn legacy(&self) -> StreamKey {
        StreamKey { tid: 0, ..*self }
    }

    /// Returns true for a default stream.
    #[inline(always)]
    pub fn is_default(&self) -> bool {
        self.stream == 0 || self.stream & !Self::DEVICES == Self::OF_DEVICE
    }

    /// Returns true for a legacy default stream.
    #[inline(always)]
    pub fn is_legacy(&self) -> bool {
        self.tid == 0 && self.is_default()
    }

    /// Returns true for a thread's own default stream.
    #[inline(always)]
    pub fn is_own_default(&self) -> bool {
        self.tid != 0 && self.is_default()
    }

    /// Turns a key with the pid and a call's handle into that of [`StreamKey::of`], in place.
    #[inline(always)]
    pub fn settle(&mut self, tid: u32, is_twin: bool) {
        if self.stream <= 2 {
            let own = self.stream == 2 || (self.stream == 0 && is_twin);
            self.tid = if own { tid } else { 0 };
            self.stream = 0;
        }
    }
}

/// Key of the map of events.
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

/// Key of the map of durations.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
#[cfg_attr(feature = "user", derive(zerocopy::FromBytes, zerocopy::IntoBytes))]
#[repr(C)]
pub struct OperationKey {
    /// Process id.
    pub pid: u32,
    /// The row's id.
    pub row: u32,
}

/// Value of the map of durations.
pub type OperationFold = Durations;

const _: () = assert!(size_of::<StreamKey>() == 16);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_have_own_default_streams_and_the_first_has_zero() {
        // Device and first device, plus one; the substitute handle.
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
    fn handles_refer_to_the_streams_of_the_header() {
        // Handle and whether the call is a twin; thread and handle of the stream.
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
