//! What steps of one size usually take, within a phase.
//!
//! The one idea: a prefill of 8,000 tokens is not slow because most have 500, and a decode of 64 requests is not
//! slow because the last thousand had 4. Steps of a phase fall into classes by what they launch, never by their
//! duration; each class remembers its typical duration, and a step is compared with its own kind before it is
//! called slow. Two things are learnt of all classes together, since each step says something of both: by how much
//! everything has drifted, which a rare class would miss, and how much longer more work takes within a class.
//! Bounded: of [`CLASSES`] the one unused longest makes room, counted.

use event::kept::Field;
use event::kept_fields;

/// Classes remembered for one baseline.
const CLASSES: usize = 24;
/// Steps after which a class is known.
const KNOWN: usize = 5;
/// Steps that a class's typical duration averages over...
const MEMORY: u8 = 64;
/// ... those that the drift of all classes follows...
const DRIFT_MEMORY: f32 = 32.0;
/// ... and those that the slope within classes is learnt of.
const SLOPE_MEMORY: f32 = 256.0;
/// What the first logarithms are counted in: a twentieth of a percent.
const UNIT: f32 = 1.0 / 2048.0;

/// Which steps of a phase are alike: the same graphs, and work of the same half octave.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Class {
    /// Fingerprint of the graphs launched; 0 without.
    pub graphs: u64,
    /// Logarithm of the work to base 2; 0 where the graphs alone say it.
    pub octaves: f32,
}

impl Class {
    /// A class by graphs alone.
    pub fn of_graphs(graphs: u64) -> Class {
        Class { graphs, octaves: 0.0 }
    }

    /// A class by graphs and work.
    pub fn of_work(graphs: u64, work: u64) -> Class {
        Class { graphs, octaves: (work as f64 + 1.0).log2() as f32 }
    }

    fn half_octaves(&self) -> u8 {
        (2.0 * self.octaves).round() as u8
    }

    /// Natural logarithm of how much more work it is than the middle of the class has.
    fn beyond(&self, half_octaves: u8) -> f32 {
        (self.octaves - f32::from(half_octaves) / 2.0) * std::f32::consts::LN_2
    }
}

/// One class. Logarithms are of durations in ns, less the drift when they were learnt.
#[derive(Clone, Debug, PartialEq)]
struct Entry {
    graphs: u64,
    /// Typical, once known, of the middle of the class.
    log: f32,
    /// The first, in units of [`UNIT`].
    first: [u16; KNOWN],
    /// Steps, up to [`MEMORY`].
    seen: u8,
    half_octaves: u8,
}

impl Entry {
    fn new(class: &Class) -> Entry {
        let half_octaves = class.half_octaves();
        Entry { graphs: class.graphs, log: 0.0, first: [0; KNOWN], seen: 0, half_octaves }
    }

    fn is_of(&self, class: &Class) -> bool {
        self.graphs == class.graphs && self.half_octaves == class.half_octaves()
    }

    fn is_known(&self) -> bool {
        usize::from(self.seen) >= KNOWN
    }

    fn learn(&mut self, log: f32) {
        if self.is_known() {
            self.seen = (self.seen + 1).min(MEMORY);
            self.log += (log - self.log) / f32::from(self.seen);
            return;
        }
        let first = &mut self.first[..=usize::from(self.seen)];
        first[usize::from(self.seen)] = (log / UNIT).round() as u16;
        self.seen += 1;
        // The median: one slow step among the first must not become what is usual.
        first.sort_unstable();
        self.log = f32::from(first[first.len() / 2]) * UNIT;
    }
}

/// How much longer a step takes for more work within its class: nothing, in proportion, or between.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Slope {
    xx: f32,
    xy: f32,
}

impl Slope {
    /// What such a step takes longer, in logarithms.
    fn of(&self, beyond: f32) -> f32 {
        if self.xx > 0.0 { (self.xy / self.xx).clamp(0.0, 1.0) * beyond } else { 0.0 }
    }

    fn learn(&mut self, beyond: f32, longer: f32) {
        let fade = 1.0 - 1.0 / SLOPE_MEMORY;
        self.xx = self.xx * fade + beyond * beyond;
        self.xy = self.xy * fade + beyond * longer;
    }
}

/// The classes of one baseline.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Classes {
    /// The one used last comes first.
    entries: Vec<Entry>,
    /// By how much everything takes longer than at first, in logarithms.
    drift: f32,
    slope: Slope,
    evicted: u64,
}

kept_fields! {
    Entry { graphs, log, first, seen, half_octaves }
    Slope { xx, xy }
}

impl Classes {
    /// Bytes on the heap.
    pub(super) const BYTES_MAX: usize = CLASSES * size_of::<Entry>();

    /// Logarithm of the duration (ns) that a step of this class should take. Of a class not yet known, what
    /// known classes of the same graphs let expect: in proportion for more work, no less for less.
    pub(super) fn expected_log(&self, class: &Class) -> Option<f32> {
        let known = || self.entries.iter().filter(|e| e.is_known());
        if let Some(own) = known().find(|e| e.is_of(class)) {
            return Some(self.drift + own.log + self.slope.of(class.beyond(own.half_octaves)));
        }
        known()
            .filter(|e| e.graphs == class.graphs && e.half_octaves > 0 && class.octaves > 0.0)
            .map(|e| (class.beyond(e.half_octaves), e))
            .min_by(|a, b| a.0.abs().total_cmp(&b.0.abs()))
            .map(|(beyond, e)| self.drift + e.log + beyond.max(0.0))
    }

    /// A step of this class took `log` (logarithm of ns), and that was nothing strange.
    pub(super) fn learn(&mut self, class: &Class, log: f32) {
        let at = self.place(class);
        self.entries[..=at].rotate_right(1);
        let entry = &mut self.entries[0];
        let (beyond, log) = (class.beyond(entry.half_octaves), log - self.drift);
        let at_middle = log - self.slope.of(beyond);
        if entry.is_known() {
            self.slope.learn(beyond, log - entry.log);
            self.drift += (at_middle - entry.log) / DRIFT_MEMORY;
        }
        entry.learn(at_middle);
    }

    /// Everything takes `by` (difference of logarithms) longer from here on.
    pub(super) fn shift(&mut self, by: f32) {
        self.drift += by;
    }

    /// Forgets classes by graphs, whose fingerprints are those of one process.
    pub(super) fn forget_graphs(&mut self) {
        self.entries.retain(|entry| entry.graphs == 0);
    }

    /// Classes forgotten to make room.
    pub(super) fn evicted(&self) -> u64 {
        self.evicted
    }

    /// Bytes held beside the struct itself.
    pub(super) fn heap_bytes(&self) -> usize {
        self.entries.capacity() * size_of::<Entry>()
    }

    /// Takes memory in thirds: most baselines need few classes.
    fn reserve(&mut self) {
        if self.entries.len() == self.entries.capacity() {
            self.entries.reserve_exact(CLASSES / 3);
        }
    }

    fn place(&mut self, class: &Class) -> usize {
        if let Some(at) = self.entries.iter().position(|e| e.is_of(class)) {
            return at;
        }
        if self.entries.len() == CLASSES {
            self.entries.pop();
            self.evicted += 1;
        }
        self.reserve();
        self.entries.push(Entry::new(class));
        self.entries.len() - 1
    }
}

impl Field for Classes {
    fn put(&self, out: &mut Vec<u8>) {
        self.entries.put(out);
        self.drift.put(out);
        self.slope.put(out);
    }

    fn take(from: &mut &[u8]) -> Option<Self> {
        let entries = Vec::<Entry>::take(from).filter(|entries| entries.len() <= CLASSES)?;
        let is_sound = |e: &Entry| e.seen > 0 && e.seen <= MEMORY && e.log.is_finite();
        let mut classes =
            Classes { drift: f32::take(from)?, slope: Slope::take(from)?, ..Classes::default() };
        for entry in entries.into_iter().filter(is_sound) {
            classes.reserve();
            classes.entries.push(entry);
        }
        let Slope { xx, xy } = classes.slope;
        [classes.drift, xx, xy].iter().all(|number| number.is_finite()).then_some(classes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taught(lessons: &[(Class, f64, usize)]) -> Classes {
        let mut classes = Classes::default();
        for (class, ns, times) in lessons {
            (0..*times).for_each(|_| classes.learn(class, ns.ln() as f32));
        }
        classes
    }

    #[track_caller]
    fn check(classes: &Classes, class: Class, expected_ns: Option<f64>) {
        let found = classes.expected_log(&class).map(|log| f64::from(log).exp());
        let alike = |a: f64, b: f64| (a / b - 1.0).abs() < 0.01;
        assert!(
            found.is_some() == expected_ns.is_some()
                && found.zip(expected_ns).is_none_or(|(a, b)| alike(a, b)),
            "{class:?}: {found:?}, expected {expected_ns:?}"
        );
    }

    #[test]
    fn a_class_is_known_after_a_few_steps() {
        let class = Class::of_graphs(7);
        check(&taught(&[(class, 1e6, KNOWN - 1)]), class, None);
        check(&taught(&[(class, 1e6, KNOWN)]), class, Some(1e6));
        check(&taught(&[(class, 1e6, KNOWN)]), Class::of_graphs(8), None);
    }

    #[test]
    fn one_slow_step_among_the_first_does_not_become_usual() {
        let class = Class::of_graphs(7);
        check(&taught(&[(class, 1e6, 2), (class, 9e6, 1), (class, 1e6, 2)]), class, Some(1e6));
    }

    #[test]
    fn more_work_than_ever_seen_may_take_in_proportion() {
        let classes = taught(&[(Class::of_work(0, 1 << 20), 1e6, 9), (Class::of_work(0, 1 << 22), 3e6, 9)]);
        check(&classes, Class::of_work(0, 1 << 24), Some(12e6));
        check(&classes, Class::of_work(0, 1 << 10), Some(1e6));
        check(&classes, Class::of_work(5, 1 << 24), None);
    }

    #[test]
    fn what_drifts_for_common_classes_has_drifted_for_a_rare_one() {
        let (common, rare) = (Class::of_graphs(1), Class::of_graphs(2));
        let mut classes = taught(&[(rare, 5e6, 9), (common, 1e6, 100)]);
        for k in 0..2_000 {
            classes.learn(&common, (1e6f64.ln() + 0.3 * f64::from(k) / 2_000.0) as f32);
        }
        let expected = f64::from(classes.expected_log(&rare).unwrap()) - 5e6f64.ln();
        assert!((0.15..0.3).contains(&expected), "{expected}");
    }

    #[test]
    fn within_a_class_more_work_takes_longer_if_it_was_seen_to() {
        for slope in [0.0, 0.5, 1.0] {
            let mut classes = Classes::default();
            let usual = |work: f64| (slope * (work / 1e6).ln() + 1e6f64.ln()) as f32;
            for k in 0..500 {
                let work = 1e6 * (1.0 + f64::from(k % 7) / 40.0);
                classes.learn(&Class::of_work(0, work as u64), usual(work));
            }
            for work in [1e6, 1.15e6] {
                let expected = classes.expected_log(&Class::of_work(0, work as u64)).unwrap();
                assert!((expected - usual(work)).abs() < 0.005, "{slope}: {expected}, {}", usual(work));
            }
        }
    }

    #[test]
    fn a_shift_moves_every_class() {
        let mut classes = taught(&[(Class::of_graphs(1), 1e6, 9), (Class::of_graphs(2), 5e6, 9)]);
        classes.shift(2f32.ln());
        check(&classes, Class::of_graphs(1), Some(2e6));
        check(&classes, Class::of_graphs(2), Some(10e6));
    }

    #[test]
    fn ten_thousand_classes_leave_the_last_used_and_are_counted() {
        let mut classes = taught(&[]);
        for graphs in 0..10_000 {
            (0..KNOWN).for_each(|_| classes.learn(&Class::of_graphs(graphs), 1.0));
            classes.learn(&Class::of_graphs(u64::MAX), 1.0);
        }
        assert_eq!(classes.evicted(), 10_001 - CLASSES as u64);
        assert!(classes.expected_log(&Class::of_graphs(u64::MAX)).is_some());
        assert!(classes.expected_log(&Class::of_graphs(0)).is_none());
        assert_eq!(classes.heap_bytes(), Classes::BYTES_MAX);
    }
}
