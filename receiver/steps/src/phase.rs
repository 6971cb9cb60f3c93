//! Which phase a step belongs to, decided from its shape and never from its duration.
//!
//! Two ways to decide: [`Classifier::Adaptive`], which compares the steps of a stream with each other, and [`rules`],
//! thresholds that the user sets. Both answer with a [`Label`]: a phase, and how sure they are of it.

pub(crate) mod adaptive;
pub mod rules;

pub use semconv::value::GpuStepPhase as Phase;

pub use self::rules::{Rules, RulesError, Thresholds};

use self::adaptive::Clusters;
use crate::shape::Shape;

/// A label less sure than this says nothing: the phase is unknown.
pub(crate) const CONFIDENCE_MIN: f64 = 0.6;

/// A phase, and how sure it is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Label {
    /// The phase.
    pub phase: Phase,
    /// The probability that it is right, as far as can be told from outside; 0 where nothing can.
    pub confidence: f64,
}

impl Label {
    pub(crate) const UNKNOWN: Label = Label { phase: Phase::Unknown, confidence: 0.0 };
}

/// How phases are told apart.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Classifier {
    /// By comparing the steps of a stream with each other.
    #[default]
    Adaptive,
    /// By thresholds.
    Rules(Rules),
}

/// The classifier of one stream.
#[derive(Clone, Debug)]
pub(crate) enum StreamClassifier {
    /// `None` before the first step that has a phase: side streams have none.
    Adaptive(Option<Box<Clusters>>),
    Rules(Rules),
}

impl StreamClassifier {
    pub(crate) fn new(classifier: &Classifier) -> StreamClassifier {
        match classifier {
            Classifier::Adaptive => StreamClassifier::Adaptive(None),
            Classifier::Rules(rules) => StreamClassifier::Rules(*rules),
        }
    }

    /// Labels the stream's next step.
    pub(crate) fn label(&mut self, shape: &Shape) -> Label {
        match self {
            _ if !shape.has_phase() => Label::UNKNOWN,
            StreamClassifier::Adaptive(clusters) => clusters.get_or_insert_default().label(shape),
            StreamClassifier::Rules(rules) => rules.label(shape),
        }
    }

    /// The graph with this fingerprint is another from here on, or is gone.
    pub(crate) fn forget_graph(&mut self, graph: u64) {
        if let StreamClassifier::Adaptive(Some(clusters)) = self {
            clusters.forget_graph(graph);
        }
    }

    /// Clusters forgotten to make room for others.
    pub(crate) fn evicted(&self) -> u64 {
        self.clusters().map_or(0, Clusters::evicted)
    }

    /// Bytes held beside the struct itself.
    pub(crate) fn heap_bytes(&self) -> usize {
        self.clusters().map_or(0, |clusters| size_of::<Clusters>() + clusters.heap_bytes())
    }

    fn clusters(&self) -> Option<&Clusters> {
        match self {
            StreamClassifier::Adaptive(clusters) => clusters.as_deref(),
            StreamClassifier::Rules(_) => None,
        }
    }
}
