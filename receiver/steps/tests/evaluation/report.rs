//! The report as text.

use std::collections::BTreeMap;
use std::fmt;

use steps::Phase;

use crate::score::{BUCKETS, CLASSES, Score};
use crate::workloads::Set;

/// Scores by set and workload.
#[derive(Debug, Default)]
pub struct Report {
    workloads: BTreeMap<(Set, &'static str), Row>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Row {
    score: Score,
    /// The lowest macro-F1 of a seed, and the seed.
    worst: Option<(f64, u64)>,
    bytes: usize,
}

impl Report {
    pub fn add(&mut self, set: Set, name: &'static str, seed: u64, score: Score, bytes: usize) {
        let row = self.workloads.entry((set, name)).or_default();
        row.score.join(&score);
        row.bytes = row.bytes.max(bytes);
        let f1 = score.macro_f1();
        if row.worst.is_none_or(|worst| f1 < worst.0) {
            row.worst = Some((f1, seed));
        }
    }

    /// Returns the score of a whole set.
    pub fn of_set(&self, set: Set) -> Score {
        let mut sum = Score::default();
        self.rows(set).for_each(|(_, row)| sum.join(&row.score));
        sum
    }

    /// Returns the most bytes that the engine allocated for one program.
    pub fn bytes_max(&self) -> usize {
        self.workloads.values().map(|row| row.bytes).max().unwrap_or(0)
    }

    fn rows(&self, set: Set) -> impl Iterator<Item = (&'static str, &Row)> {
        self.workloads.iter().filter(move |(key, _)| key.0 == set).map(|(key, row)| (key.1, row))
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for set in Set::ALL {
            writeln!(f, "\n{set:?}: {}", set.about())?;
            let heads = ["steps", "macro-F1", "(worst seed)", "reads", "decode", "train", "forward"];
            let [steps, f1, worst, reads, decode, train, forward] = heads;
            write!(
                f,
                "  {:<50} {steps:>6} {f1:>8} {worst:>14} {reads:>11} {decode:>11} {train:>11} {forward:>11}",
                ""
            )?;
            writeln!(f, " unknown % wrong % misplaced  bytes")?;
            self.rows(set).try_for_each(|(name, row)| row.write(name, f))?;
            summary(&self.of_set(set), f)?;
        }
        Ok(())
    }
}

impl Row {
    fn write(&self, name: &str, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (score, (worst, seed)) = (&self.score, self.worst.unwrap_or_default());
        let worst = format!("({worst:.3} {seed})");
        write!(f, "  {name:<50} {:>6} {:>8.4} {worst:>14}", score.steps(), score.macro_f1())?;
        for at in 0..CLASSES.len() {
            let both = score.of_class(at).map(|(precision, recall)| format!("{precision:.3}/{recall:.3}"));
            write!(f, " {:>11}", both.unwrap_or_default())?;
        }
        let (unknown, wrong) = (100.0 * score.unknown(), 100.0 * score.wrong());
        writeln!(f, " {unknown:>9.2} {wrong:>7.2} {:>9} {:>6}", score.misplaced, self.bytes)
    }
}

fn summary(score: &Score, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let names = Phase::ALL.map(Phase::as_str);
    writeln!(
        f,
        "  {:<10}{}   (row: truth, column: label)",
        "",
        names.map(|name| format!("{name:>10}")).concat()
    )?;
    for (name, row) in names.iter().zip(&score.matrix).filter(|(_, row)| row.iter().any(|n| *n > 0)) {
        writeln!(f, "  {name:<10}{}", row.map(|count| format!("{count:>10}")).concat())?;
    }
    for (at, class) in CLASSES.iter().enumerate() {
        if let Some((precision, recall)) = score.of_class(at) {
            writeln!(f, "  {class:<7} precision {precision:.4}, recall {recall:.4}")?;
        }
    }
    writeln!(f, "  {score}")?;
    if let Some(share) = score.distinguished() {
        writeln!(f, "  prefill and mixed distinguished: {share:.4}")?;
    }
    for (from, (right, all)) in BUCKETS.iter().zip(score.buckets).filter(|(_, b)| b.1 > 0) {
        writeln!(f, "  confidence from {from:.2}: {all:>7} steps, {:.4} right", right as f64 / all as f64)?;
    }
    Ok(())
}
