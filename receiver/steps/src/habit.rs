//! What is usual for the steps of one workload: a few habits, each of them a baseline and the parts that its steps
//! usually have.
//!
//! The one idea: bounded by how many, whatever they are keyed by: of [`Habits::most`] the one unused longest makes
//! room, counted. Four phases are all that an inference server has; 16 KiB hold them.

use recording::codec::{Encoder, Field};

use crate::baseline::{Baseline, BaselineKey, BaselineSettings, Level};
use crate::causes::Usual;
use crate::phase::Phase;
use crate::throttling::UsualShares;

/// Habits of a workload that has one for each phase.
pub(crate) const PHASES_MAX: usize = 4;
/// Habits of a workload that has one for each fingerprint.
const FINGERPRINTS_MAX: usize = 16;

/// Which steps share a habit.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Key {
    pub(crate) phase: Phase,
    /// Of kernels and graphs; 0 where it does not count.
    pub(crate) fingerprint: u64,
}

/// What is usual for steps of one key.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Habit {
    pub(crate) key: Key,
    pub(crate) baseline: Baseline,
    pub(crate) usual: Usual,
    /// Not kept: whether a GPU is always held down is known again after a step.
    pub(crate) throttling: UsualShares,
}

impl Habit {
    fn new(key: Key, settings: BaselineSettings) -> Habit {
        Habit {
            key,
            baseline: Baseline::new(settings),
            usual: Usual::default(),
            throttling: UsualShares::default(),
        }
    }

    /// What is to be kept of it; nothing before its warm-up is over.
    fn kept(&self, settings: BaselineSettings) -> Option<Habit> {
        self.baseline.level()?;
        Some(Habit {
            baseline: self.baseline.kept(settings),
            usual: self.usual,
            ..Habit::new(self.key, settings)
        })
    }

    fn size_bytes(&self) -> usize {
        size_of::<Self>() - size_of::<Baseline>() + self.baseline.size_bytes()
    }
}

/// The habits of one workload.
#[derive(Clone, Debug)]
#[expect(
    clippy::vec_box,
    reason = "they change places at every use, and a place without a habit costs nothing"
)]
pub(crate) struct Habits {
    settings: BaselineSettings,
    /// The one used last comes first.
    habits: Vec<Box<Habit>>,
    evicted: u64,
    /// Classes forgotten by habits that are forgotten themselves.
    classes_evicted: u64,
}

impl Habits {
    pub(crate) fn new(settings: BaselineSettings) -> Habits {
        Habits { settings, habits: Vec::new(), evicted: 0, classes_evicted: 0 }
    }

    /// Which steps share a baseline.
    pub(crate) fn key(&self) -> BaselineKey {
        self.settings.key
    }

    /// The habit of this key, begun where there is none.
    pub(crate) fn of(&mut self, key: Key) -> &mut Habit {
        let at = self.find(key).unwrap_or_else(|| self.insert(Box::new(Habit::new(key, self.settings))));
        self.habits[..=at].rotate_right(1);
        &mut self.habits[0]
    }

    /// What is to be kept of all of them.
    pub(crate) fn kept(&self) -> Vec<Habit> {
        self.habits.iter().filter_map(|habit| habit.kept(self.settings)).collect()
    }

    /// Takes over a habit, unless the steps seen so far have made one of their own.
    pub(crate) fn restore(&mut self, habit: &Habit) {
        let Some(kept) = habit.kept(self.settings) else { return };
        match self.find(habit.key) {
            Some(at) if self.habits[at].baseline.level().is_some() => {}
            Some(at) => *self.habits[at] = kept,
            None => _ = self.insert(Box::new(kept)),
        }
    }

    /// Habits forgotten to make room.
    pub(crate) fn evicted(&self) -> u64 {
        self.evicted
    }

    /// Classes of sizes forgotten to make room.
    pub(crate) fn classes_evicted(&self) -> u64 {
        self.classes_evicted + self.habits.iter().map(|h| h.baseline.classes_evicted()).sum::<u64>()
    }

    /// Bytes held beside the struct itself.
    pub(crate) fn heap_bytes(&self) -> usize {
        self.habits.capacity() * size_of::<usize>()
            + self.habits.iter().map(|h| h.size_bytes()).sum::<usize>()
    }

    fn find(&self, key: Key) -> Option<usize> {
        self.habits.iter().position(|habit| habit.key == key)
    }

    fn most(&self) -> usize {
        match self.settings.key {
            BaselineKey::Phase => PHASES_MAX,
            BaselineKey::PhaseAndFingerprint => FINGERPRINTS_MAX,
        }
    }

    fn insert(&mut self, habit: Box<Habit>) -> usize {
        if self.habits.len() >= self.most()
            && let Some(unused) = self.habits.pop()
        {
            self.evicted += 1;
            self.classes_evicted += unused.baseline.classes_evicted();
        }
        self.habits.push(habit);
        self.habits.len() - 1
    }
}

/// Phases by their number in records, which never changes.
const STORED_PHASES: [Phase; 5] = [Phase::Prefill, Phase::Decode, Phase::Mixed, Phase::Unknown, Phase::Train];

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

impl Field for Habit {
    fn put(&self, out: &mut Encoder) {
        self.key.put(out);
        self.baseline.put(out);
        self.usual.count.put(out);
        means(&self.usual).put(out);
    }

    fn take(from: &mut &[u8]) -> Option<Self> {
        let (key, baseline) = (Key::take(from)?, Baseline::take(from)?);
        let count = u64::take(from)?;
        let [
            duration_ns,
            enqueue_ns,
            wait_ns,
            runq_enqueue_ns,
            runq_wait_ns,
            copied_bytes,
            collective_wait_ns,
        ] = <[f64; 7]>::take(from)?;
        let usual = Usual {
            count,
            duration_ns,
            enqueue_ns,
            wait_ns,
            runq_enqueue_ns,
            runq_wait_ns,
            collective_wait_ns,
            copied_bytes,
        };
        means(&usual).iter().all(|mean| mean.is_finite()).then_some(Habit {
            key,
            baseline,
            usual,
            throttling: UsualShares::default(),
        })
    }
}

fn means(usual: &Usual) -> [f64; 7] {
    [
        usual.duration_ns,
        usual.enqueue_ns,
        usual.wait_ns,
        usual.runq_enqueue_ns,
        usual.runq_wait_ns,
        usual.copied_bytes,
        usual.collective_wait_ns,
    ]
}

impl Habit {
    /// The phase and its level, for whoever reads a record.
    pub(crate) fn level(&self) -> Option<(Phase, Level)> {
        self.baseline.level().map(|level| (self.key.phase, level))
    }

    /// Forgets what is so of one process only; false where nothing is left.
    pub(crate) fn forget_process(&mut self) -> bool {
        self.baseline.forget_process();
        self.key.fingerprint == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::baseline::{Class, Observed};

    fn observed(habits: &mut Habits, key: Key, ns: u64, times: usize) {
        let step = Observed { duration_ns: ns, class: Class::of_graphs(1), outside_ns: 0.0 };
        (0..times).for_each(|_| _ = habits.of(key).baseline.observe(&step));
    }

    fn of(fingerprint: u64) -> Key {
        Key { phase: Phase::Decode, fingerprint }
    }

    fn by_fingerprint() -> Habits {
        Habits::new(BaselineSettings { key: BaselineKey::PhaseAndFingerprint, ..Default::default() })
    }

    #[test]
    fn every_phase_has_a_number_in_records() {
        assert!(Phase::ALL.iter().all(|phase| STORED_PHASES.contains(phase)));
        let stored = |phase| {
            let mut out = Encoder::new(0);
            Key { phase, fingerprint: 0 }.put(&mut out);
            out.bytes[0]
        };
        assert_eq!(STORED_PHASES.map(stored), [0, 1, 2, 3, 4]);
    }

    #[test]
    fn every_key_has_a_level_of_its_own() {
        let mut habits = by_fingerprint();
        for (fingerprint, ns) in [(1, 10_000_000), (2, 30_000_000)] {
            observed(&mut habits, of(fingerprint), ns, 50);
        }
        let levels = [1, 2].map(|f| habits.of(of(f)).baseline.level().map(|level| level.p95_ns));
        assert_eq!(levels, [Some(10e6), Some(30e6)]);
    }

    #[test]
    fn more_keys_than_there_is_room_for_leave_the_last_used_and_are_counted() {
        for (mut habits, most) in [(by_fingerprint(), FINGERPRINTS_MAX), (Habits::new(Default::default()), 4)]
        {
            for fingerprint in 1..=1_000 {
                observed(&mut habits, of(fingerprint), 10_000_000, 30);
                observed(&mut habits, of(0), 20_000_000, 1);
            }
            assert_eq!(habits.evicted(), 1_001 - most as u64);
            assert_eq!(habits.of(of(0)).baseline.level().map(|level| level.count), Some(1_000));
            assert!(habits.heap_bytes() <= most * (Baseline::BYTES_MAX + 256), "{}", habits.heap_bytes());
        }
    }

    #[test]
    fn what_was_learnt_since_is_not_replaced_by_what_was_kept() {
        let (mut old, mut new) = (by_fingerprint(), by_fingerprint());
        observed(&mut old, of(1), 10_000_000, 50);
        observed(&mut old, of(2), 10_000_000, 50);
        observed(&mut new, of(1), 30_000_000, 50);
        observed(&mut new, of(2), 30_000_000, 10);
        old.kept().iter().for_each(|habit| new.restore(habit));
        let levels = [1, 2].map(|f| new.of(of(f)).baseline.level().map(|level| level.p95_ns));
        assert_eq!(levels, [Some(30e6), Some(10e6)], "warm, and not yet warm");
    }
}
