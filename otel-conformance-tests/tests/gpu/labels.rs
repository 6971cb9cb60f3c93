//! Labels that a program gives to its own steps, and their agreement with the steps of an agent that traced it.
//!
//! A label is a time in which one step was enqueued and waited for. A step belongs to the label that contains it; a
//! label must contain exactly one step, of its phase. Phases are scored as in the labelled evaluation of `steps`:
//! F1 for each class, and the number of confident mistakes.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::Path;

use serde::Deserialize;
use simulator::oracle::{Line, read};

/// Number of first labels whose phase is not compared, because the classifier has too few steps.
const FIRST: usize = 16;
/// Minimum confidence of a confident phase.
const CONFIDENT: f64 = 0.9;

/// A step as labelled by the program. Times are CLOCK_MONOTONIC ns, before the first call and after the last.
#[derive(Clone, Debug, Deserialize)]
pub struct Label {
    pub phase: String,
    pub start_ns: u64,
    pub end_ns: u64,
}

/// A step as listed by `warptap replay --steps`.
#[derive(Clone, Debug, Deserialize)]
pub struct Seen {
    pub start_ns: u64,
    pub end_ns: u64,
    pub phase: String,
    pub confidence: f64,
    pub is_unfinished: bool,
    pub launches: u64,
    pub graph_launches: u64,
}

/// Decodes lines of JSON.
pub fn lines<T: for<'de> Deserialize<'de>>(path: &Path) -> Vec<T> {
    let text = std::fs::read_to_string(path).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap_or_else(|e| panic!("{line}: {e}"))).collect()
}

/// Returns the steps in the log of the stub player.
pub fn of_player(oracle: &Path) -> Vec<Label> {
    let label = |line| match line {
        Line::Step(s) => Some(Label { phase: s.phase, start_ns: s.first_ns, end_ns: s.exit_ns }),
        _ => None,
    };
    read(oracle).unwrap().into_iter().filter_map(label).collect()
}

/// The agreement of labels and steps.
#[derive(Debug, Default)]
pub struct Agreement {
    pub labels: usize,
    /// Labels with exactly one step.
    pub matched: usize,
    /// Steps without a label.
    pub unlabelled: usize,
    pub confident_mistakes: usize,
    /// Number of matched steps by labelled and inferred phase.
    pairs: BTreeMap<(String, String), usize>,
    /// Launches and graph launches of matched steps, by labelled phase.
    work: BTreeMap<String, (u64, u64)>,
}

impl Agreement {
    pub fn of(labels: &[Label], seen: &[Seen]) -> Agreement {
        let mut agreement = Agreement { labels: labels.len(), ..Agreement::default() };
        let mut inside = 0;
        for (number, label) in labels.iter().enumerate() {
            let is_in = |s: &&Seen| s.start_ns >= label.start_ns && s.end_ns <= label.end_ns;
            let of_label: Vec<&Seen> = seen.iter().filter(|s| !s.is_unfinished).filter(is_in).collect();
            inside += of_label.len();
            let [step] = of_label.as_slice() else { continue };
            agreement.matched += 1;
            if number >= FIRST {
                agreement.phase(label, step);
            }
        }
        agreement.unlabelled = seen.iter().filter(|s| !s.is_unfinished).count() - inside;
        agreement
    }

    fn phase(&mut self, label: &Label, step: &Seen) {
        let is_mistake = step.phase != label.phase && step.confidence >= CONFIDENT;
        self.confident_mistakes += usize::from(is_mistake);
        *self.pairs.entry((label.phase.clone(), step.phase.clone())).or_default() += 1;
        let work = self.work.entry(label.phase.clone()).or_default();
        *work = (work.0 + step.launches, work.1 + step.graph_launches);
    }

    /// Returns the mean, over the labelled phases, of the harmonic mean of precision and recall.
    pub fn macro_f1(&self) -> f64 {
        let phases: BTreeSet<&String> = self.pairs.keys().map(|(labelled, _)| labelled).collect();
        phases.iter().map(|phase| self.f1(phase)).sum::<f64>() / (phases.len() as f64).max(1.0)
    }

    fn f1(&self, phase: &str) -> f64 {
        let count = |is: &dyn Fn(&str, &str) -> bool| -> usize {
            self.pairs.iter().filter(|((labelled, found), _)| is(labelled, found)).map(|(_, n)| n).sum()
        };
        let right = count(&|labelled, found| labelled == phase && found == phase);
        let named = count(&|labelled, found| labelled == phase || found == phase);
        2.0 * right as f64 / ((named + right) as f64).max(1.0)
    }
}

impl fmt::Display for Agreement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{} of {} steps found, {} not labelled", self.matched, self.labels, self.unlabelled)?;
        for ((labelled, found), count) in &self.pairs {
            writeln!(f, "  {labelled:<8} found as {found:<8} {count:>6}")?;
        }
        for (phase, (launches, graphs)) in &self.work {
            let count: usize =
                self.pairs.iter().filter(|((labelled, _), _)| labelled == phase).map(|(_, n)| n).sum();
            let mean = |sum: u64| sum as f64 / count as f64;
            writeln!(f, "  a {phase} launches {:.1} kernels, {:.1} graphs", mean(*launches), mean(*graphs))?;
        }
        write!(f, "  macro-F1 {:.3}, {} confident mistakes", self.macro_f1(), self.confident_mistakes)
    }
}

#[test]
fn labels_without_a_step_and_wrong_phases_are_counted() {
    let label = |phase: &str, start_ns| Label { phase: phase.to_owned(), start_ns, end_ns: start_ns + 10 };
    let seen = |phase: &str, start_ns, confidence| Seen {
        start_ns,
        end_ns: start_ns + 5,
        phase: phase.to_owned(),
        confidence,
        is_unfinished: false,
        launches: 7,
        graph_launches: 0,
    };
    let first = (0..FIRST as u64).map(|number| label("decode", 100 + 20 * number));
    let judged = [label("decode", 0), label("decode", 20), label("prefill", 40), label("prefill", 60)];
    let labels: Vec<Label> = first.chain(judged).collect();
    let steps = [
        seen("decode", 2, 0.99),
        seen("prefill", 21, 0.95),
        seen("prefill", 41, 0.5),
        seen("prefill", 43, 0.5),
        seen("unknown", 52, 0.0),
    ];
    let found = Agreement::of(&labels, &steps);
    assert_eq!((found.labels, found.matched, found.unlabelled, found.confident_mistakes), (20, 2, 1, 1));
    // One of two decodes was inferred as such, and no other step: precision 1, recall 1/2.
    assert!((found.macro_f1() - 2.0 / 3.0).abs() < 1e-9, "{found}");
}
