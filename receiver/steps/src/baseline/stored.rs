//! The stored part of a baseline: everything learnt, but not the warm-up, runs of strange or disturbed steps and the window
//! of a change, which start again after a restart.

use recording::codec::{Encoder, Field};

use super::class::Classes;
use super::digest::Digest;
use super::{Baseline, BaselineSettings};

impl Field for Baseline {
    fn put(&self, out: &mut Encoder) {
        self.numbers().put(out);
        self.count.put(out);
        self.digest.put(out);
        self.classes.put(out);
    }

    fn take(from: &mut &[u8]) -> Option<Self> {
        let mut baseline = Baseline::new(BaselineSettings::default());
        baseline.set_numbers(Field::take(from)?);
        baseline.count = u64::take(from)?;
        baseline.digest = Digest::take(from)?;
        baseline.classes = Classes::take(from)?;
        baseline.is_sound().then_some(baseline)
    }
}

impl Baseline {
    /// Returns a baseline with these settings that has learnt the same.
    pub(crate) fn to_store(&self, settings: BaselineSettings) -> Baseline {
        let mut stored = Baseline::new(settings);
        stored.set_numbers(self.numbers());
        stored.count = self.count;
        stored.digest = self.digest.clone();
        stored.classes = self.classes.clone();
        stored
    }

    /// Removes what is only valid in one process: classes by graph fingerprint.
    pub(crate) fn make_portable(&mut self) {
        self.classes.remove_graphs();
    }

    fn numbers(&self) -> [f64; 6] {
        [
            self.p95_ns,
            self.mean_ns,
            self.mean_weight,
            self.deviation,
            self.deviation_count,
            self.strange_share,
        ]
    }

    fn set_numbers(&mut self, numbers: [f64; 6]) {
        [
            self.p95_ns,
            self.mean_ns,
            self.mean_weight,
            self.deviation,
            self.deviation_count,
            self.strange_share,
        ] = numbers;
    }

    fn is_sound(&self) -> bool {
        let is_finite = self.numbers().iter().all(|number| number.is_finite() && *number >= 0.0);
        let is_level =
            self.count == 0 || (self.p95_ns >= 1.0 && self.mean_ns >= 1.0 && self.mean_weight >= 1.0);
        is_finite && is_level && self.strange_share <= 1.0
    }
}
