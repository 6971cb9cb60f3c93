//! What steps of one size usually take, within a phase.
//!
//! The one idea: a prefill of 8,000 tokens is not slow because most have 500, and a decode of 64 requests is not
//! slow because the last thousand had 4. Steps of a phase fall into classes by what they launch, never by their
//! duration; each class remembers its typical duration, and a step is compared with its own kind before it is
//! called slow. Bounded: of [`CLASSES`] the one unused longest makes room, counted.

use event::kept::Field;
use event::kept_fields;

/// Classes remembered for one baseline.
const CLASSES: usize = 24;
/// Steps after which a class is known.
const KNOWN: usize = 5;
/// Steps that a class's typical duration averages over.
const MEMORY: u8 = 64;
/// What the first logarithms are counted in: a twentieth of a percent.
const UNIT: f32 = 1.0 / 2048.0;

/// Which steps of a phase are alike: the same graphs, and work of the same half octave.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Class {
    /// Fingerprint of the graphs launched; 0 without.
    pub graphs: u64,
    /// Work in half octaves; 0 where the graphs alone say it.
    pub half_octaves: u32,
}

kept_fields! {
    Class { graphs, half_octaves }
    Entry { class, log_mean, first, seen }
}

impl Class {
    /// A class by graphs alone.
    pub fn of_graphs(graphs: u64) -> Class {
        Class { graphs, half_octaves: 0 }
    }

    /// A class by graphs and work.
    pub fn of_work(graphs: u64, work: u64) -> Class {
        Class { graphs, half_octaves: ((work as f64 + 1.0).log2() * 2.0).round() as u32 }
    }

    /// Natural logarithm of how much more work than `other` it stands for; `None` where they do not compare.
    fn work_over(&self, other: &Class) -> Option<f32> {
        let compares = self.graphs == other.graphs && self.half_octaves > 0 && other.half_octaves > 0;
        let half_octaves = self.half_octaves as f32 - other.half_octaves as f32;
        compares.then_some(half_octaves * std::f32::consts::LN_2 / 2.0)
    }
}

#[derive(Clone, Debug, PartialEq)]
struct Entry {
    class: Class,
    /// Mean logarithm of the duration in ns, once known.
    log_mean: f32,
    /// Logarithms of the first durations, in units of [`UNIT`].
    first: [u16; KNOWN],
    /// Steps, up to [`MEMORY`].
    seen: u8,
}

impl Entry {
    fn is_known(&self) -> bool {
        usize::from(self.seen) >= KNOWN
    }

    fn learn(&mut self, log: f32) {
        if self.is_known() {
            self.seen = (self.seen + 1).min(MEMORY);
            self.log_mean += (log - self.log_mean) / f32::from(self.seen);
            return;
        }
        let first = &mut self.first[..=usize::from(self.seen)];
        first[usize::from(self.seen)] = (log / UNIT).round() as u16;
        self.seen += 1;
        // The median: one slow step among the first must not become what is usual.
        first.sort_unstable();
        self.log_mean = f32::from(first[first.len() / 2]) * UNIT;
    }
}

/// The classes of one baseline.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Classes {
    /// The one used last comes first.
    entries: Vec<Entry>,
    evicted: u64,
}

impl Classes {
    /// Bytes on the heap.
    pub(super) const BYTES_MAX: usize = CLASSES * size_of::<Entry>();

    /// Logarithm of the duration (ns) that a step of this class should take. Of a class not yet known, what
    /// known classes of the same graphs let expect: in proportion for more work, no less for less.
    pub(super) fn expected_log(&self, class: &Class) -> Option<f32> {
        let known = || self.entries.iter().filter(|e| e.is_known());
        if let Some(own) = known().find(|e| e.class == *class) {
            return Some(own.log_mean);
        }
        known()
            .filter_map(|e| class.work_over(&e.class).map(|more| (more, e)))
            .min_by(|a, b| a.0.abs().total_cmp(&b.0.abs()))
            .map(|(more, e)| e.log_mean + more.max(0.0))
    }

    /// A step of this class took `log` (logarithm of ns), and that was nothing strange.
    pub(super) fn learn(&mut self, class: &Class, log: f32) {
        let at = self.place(class);
        self.entries[..=at].rotate_right(1);
        self.entries[0].learn(log);
    }

    /// Everything takes `by` (difference of logarithms) longer from here on.
    pub(super) fn shift(&mut self, by: f32) {
        for entry in &mut self.entries {
            entry.log_mean += by;
            entry.first.iter_mut().for_each(|log| *log = (f32::from(*log) + by / UNIT).round() as u16);
        }
    }

    /// Forgets classes by graphs, whose fingerprints are those of one process.
    pub(super) fn forget_graphs(&mut self) {
        self.entries.retain(|entry| entry.class.graphs == 0);
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
        if let Some(at) = self.entries.iter().position(|e| e.class == *class) {
            return at;
        }
        if self.entries.len() == CLASSES {
            self.entries.pop();
            self.evicted += 1;
        }
        self.reserve();
        self.entries.push(Entry { class: *class, log_mean: 0.0, first: [0; KNOWN], seen: 0 });
        self.entries.len() - 1
    }
}

impl Field for Classes {
    fn put(&self, out: &mut Vec<u8>) {
        self.entries.put(out);
    }

    fn take(from: &mut &[u8]) -> Option<Self> {
        let entries = Vec::<Entry>::take(from).filter(|entries| entries.len() <= CLASSES)?;
        let is_sound = |e: &Entry| e.seen > 0 && e.seen <= MEMORY && e.log_mean.is_finite();
        let mut classes = Classes::default();
        for entry in entries.into_iter().filter(is_sound) {
            classes.reserve();
            classes.entries.push(entry);
        }
        Some(classes)
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
