//! Size classes of the steps of a phase, and the expected duration of each.
//!
//! A prefill of 8,000 tokens is not slow because most have 500, and a decode of 64 requests is not slow because the last
//! thousand had 4. Steps are classified by what they launch, never by their duration; each class has a typical duration,
//! and a step is compared with its own class. Two things are learnt from all classes together: the drift of everything,
//! which a rare class would miss, and the slope, by which more work within a class takes longer.
//!
//! Bounded: of [`CLASSES`] the least recently used one is evicted and counted.

use recording::codec::{Encoder, Field};
use recording::fields;

/// Classes of one baseline.
const CLASSES: usize = 24;
/// Steps from which a class is known.
const KNOWN: usize = 5;
/// Steps that the typical duration of a class is averaged over.
const MEMORY: u8 = 64;
/// Steps that the drift of all classes is averaged over.
const DRIFT_MEMORY: f32 = 32.0;
/// Steps that the slope within classes is averaged over.
const SLOPE_MEMORY: f32 = 256.0;
/// The unit of the first logarithms: a twentieth of a percent.
const UNIT: f32 = 1.0 / 2048.0;

/// A class of steps of one phase: the same graphs, and work within half an octave.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Class {
    /// The fingerprint of the graphs launched; 0 without graphs.
    pub graphs: u64,
    /// The logarithm of the work to base 2; 0 if the graphs alone determine it.
    pub octaves: f32,
}

impl Class {
    /// Returns a class by graphs alone.
    pub fn of_graphs(graphs: u64) -> Class {
        Class { graphs, octaves: 0.0 }
    }

    /// Returns a class by graphs and work.
    pub fn of_work(graphs: u64, work: u64) -> Class {
        Class { graphs, octaves: (work as f64 + 1.0).log2() as f32 }
    }

    fn half_octaves(&self) -> u8 {
        (2.0 * self.octaves).round() as u8
    }

    /// Returns the natural logarithm of the ratio of its work to that of the middle of a class.
    fn beyond(&self, half_octaves: u8) -> f32 {
        (self.octaves - f32::from(half_octaves) / 2.0) * std::f32::consts::LN_2
    }
}

/// One class. Logarithms are of durations in ns, less the drift at the time of learning.
#[derive(Clone, Debug, PartialEq)]
struct Entry {
    graphs: u64,
    /// The typical logarithm at the middle of the class, once known.
    log: f32,
    /// The first logarithms, in [`UNIT`]s.
    first: [u16; KNOWN],
    /// Steps learnt from, up to [`MEMORY`].
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
        // The median, so that one slow step among the first does not determine it.
        first.sort_unstable();
        self.log = f32::from(first[first.len() / 2]) * UNIT;
    }
}

/// The slope of duration over work within a class, between 0 (constant) and 1 (proportional).
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Slope {
    xx: f32,
    xy: f32,
}

impl Slope {
    /// Returns the additional duration for additional work, both in logarithms.
    fn of(&self, beyond: f32) -> f32 {
        if self.xx > 0.0 { (self.xy / self.xx).clamp(0.0, 1.0) * beyond } else { 0.0 }
    }

    fn learn(&mut self, beyond: f32, longer: f32) {
        let fade = 1.0 - 1.0 / SLOPE_MEMORY;
        self.xx = self.xx * fade + beyond * beyond;
        self.xy = self.xy * fade + beyond * longer;
    }
}

/// The expected duration of a step.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Expected {
    /// The logarithm of the duration in ns.
    pub(super) log: f32,
    /// True if its own class is known; false if derived from neighbouring classes.
    pub(super) is_own: bool,
}

/// The classes of one baseline.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Classes {
    /// Most recently used first.
    entries: Vec<Entry>,
    /// The drift of all durations since the start, in logarithms.
    drift: f32,
    slope: Slope,
    evicted: u64,
}

fields! {
    Entry { graphs, log, first, seen, half_octaves }
    Slope { xx, xy }
}

impl Classes {
    /// The most bytes on the heap.
    pub(super) const BYTES_MAX: usize = CLASSES * size_of::<Entry>();

    /// Returns the expected duration of a step of this class.
    pub(super) fn expected(&self, class: &Class) -> Option<Expected> {
        self.own(class).or_else(|| self.of_neighbours(class))
    }

    fn own(&self, class: &Class) -> Option<Expected> {
        let own = self.known().find(|e| e.is_of(class))?;
        let log = self.drift + own.log + self.slope.of(class.beyond(own.half_octaves));
        Some(Expected { log, is_own: true })
    }

    /// Returns the duration expected from the nearest known class of the same graphs: proportional for more work, the same for
    /// less.
    fn of_neighbours(&self, class: &Class) -> Option<Expected> {
        self.known()
            .filter(|e| e.graphs == class.graphs && e.half_octaves > 0 && class.octaves > 0.0)
            .map(|e| (class.beyond(e.half_octaves), e))
            .min_by(|a, b| a.0.abs().total_cmp(&b.0.abs()))
            .map(|(beyond, e)| Expected { log: self.drift + e.log + beyond.max(0.0), is_own: false })
    }

    fn known(&self) -> impl Iterator<Item = &Entry> {
        self.entries.iter().filter(|e| e.is_known())
    }

    /// Learns from a step of this class that took `log` (logarithm of ns) and was not strange.
    pub(super) fn learn(&mut self, class: &Class, log: f32) {
        let at = self.insert(class);
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

    /// Adds `by` (a difference of logarithms) to the expected duration of all classes.
    pub(super) fn shift(&mut self, by: f32) {
        self.drift += by;
    }

    /// Removes the classes by graphs, whose fingerprints are valid in one process only.
    pub(super) fn remove_graphs(&mut self) {
        self.entries.retain(|entry| entry.graphs == 0);
    }

    /// Returns the number of classes evicted.
    pub(super) fn evicted(&self) -> u64 {
        self.evicted
    }

    /// Allocates memory in thirds: most baselines need few classes.
    fn reserve(&mut self) {
        if self.entries.len() == self.entries.capacity() {
            self.entries.reserve_exact(CLASSES / 3);
        }
    }

    fn insert(&mut self, class: &Class) -> usize {
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
    fn put(&self, out: &mut Encoder) {
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
mod tests;
