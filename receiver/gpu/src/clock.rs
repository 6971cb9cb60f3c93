//! Event time in, time since 1970 out.
//!
//! The one idea: no output knows any other clock than the recording's, or the same recording would not give the
//! same bytes twice.

use event::ClockOffsets;

/// How far events have come, and how their clock stands to the wall's.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Clock {
    offsets: ClockOffsets,
    now_ns: u64,
}

impl Clock {
    /// From here on instants are converted by these.
    pub(crate) fn set(&mut self, offsets: ClockOffsets) {
        self.offsets = offsets;
    }

    /// Something happened then. Time does not go back: CPUs hand over their records in turns.
    pub(crate) fn see(&mut self, at_ns: u64) {
        self.now_ns = self.now_ns.max(at_ns);
    }

    /// The latest instant seen.
    pub(crate) fn now_ns(&self) -> u64 {
        self.now_ns
    }

    /// Nanoseconds since 1970.
    pub(crate) fn unix(&self, ns: u64) -> u64 {
        ns.saturating_add_signed(self.offsets.to_unix_ns)
    }
}
