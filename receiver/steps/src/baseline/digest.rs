//! Quantiles of a stream of numbers in fixed memory: a merging t-digest whose weights decay.
//!
//! The one idea: keep *ranks*, not buckets of values. Neighbouring values are merged into centroids whose weight
//! is small near the ends of the distribution and larger in the middle (Dunning and Ertl, "Computing extremely
//! accurate quantiles using t-digests", scale function k1). A bucket of fixed relative width cannot hold p95 to
//! 1 % of rank when all values lie within that width; a centroid can. Equal values stay exactly that value.
//!
//! Older values weigh less, by half every so many values. Cost: a stable sort of nearly sorted
//! centroids every [`BUFFER`] values.

use std::f64::consts::PI;

/// The scale of k1: at most about this many centroids, and at p95 one covers 0.9 % of the rank.
const COMPRESSION: f64 = 160.0;
/// Centroids kept. Two neighbours together span more than a unit of k1, and there are `COMPRESSION / 2` units.
pub(super) const CENTROIDS: usize = COMPRESSION as usize + 2;
/// Values that wait to be merged, at most.
pub(super) const BUFFER: usize = 32;

#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Centroid {
    mean: f64,
    weight: f64,
}

/// A sketch of a distribution.
#[derive(Clone, Debug)]
pub(super) struct Digest {
    half_life: f64,
    centroids: Vec<Centroid>,
    buffer: Vec<f64>,
    merged: u64,
}

impl Digest {
    /// An empty digest in which a value weighs half after `half_life` more. All its memory is taken here.
    pub(super) fn new(half_life: f64) -> Digest {
        Digest {
            half_life,
            // A merge sorts the new values in with the old centroids.
            centroids: Vec::with_capacity(CENTROIDS + BUFFER),
            buffer: Vec::with_capacity(BUFFER),
            merged: 0,
        }
    }

    /// Forgets everything and keeps the memory.
    pub(super) fn clear(&mut self) {
        self.centroids.clear();
        self.buffer.clear();
        self.merged = 0;
    }

    /// Takes a value in. Returns true where [`Digest::quantile`] may answer differently from here on.
    pub(super) fn add(&mut self, value: f64) -> bool {
        self.buffer.push(value);
        // Few values: merge each, so that the answer is exact. Many: one more hardly matters.
        let patience = (self.merged as usize / 16).clamp(1, BUFFER);
        let is_due = self.buffer.len() >= patience;
        if is_due {
            self.merge();
        }
        is_due
    }

    /// The value at rank `q` (0 to 1) of the values merged so far; `None` where there is none.
    pub(super) fn quantile(&self, q: f64) -> Option<f64> {
        let total: f64 = self.centroids.iter().map(|c| c.weight).sum();
        let target = q.clamp(0.0, 1.0) * total;
        let mut before = 0.0;
        let mut left: Option<(f64, f64)> = None;
        for c in &self.centroids {
            let middle = before + c.weight / 2.0;
            if target <= middle {
                return Some(left.map_or(c.mean, |l| between(l, (middle, c.mean), target)));
            }
            left = Some((middle, c.mean));
            before += c.weight;
        }
        left.map(|(_, mean)| mean)
    }

    /// Bytes held beside the struct itself.
    pub(super) fn heap_bytes(&self) -> usize {
        self.centroids.capacity() * size_of::<Centroid>() + self.buffer.capacity() * size_of::<f64>()
    }

    fn merge(&mut self) {
        let fade = (-(self.buffer.len() as f64) / self.half_life).exp2();
        self.centroids.iter_mut().for_each(|c| c.weight *= fade);
        self.merged += self.buffer.len() as u64;
        self.centroids.extend(self.buffer.drain(..).map(|mean| Centroid { mean, weight: 1.0 }));
        // Stable: equal means stay in the order they came.
        self.centroids.sort_by(|a, b| a.mean.total_cmp(&b.mean));
        self.compress();
    }

    /// Joins neighbours for as long as the joint centroid spans at most one unit of k1.
    fn compress(&mut self) {
        let total: f64 = self.centroids.iter().map(|c| c.weight).sum();
        let mut kept = 0;
        let mut before = 0.0;
        let mut limit = rank_limit(0.0);
        for at in 1..self.centroids.len() {
            let next = self.centroids[at];
            let last = &mut self.centroids[kept];
            let joint = last.weight + next.weight;
            if (before + joint) / total <= limit {
                last.mean += (next.mean - last.mean) * next.weight / joint;
                last.weight = joint;
                continue;
            }
            before += last.weight;
            limit = rank_limit(before / total);
            kept += 1;
            self.centroids[kept] = next;
        }
        self.centroids.truncate(kept + 1);
        debug_assert!(self.centroids.len() <= CENTROIDS, "{} centroids", self.centroids.len());
    }
}

/// How far a centroid that begins at rank `q` may reach: one unit further on k1.
fn rank_limit(q: f64) -> f64 {
    let angle = (2.0 * q - 1.0).clamp(-1.0, 1.0).asin() + 2.0 * PI / COMPRESSION;
    match angle >= PI / 2.0 {
        true => 1.0,
        false => f64::midpoint(angle.sin(), 1.0),
    }
}

/// Linear between two centroids' middles.
fn between((w0, v0): (f64, f64), (w1, v1): (f64, f64), target: f64) -> f64 {
    v0 + (v1 - v0) * (target - w0) / (w1 - w0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Rng, rank_error};

    /// Feeds `count` values and compares p90, p95 and p99 with the exact quantiles of all of them.
    #[track_caller]
    fn check(name: &str, count: usize, mut next: impl FnMut(&mut Rng) -> f64) {
        for seed in 0..3 {
            let mut rng = Rng::new(seed);
            let mut digest = Digest::new(f64::INFINITY);
            let mut values: Vec<f64> = (0..count).map(|_| next(&mut rng)).collect();
            values.iter().for_each(|v| {
                digest.add(*v);
            });
            digest.merge();
            values.sort_by(f64::total_cmp);
            for q in [0.9, 0.95, 0.99] {
                let error = rank_error(&values, digest.quantile(q).unwrap(), q);
                // Of few values, one more or less is more than 1 %.
                let limit = 0.01_f64.max(1.0 / count as f64);
                assert!(error <= limit, "{name}, {count} values, seed {seed}, q {q}: off by {error:.4}");
            }
        }
    }

    #[test]
    fn p95_is_p95_on_every_distribution() {
        for count in [10, 100, 1_000, 8_000] {
            check("uniform", count, |r| r.uniform(1.0, 2.0));
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
    fn values_in_order_are_as_good_as_shuffled_ones() {
        let mut k = 0.0;
        check("ascending", 1_000, |_| {
            k += 1.0;
            k
        });
        check("descending", 1_000, |_| {
            k -= 1.0;
            k
        });
    }

    #[test]
    fn old_values_fade() {
        let mut digest = Digest::new(1024.0);
        (0..20_000).for_each(|_| {
            digest.add(100.0);
        });
        (0..4 * 1024).for_each(|_| {
            digest.add(1.0);
        });
        assert_eq!(digest.quantile(0.9), Some(1.0));
        assert!(digest.quantile(0.99).unwrap() > 50.0);
    }

    #[test]
    fn memory_stays_what_it_was_at_the_start() {
        let mut digest = Digest::new(1024.0);
        let bytes = digest.heap_bytes();
        let mut rng = Rng::new(1);
        (0..100_000).for_each(|_| {
            digest.add(rng.normal().exp());
        });
        (0..10_000).for_each(|k| {
            digest.add(f64::from(k));
        });
        assert_eq!(digest.heap_bytes(), bytes);
        assert!(bytes <= 4 * 1024, "{bytes}");
    }

    #[test]
    fn an_empty_digest_has_no_quantile() {
        let mut digest = Digest::new(1024.0);
        assert_eq!(digest.quantile(0.5), None);
        digest.add(3.0);
        assert_eq!((digest.quantile(0.0), digest.quantile(1.0)), (Some(3.0), Some(3.0)));
        digest.clear();
        assert_eq!(digest.quantile(0.5), None);
    }
}
