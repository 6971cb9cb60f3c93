//! The classification of steps into phases by their shape, never by their duration.
//!
//! There are two classifiers: [`Classifier::Adaptive`] compares the steps of a stream with each other, and [`rules`] are
//! thresholds that the user sets. Both return a [`PhaseLabel`]: a phase with a confidence.

pub(crate) mod adaptive;
mod calibration;
pub(crate) mod combine;
pub(crate) mod names;
pub mod rules;

pub use semconv::value::GpuStepPhase as Phase;

pub use self::rules::{Rules, RulesError, Thresholds};

use self::adaptive::Clusters;
use self::names::Facts;
use crate::shape::Shape;

/// The confidence below which the phase is unknown.
pub(crate) const CONFIDENCE_MIN: f64 = 0.6;

/// A phase with a confidence.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PhaseLabel {
    /// Inferred phase of the step.
    pub phase: Phase,
    /// The estimated probability that the phase is right; 0 without evidence. Calibrated for reported steps.
    pub confidence: f64,
}

impl PhaseLabel {
    pub(crate) const UNKNOWN: PhaseLabel = PhaseLabel { phase: Phase::Unknown, confidence: 0.0 };

    /// Returns the label, unknown if its confidence is below `min_confidence`.
    pub(crate) fn or_unknown(self, min_confidence: f64) -> PhaseLabel {
        match self.confidence < min_confidence {
            true => PhaseLabel { phase: Phase::Unknown, ..self },
            false => self,
        }
    }
}

/// What the user says of a process.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Hint {
    /// It trains: its steps are iterations.
    Training,
    /// It generates tokens: its steps are prefills, decodes and mixed steps.
    Inference,
    /// It runs models that generate no tokens.
    Forward,
}

impl Hint {
    /// The attribute by which a process says it of itself.
    pub const ATTRIBUTE: &'static str = "warptap.workload";

    /// Returns the hint of this name.
    pub fn of(name: &str) -> Option<Hint> {
        let hints =
            [("training", Hint::Training), ("inference", Hint::Inference), ("forward", Hint::Forward)];
        hints.into_iter().find(|(known, _)| *known == name).map(|(_, hint)| hint)
    }
}

/// The classifier of phases.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Classifier {
    /// Compares the steps of a stream with each other.
    #[default]
    Adaptive,
    /// Compares a step with thresholds.
    Rules(Rules),
    /// No classification: every phase is unknown.
    None,
}

/// The classifier of one stream.
#[derive(Clone, Debug)]
pub(crate) enum StreamClassifier {
    /// `None` before the first step with a phase: side streams have none.
    Adaptive(Option<Box<Clusters>>),
    Rules(Rules),
    None,
}

impl StreamClassifier {
    pub(crate) fn new(classifier: &Classifier) -> StreamClassifier {
        match classifier {
            Classifier::Adaptive => StreamClassifier::Adaptive(None),
            Classifier::Rules(rules) => StreamClassifier::Rules(*rules),
            Classifier::None => StreamClassifier::None,
        }
    }

    /// Returns the label of the stream's next step.
    pub(crate) fn label(&mut self, shape: &Shape, facts: Facts<'_>) -> PhaseLabel {
        match self {
            _ if !shape.has_phase() => PhaseLabel::UNKNOWN,
            StreamClassifier::None => PhaseLabel::UNKNOWN,
            StreamClassifier::Adaptive(clusters) => clusters.get_or_insert_default().label(shape, facts),
            StreamClassifier::Rules(rules) => rules.label(shape),
        }
    }

    /// Discards what is known of the graph with this fingerprint, which was updated or destroyed.
    pub(crate) fn change_graph(&mut self, graph: u64) {
        if let StreamClassifier::Adaptive(Some(clusters)) = self {
            clusters.change_graph(graph);
        }
    }

    /// Returns the number of clusters evicted.
    pub(crate) fn evicted(&self) -> u64 {
        self.clusters().map_or(0, Clusters::evicted)
    }

    fn clusters(&self) -> Option<&Clusters> {
        match self {
            StreamClassifier::Adaptive(clusters) => clusters.as_deref(),
            StreamClassifier::Rules(_) | StreamClassifier::None => None,
        }
    }
}
