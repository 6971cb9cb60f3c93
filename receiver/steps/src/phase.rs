//! Which phase a step belongs to, decided from its shape and never from its duration.
//!
//! Two ways to decide: [`Classifier::Adaptive`], which compares the steps of a stream with each other, and [`rules`],
//! thresholds that the user sets. Both answer with a [`Label`]: a phase, and how sure they are of it.

pub(crate) mod adaptive;
pub mod rules;

pub use self::rules::{Rules, RulesError, Thresholds};

use self::adaptive::Clusters;
use crate::shape::Shape;

/// A label less sure than this says nothing: the phase is unknown.
pub(crate) const CONFIDENCE_MIN: f64 = 0.6;

/// What a step is for.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub enum Phase {
    /// Reads prompts.
    Prefill,
    /// Makes one token, or a few, for each request.
    Decode,
    /// Reads prompts and makes tokens.
    Mixed,
    /// Cannot be told.
    #[default]
    Unknown,
    /// An iteration of training.
    Train,
}

impl Phase {
    /// Every phase, in the order of their declaration.
    pub const ALL: [Phase; 5] = [Phase::Prefill, Phase::Decode, Phase::Mixed, Phase::Unknown, Phase::Train];

    /// The phase as an attribute value.
    pub const fn name(self) -> &'static str {
        match self {
            Phase::Prefill => "prefill",
            Phase::Decode => "decode",
            Phase::Mixed => "mixed",
            Phase::Unknown => "unknown",
            Phase::Train => "train",
        }
    }
}

/// A phase, and how sure it is.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Label {
    /// The phase.
    pub phase: Phase,
    /// The probability that it is right, as far as can be told from outside; 0 where nothing can.
    pub confidence: f64,
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
            _ if !shape.has_phase() => Label::default(),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_the_attribute() {
        assert_eq!(Phase::ALL.map(Phase::name), ["prefill", "decode", "mixed", "unknown", "train"]);
    }
}
