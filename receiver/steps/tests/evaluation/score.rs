//! The comparison of labels with the truth.
//!
//! Unknown is neither a right nor a wrong label: it costs recall, not precision. Prefill and mixed steps are one class,
//! *reads*: both read prompts, and their shapes hardly differ.

use std::fmt;

use steps::{Phase, Step};

/// The confidence from which a mistake is a confident one.
pub const CONFIDENT: f64 = 0.9;
/// The lower bounds of buckets of confidence.
pub const BUCKETS: [f64; 6] = [0.0, 0.6, 0.7, 0.8, 0.9, 0.95];

/// The classes that are scored.
pub const CLASSES: [&str; 4] = ["reads", "decode", "train", "forward"];

fn class(phase: Phase) -> Option<usize> {
    match phase {
        Phase::Prefill | Phase::Mixed => Some(0),
        Phase::Decode => Some(1),
        Phase::Train => Some(2),
        Phase::Forward => Some(3),
        Phase::Unknown => None,
    }
}

/// Counts of steps by truth and label.
#[derive(Clone, Copy, Debug, Default)]
pub struct Score {
    /// Steps by true phase and label, in the order of [`Phase::ALL`].
    pub matrix: [[u64; 6]; 6],
    /// Right and all labelled steps, by [`BUCKETS`].
    pub buckets: [(u64, u64); BUCKETS.len()],
    confident_mistakes: u64,
    /// Reported steps with an end that is not one.
    pub misplaced: u64,
}

impl Score {
    /// Adds a step.
    pub fn add(&mut self, truth: Phase, step: &Step) {
        self.matrix[truth as usize][step.phase as usize] += 1;
        if step.phase == Phase::Unknown {
            return;
        }
        let is_right = class(truth) == class(step.phase);
        let at = BUCKETS.iter().rposition(|from| step.confidence >= *from).unwrap_or(0);
        self.buckets[at].0 += u64::from(is_right);
        self.buckets[at].1 += 1;
        self.confident_mistakes += u64::from(!is_right && step.confidence >= CONFIDENT);
    }

    pub fn join(&mut self, other: &Score) {
        for (row, more) in self.matrix.iter_mut().flatten().zip(other.matrix.iter().flatten()) {
            *row += more;
        }
        for (bucket, more) in self.buckets.iter_mut().zip(other.buckets) {
            *bucket = (bucket.0 + more.0, bucket.1 + more.1);
        }
        self.confident_mistakes += other.confident_mistakes;
        self.misplaced += other.misplaced;
    }

    pub fn steps(&self) -> u64 {
        self.matrix.iter().flatten().sum()
    }

    /// Returns the share of steps labelled unknown.
    pub fn unknown(&self) -> f64 {
        share(self.matrix.iter().map(|row| row[Phase::Unknown as usize]).sum(), self.steps())
    }

    /// Returns the share of steps labelled as another class.
    pub fn wrong(&self) -> f64 {
        let (right, said) = self.buckets.iter().fold((0, 0), |sum, b| (sum.0 + b.0, sum.1 + b.1));
        share(said - right, self.steps())
    }

    /// Returns the share of steps labelled as another class with confidence.
    pub fn confident_mistakes(&self) -> f64 {
        share(self.confident_mistakes, self.steps())
    }

    /// Returns precision and recall of a class; `None` if it never occurs.
    pub fn of_class(&self, at: usize) -> Option<(f64, f64)> {
        let (mut hits, mut said, mut are) = (0, 0, 0);
        for (truth, label, count) in self.cells() {
            let (is, is_said) = (class(truth) == Some(at), class(label) == Some(at));
            hits += if is && is_said { count } else { 0 };
            said += if is_said { count } else { 0 };
            are += if is { count } else { 0 };
        }
        (are > 0).then(|| (if said == 0 { 0.0 } else { share(hits, said) }, share(hits, are)))
    }

    /// Returns the share of steps labelled right among prefill and mixed steps labelled as either.
    pub fn distinguished(&self) -> Option<f64> {
        let at = |truth: Phase, label: Phase| self.matrix[truth as usize][label as usize];
        let right = at(Phase::Prefill, Phase::Prefill) + at(Phase::Mixed, Phase::Mixed);
        let all = right + at(Phase::Prefill, Phase::Mixed) + at(Phase::Mixed, Phase::Prefill);
        (all > 0).then(|| share(right, all))
    }

    /// Returns the mean F1 of the classes that occur.
    pub fn macro_f1(&self) -> f64 {
        let of: Vec<f64> = (0..CLASSES.len()).filter_map(|at| self.of_class(at)).map(f1).collect();
        of.iter().sum::<f64>() / of.len().max(1) as f64
    }

    fn cells(&self) -> impl Iterator<Item = (Phase, Phase, u64)> + '_ {
        let row = |truth: Phase| {
            Phase::ALL.map(|label| (truth, label, self.matrix[truth as usize][label as usize]))
        };
        Phase::ALL.into_iter().flat_map(row)
    }
}

impl fmt::Display for Score {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (f1, unknown, wrong) = (self.macro_f1(), self.unknown(), self.wrong());
        let mistakes = self.confident_mistakes;
        write!(f, "macro-F1 {f1:.4}, unknown {unknown:.4}, wrong {wrong:.4}, {mistakes} confident mistakes")
    }
}

fn f1((precision, recall): (f64, f64)) -> f64 {
    if precision + recall == 0.0 { 0.0 } else { 2.0 * precision * recall / (precision + recall) }
}

fn share(part: u64, all: u64) -> f64 {
    part as f64 / all.max(1) as f64
}
