//! The profiles of a workload: the baseline and the usual quantities of the steps of each phase.
//!
//! Bounded: [`PhaseProfiles::capacity`] profiles, of which the least recently used one is evicted and counted. An inference
//! server has at most five phases; 16 KiB hold their profiles.

use recording::codec::{Encoder, Field};

use crate::baseline::{Baseline, BaselineKey, BaselineLevel, BaselineSettings};
use crate::causes::{QUANTITIES, Usual};
use crate::lanes::UsualLanes;
use crate::phase::Phase;
use crate::throttling::UsualShares;

/// The capacity of a workload with one profile for each phase.
pub(crate) const PHASES_MAX: usize = 5;
/// The capacity of a workload with one profile for each fingerprint.
const FINGERPRINTS_MAX: usize = 16;

/// The key of a profile.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Key {
    pub(crate) phase: Phase,
    /// The fingerprint of kernels and graphs; 0 if baselines are keyed by phase alone.
    pub(crate) fingerprint: u64,
}

/// The usual steps of one key.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct PhaseProfile {
    pub(crate) key: Key,
    pub(crate) baseline: Baseline,
    pub(crate) usual: Usual,
    /// Not stored: another process numbers its functions in another order.
    pub(crate) lanes: UsualLanes,
    /// Not stored: whether a GPU is always throttled is known again after one step.
    pub(crate) throttling: UsualShares,
}

impl PhaseProfile {
    fn new(key: Key, settings: BaselineSettings) -> PhaseProfile {
        PhaseProfile {
            key,
            baseline: Baseline::new(settings),
            usual: Usual::default(),
            lanes: UsualLanes::default(),
            throttling: UsualShares::default(),
        }
    }

    /// Returns the part to store; `None` during the warm-up.
    fn to_store(&self, settings: BaselineSettings) -> Option<PhaseProfile> {
        self.baseline.level()?;
        Some(PhaseProfile {
            baseline: self.baseline.to_store(settings),
            usual: self.usual,
            ..PhaseProfile::new(self.key, settings)
        })
    }
}

/// The profiles of one workload.
#[derive(Clone, Debug)]
#[expect(clippy::vec_box, reason = "they are reordered at every use, and an unused slot costs a pointer")]
pub(crate) struct PhaseProfiles {
    settings: BaselineSettings,
    /// Most recently used first.
    profiles: Vec<Box<PhaseProfile>>,
    evicted: u64,
    /// Classes that evicted profiles had evicted.
    classes_evicted: u64,
}

impl PhaseProfiles {
    pub(crate) fn new(settings: BaselineSettings) -> PhaseProfiles {
        PhaseProfiles { settings, profiles: Vec::new(), evicted: 0, classes_evicted: 0 }
    }

    /// Returns which steps share a baseline.
    pub(crate) fn key(&self) -> BaselineKey {
        self.settings.key
    }

    /// Returns the profile of this key, a new one if there is none.
    pub(crate) fn of(&mut self, key: Key) -> &mut PhaseProfile {
        let at =
            self.find(key).unwrap_or_else(|| self.insert(Box::new(PhaseProfile::new(key, self.settings))));
        self.profiles[..=at].rotate_right(1);
        &mut self.profiles[0]
    }

    /// Returns the profiles to store: those that are warmed up.
    pub(crate) fn to_store(&self) -> Vec<PhaseProfile> {
        self.profiles.iter().filter_map(|profile| profile.to_store(self.settings)).collect()
    }

    /// Restores a stored profile, unless one of its key is warmed up by now.
    pub(crate) fn restore(&mut self, profile: &PhaseProfile) {
        let Some(stored) = profile.to_store(self.settings) else { return };
        match self.find(profile.key) {
            Some(at) if self.profiles[at].baseline.level().is_some() => {}
            Some(at) => *self.profiles[at] = stored,
            None => _ = self.insert(Box::new(stored)),
        }
    }

    /// Returns true if no step was compared and no profile restored.
    pub(crate) fn is_empty(&self) -> bool {
        self.profiles.is_empty()
    }

    /// Returns the number of profiles evicted.
    pub(crate) fn evicted(&self) -> u64 {
        self.evicted
    }

    /// Returns the number of size classes evicted.
    pub(crate) fn classes_evicted(&self) -> u64 {
        self.classes_evicted + self.profiles.iter().map(|h| h.baseline.classes_evicted()).sum::<u64>()
    }

    fn find(&self, key: Key) -> Option<usize> {
        self.profiles.iter().position(|profile| profile.key == key)
    }

    fn capacity(&self) -> usize {
        match self.settings.key {
            BaselineKey::Phase => PHASES_MAX,
            BaselineKey::PhaseAndFingerprint => FINGERPRINTS_MAX,
        }
    }

    fn insert(&mut self, profile: Box<PhaseProfile>) -> usize {
        if self.profiles.len() >= self.capacity()
            && let Some(oldest) = self.profiles.pop()
        {
            self.evicted += 1;
            self.classes_evicted += oldest.baseline.classes_evicted();
        }
        self.profiles.push(profile);
        self.profiles.len() - 1
    }
}

/// Phases by their number in records, which never changes.
const STORED_PHASES: [Phase; 6] =
    [Phase::Prefill, Phase::Decode, Phase::Mixed, Phase::Unknown, Phase::Train, Phase::Forward];

impl Field for Key {
    fn put(&self, out: &mut Encoder) {
        let number = STORED_PHASES.iter().position(|phase| *phase == self.phase);
        number.map_or(u8::MAX, |number| number as u8).put(out);
        self.fingerprint.put(out);
    }

    fn take(from: &mut &[u8]) -> Option<Self> {
        let phase = *STORED_PHASES.get(usize::from(u8::take(from)?))?;
        Some(Key { phase, fingerprint: Field::take(from)? })
    }
}

impl Field for PhaseProfile {
    fn put(&self, out: &mut Encoder) {
        self.key.put(out);
        self.baseline.put(out);
        self.usual.count.put(out);
        self.usual.means.put(out);
    }

    fn take(from: &mut &[u8]) -> Option<Self> {
        let (key, baseline) = (Key::take(from)?, Baseline::take(from)?);
        let (count, means) = (u64::take(from)?, <[f64; QUANTITIES]>::take(from)?);
        means.iter().all(|mean| mean.is_finite()).then_some(PhaseProfile {
            key,
            baseline,
            usual: Usual { count, means },
            lanes: UsualLanes::default(),
            throttling: UsualShares::default(),
        })
    }
}

impl PhaseProfile {
    /// Returns the phase and its baseline level; `None` during the warm-up.
    pub(crate) fn level(&self) -> Option<(Phase, BaselineLevel)> {
        self.baseline.level().map(|level| (self.key.phase, level))
    }

    /// Removes what is only valid in the process it was learnt from; returns false if nothing is left.
    pub(crate) fn make_portable(&mut self) -> bool {
        self.baseline.make_portable();
        self.key.fingerprint == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::baseline::{Class, Observed};
    use crate::testing::allocated_bytes;

    fn observed(profiles: &mut PhaseProfiles, key: Key, ns: u64, times: usize) {
        let step = Observed { duration_ns: ns, class: Class::of_graphs(1), outside_ns: 0.0 };
        (0..times).for_each(|_| _ = profiles.of(key).baseline.observe(&step));
    }

    fn of(fingerprint: u64) -> Key {
        Key { phase: Phase::Decode, fingerprint }
    }

    fn by_fingerprint() -> PhaseProfiles {
        PhaseProfiles::new(BaselineSettings { key: BaselineKey::PhaseAndFingerprint, ..Default::default() })
    }

    #[test]
    fn every_phase_has_a_number_in_records() {
        assert!(Phase::ALL.iter().all(|phase| STORED_PHASES.contains(phase)));
        let stored = |phase| {
            let mut out = Encoder::new(0);
            Key { phase, fingerprint: 0 }.put(&mut out);
            out.bytes[0]
        };
        assert_eq!(STORED_PHASES.map(stored), [0, 1, 2, 3, 4, 5]);
    }

    #[test]
    fn every_key_has_its_own_level() {
        let mut profiles = by_fingerprint();
        for (fingerprint, ns) in [(1, 10_000_000), (2, 30_000_000)] {
            observed(&mut profiles, of(fingerprint), ns, 50);
        }
        let levels = [1, 2].map(|f| profiles.of(of(f)).baseline.level().map(|level| level.p95_ns));
        assert_eq!(levels, [Some(10e6), Some(30e6)]);
    }

    #[test]
    fn the_least_recently_used_profiles_are_evicted_and_counted() {
        for (mut profiles, most) in
            [(by_fingerprint(), FINGERPRINTS_MAX), (PhaseProfiles::new(Default::default()), PHASES_MAX)]
        {
            for fingerprint in 1..=1_000 {
                observed(&mut profiles, of(fingerprint), 10_000_000, 30);
                observed(&mut profiles, of(0), 20_000_000, 1);
            }
            assert_eq!(profiles.evicted(), 1_001 - most as u64);
            assert_eq!(profiles.of(of(0)).baseline.level().map(|level| level.count), Some(1_000));
            let before = allocated_bytes();
            drop(profiles);
            let bytes = before - allocated_bytes();
            assert!(bytes <= most * (Baseline::BYTES_MAX + 256), "{bytes}");
        }
    }

    #[test]
    fn restored_profiles_do_not_replace_warm_ones() {
        let (mut old, mut new) = (by_fingerprint(), by_fingerprint());
        observed(&mut old, of(1), 10_000_000, 50);
        observed(&mut old, of(2), 10_000_000, 50);
        observed(&mut new, of(1), 30_000_000, 50);
        observed(&mut new, of(2), 30_000_000, 10);
        old.to_store().iter().for_each(|profile| new.restore(profile));
        let levels = [1, 2].map(|f| new.of(of(f)).baseline.level().map(|level| level.p95_ns));
        assert_eq!(levels, [Some(30e6), Some(10e6)], "one warmed up, one not");
    }
}
