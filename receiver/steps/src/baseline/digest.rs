//! One quantile of a stream of numbers in fixed memory: a merging t-digest with decaying weights.
//!
//! Neighbouring values are merged into centroids whose weight bounds the error in rank (Dunning and Ertl, "Computing
//! extremely accurate quantiles using t-digests"). A bucket of fixed relative width cannot determine the p95 to 1 % of rank
//! if all values are within that width; a centroid can. Only one quantile is needed: centroids are fine around it and
//! coarser with the distance, which takes a third of the memory of a symmetric digest.
//!
//! The weight of a value is halved every so many values. A value is stored to one part in ten million. Cost: a stable sort
//! of nearly sorted centroids every [`BUFFER`] values.

use recording::codec::{Encoder, Field};
use recording::fields;

/// Rank of the tracked quantile.
const RANK: f64 = 0.95;
/// The largest share of the rank that a centroid around [`RANK`] covers.
const FINE: f64 = 0.005;
/// The largest share of the rank that a centroid further away covers, as a part of its distance from [`RANK`].
const SLOPE: f64 = 0.2;
/// The capacity in centroids. Two neighbours together exceed what one may cover, and 34 such pairs cover all ranks: at most
/// 70, and two for rounding.
const CENTROIDS: usize = 72;
/// The most values that wait to be merged.
const BUFFER: usize = 16;

#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Centroid {
    mean: f32,
    weight: f32,
}

fields! {
    Centroid { mean, weight }
}

/// A sketch of a distribution.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Digest {
    half_life: f64,
    centroids: Vec<Centroid>,
    buffer: Vec<f32>,
    merged: u64,
}

impl Digest {
    /// The bytes on the heap.
    pub(super) const BYTES_MAX: usize =
        (CENTROIDS + BUFFER) * size_of::<Centroid>() + BUFFER * size_of::<f32>();

    /// Returns an empty digest in which the weight of a value is halved after `half_life` more. Allocates all of its memory.
    pub(super) fn new(half_life: f64) -> Digest {
        Digest {
            half_life,
            // A merge sorts the new values in with the old centroids.
            centroids: Vec::with_capacity(CENTROIDS + BUFFER),
            buffer: Vec::with_capacity(BUFFER),
            merged: 0,
        }
    }

    /// Removes all values without releasing memory.
    pub(super) fn clear(&mut self) {
        self.centroids.clear();
        self.buffer.clear();
        self.merged = 0;
    }

    /// Adds a value; returns true if [`Digest::quantile`] may have changed.
    pub(super) fn add(&mut self, value: f64) -> bool {
        self.buffer.push(value as f32);
        // Few values: merge each, so that the answer is exact. Many: one more hardly matters.
        let patience = (self.merged as usize / 16).clamp(1, BUFFER);
        let is_due = self.buffer.len() >= patience;
        if is_due {
            self.merge();
        }
        is_due
    }

    /// Returns the value at [`RANK`] of the values merged so far; `None` without any.
    pub(super) fn quantile(&self) -> Option<f64> {
        let target = RANK * self.total();
        let mut before = 0.0;
        let mut left: Option<(f64, f64)> = None;
        for c in &self.centroids {
            let (mean, middle) = (f64::from(c.mean), before + f64::from(c.weight) / 2.0);
            if target <= middle {
                return Some(left.map_or(mean, |l| between(l, (middle, mean), target)));
            }
            left = Some((middle, mean));
            before += f64::from(c.weight);
        }
        left.map(|(_, mean)| mean)
    }

    fn total(&self) -> f64 {
        self.centroids.iter().map(|c| f64::from(c.weight)).sum()
    }

    fn merge(&mut self) {
        let fade = (-(self.buffer.len() as f64) / self.half_life).exp2() as f32;
        self.centroids.iter_mut().for_each(|c| c.weight *= fade);
        self.merged += self.buffer.len() as u64;
        self.centroids.extend(self.buffer.drain(..).map(|mean| Centroid { mean, weight: 1.0 }));
        // Stable: equal means remain in their order of arrival.
        self.centroids.sort_by(|a, b| a.mean.total_cmp(&b.mean));
        self.compress();
    }

    /// Joins neighbours as long as their centroid covers no more than one may.
    fn compress(&mut self) {
        let total = self.total();
        let mut last_at = 0;
        let mut before = 0.0;
        let mut limit = total * reach(0.0);
        for at in 1..self.centroids.len() {
            let next = self.centroids[at];
            let last = &mut self.centroids[last_at];
            let joint = last.weight + next.weight;
            if before + f64::from(joint) <= limit {
                last.mean += (next.mean - last.mean) * (next.weight / joint);
                last.weight = joint;
                continue;
            }
            before += f64::from(last.weight);
            limit = total * reach(before / total);
            last_at += 1;
            self.centroids[last_at] = next;
        }
        self.centroids.truncate(last_at + 1);
        debug_assert!(self.centroids.len() <= CENTROIDS, "{} centroids", self.centroids.len());
    }
}

/// Returns the rank up to which a centroid that begins at rank `q` may reach.
fn reach(q: f64) -> f64 {
    let distance = RANK - q;
    // From below, the distance shrinks as the centroid grows: the part is of the remaining distance.
    let part = if distance > 0.0 { SLOPE / (1.0 + SLOPE) * distance } else { -SLOPE * distance };
    q + part.max(FINE)
}

/// Interpolates between the middles of two centroids.
fn between((w0, v0): (f64, f64), (w1, v1): (f64, f64), target: f64) -> f64 {
    v0 + (v1 - v0) * (target - w0) / (w1 - w0)
}

/// Stores unmerged values, too.
impl Field for Digest {
    fn put(&self, out: &mut Encoder) {
        self.half_life.put(out);
        self.centroids.put(out);
        self.buffer.put(out);
        self.merged.put(out);
    }

    fn take(from: &mut &[u8]) -> Option<Self> {
        let mut digest = Digest::new(f64::take(from)?);
        digest.centroids.append(&mut bounded(from, CENTROIDS)?);
        digest.buffer.append(&mut bounded(from, BUFFER)?);
        digest.merged = u64::take(from)?;
        let is_sorted = digest.centroids.is_sorted_by(|a, b| a.mean <= b.mean);
        // A duration, ns.
        let is_value = |value: &f32| value.is_finite() && *value > 0.0;
        let is_sound = |c: &Centroid| is_value(&c.mean) && (f32::MIN_POSITIVE..1e9).contains(&c.weight);
        let are_sound = digest.centroids.iter().all(is_sound) && digest.buffer.iter().all(is_value);
        (digest.half_life >= 1.0 && is_sorted && are_sound).then_some(digest)
    }
}

/// Reads a list of at most `most` items.
fn bounded<T: Field>(from: &mut &[u8], most: usize) -> Option<Vec<T>> {
    Vec::take(from).filter(|list: &Vec<T>| list.len() <= most)
}

#[cfg(test)]
mod tests {
    use recording::persisted::LIST_MAX;

    use super::*;
    use crate::testing::{Rng, allocated_bytes, rank_error};

    /// Feeds `count` values and compares p95 with the exact one of all of them, with and without old ones fading.
    #[track_caller]
    fn check(name: &str, count: usize, mut next: impl FnMut(&mut Rng) -> f64) {
        for (seed, half_life) in [(0, f64::INFINITY), (1, 4_096.0), (2, 512.0)] {
            let mut rng = Rng::new(seed);
            let mut digest = Digest::new(half_life);
            let values: Vec<f64> = (0..count).map(|_| next(&mut rng)).collect();
            values.iter().for_each(|v| {
                digest.add(*v);
            });
            digest.merge();
            let error = rank_error(&values, half_life, digest.quantile().unwrap(), RANK);
            // Of few values, one more or less is more than 1 %.
            let limit = 0.01_f64.max(1.0 / count as f64);
            assert!(error <= limit, "{name}, {count} values, half after {half_life}: off by {error:.4}");
        }
    }

    #[test]
    fn p95_is_p95_on_every_distribution() {
        for count in [10, 100, 1_000, 8_000] {
            check("uniform", count, |r| r.uniform(1.0, 2.0));
            check("normal", count, |r| 10.0 + r.normal());
            check("lognormal", count, |r| r.normal().exp());
            check("bimodal, half and half", count, |r| r.pick(0.5, 1.0, 10.0) * r.uniform(0.95, 1.05));
            check("bimodal, one in five", count, |r| r.pick(0.2, 10.0, 1.0) * r.uniform(0.95, 1.05));
            check("constant", count, |_| 25_000_001.0);
            check("few values", count, |r| (r.uniform(0.0, 4.0)).floor());
            check("within a tenth of a percent", count, |r| r.uniform(1e7, 1.001e7));
            check("heavy tail", count, |r| r.uniform(0.0, 1.0).powf(-1.0 / 1.1));
            check("exponential", count, |r| -r.uniform(1e-12, 1.0).ln());
        }
    }

    #[test]
    fn values_may_arrive_in_order() {
        let mut k = 0.0;
        let mut count = |by: f64| {
            k += by;
            k
        };
        for n in [1_000, 8_000] {
            check("ascending", n, |_| count(1.0));
            check("descending", n, |_| count(-1.0));
            check("sawtooth", n, |_| count(1.0).rem_euclid(700.0));
            check("sawtooth, reversed", n, |_| count(-1.0).rem_euclid(70.0));
        }
    }

    #[test]
    fn old_values_fade() {
        let mut digest = Digest::new(1024.0);
        let mut feed = |value: f64, times: usize| {
            (0..times).for_each(|_| {
                digest.add(value);
            });
            digest.quantile().unwrap()
        };
        assert_eq!(feed(100.0, 20_000), 100.0);
        assert!(feed(1.0, 4 * 1024) > 50.0, "a sixteenth of the weight is older");
        assert_eq!(feed(1.0, 1024), 1.0, "less than a twentieth is");
    }

    #[test]
    fn impossible_digests_are_refused() {
        let centroid = |mean| Centroid { mean, weight: 1.0 };
        let digest = |half_life, mean, value| Digest {
            half_life,
            centroids: vec![centroid(mean)],
            buffer: vec![value],
            merged: 1,
        };
        let is_taken = |digest: Digest| {
            let mut out = Encoder::new(LIST_MAX);
            digest.put(&mut out);
            Digest::take(&mut &out.bytes[..]).is_some()
        };
        assert!(is_taken(digest(1.0, 1.0, 1.0)) && is_taken(digest(f64::INFINITY, 1.0, 1.0)));
        for half_life in [0.5, 0.0, -1e-308, f64::NAN] {
            assert!(!is_taken(digest(half_life, 1.0, 1.0)), "half-life {half_life}");
        }
        for value in [0.0, -1.0, f32::INFINITY, f32::NAN] {
            assert!(!is_taken(digest(1.0, value, 1.0)) && !is_taken(digest(1.0, 1.0, value)), "{value}");
        }
    }

    #[test]
    fn a_stored_digest_is_restored_exactly() {
        let (mut digest, mut rng) = (Digest::new(1024.0), Rng::new(5));
        (0..1_000).for_each(|_| {
            digest.add(rng.normal().exp());
        });
        let mut out = Encoder::new(LIST_MAX);
        digest.put(&mut out);
        let mut again = Digest::take(&mut &out.bytes[..]).unwrap();
        for _ in 0..1_000 {
            let value = rng.normal().exp();
            assert_eq!(digest.add(value), again.add(value));
            assert_eq!(digest.quantile(), again.quantile());
        }
    }

    #[test]
    fn memory_does_not_grow() {
        let before = allocated_bytes();
        let mut digest = Digest::new(1024.0);
        let bytes = allocated_bytes() - before;
        let mut rng = Rng::new(1);
        (0..100_000).for_each(|_| {
            digest.add(rng.normal().exp());
        });
        (0..10_000).for_each(|k| {
            digest.add(f64::from(k));
        });
        assert_eq!(allocated_bytes() - before, bytes);
        assert!(bytes <= Digest::BYTES_MAX, "{bytes}");
    }

    #[test]
    fn an_empty_digest_has_no_quantile() {
        let mut digest = Digest::new(1024.0);
        assert_eq!(digest.quantile(), None);
        digest.add(3.0);
        assert_eq!(digest.quantile(), Some(3.0));
        digest.clear();
        assert_eq!(digest.quantile(), None);
    }
}
