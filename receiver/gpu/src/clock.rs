//! Conversion of event time to wall time.
//!
//! Only clock offsets from events are used, so the same recording gives the same bytes.

use event::ClockOffsets;

/// The latest event time, and the offsets to wall time.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Clock {
    offsets: ClockOffsets,
    now_ns: u64,
}

impl Clock {
    /// Sets the offsets that later conversions use.
    pub(crate) fn set(&mut self, offsets: ClockOffsets) {
        self.offsets = offsets;
    }

    /// Advances to the time of an event. An earlier time has no effect, since the records of different CPUs are not
    /// in order.
    pub(crate) fn advance(&mut self, at_ns: u64) {
        self.now_ns = self.now_ns.max(at_ns);
    }

    /// Returns the latest event time in ns.
    pub(crate) fn now_ns(&self) -> u64 {
        self.now_ns
    }

    /// Converts event time to nanoseconds since 1970.
    pub(crate) fn unix(&self, ns: u64) -> u64 {
        ns.saturating_add_signed(self.offsets.to_unix_ns)
    }
}
