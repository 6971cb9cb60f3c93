//! Phases by thresholds that the user sets. Thresholds are validated once, as [`Rules`].

use crate::phase::{Phase, PhaseLabel};
use crate::shape::{Form, Shape};

/// The confidence in a phase by a rule.
const BY_RULE: f64 = 0.9;
/// The confidence in a mixed phase: prompts with decodes have the shape of prompts alone.
const EITHER: f64 = 0.6;

/// The thresholds of phases.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Thresholds {
    /// The most graph launches of a decode by graphs.
    pub decode_graph_launches_max: u64,
    /// The most threads per launch of any other decode.
    pub decode_threads_per_launch_max: u64,
    /// The fewest threads per launch of a prefill, or of a mixed step if it launches graphs. Between the two: unknown.
    pub prefill_threads_per_launch_min: u64,
}

impl Default for Thresholds {
    fn default() -> Self {
        Thresholds {
            decode_graph_launches_max: 8,
            decode_threads_per_launch_max: 65_536,
            prefill_threads_per_launch_min: 196_608,
        }
    }
}

/// The error of invalid thresholds.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub enum RulesError {
    /// A step could be both a decode and a prefill.
    #[error(
        "decode_threads_per_launch_max is {decode_max} and prefill_threads_per_launch_min is {prefill_min}: \
         expected the first to be below the second"
    )]
    Order {
        /// Value of [`Thresholds::decode_threads_per_launch_max`].
        decode_max: u64,
        /// Value of [`Thresholds::prefill_threads_per_launch_min`].
        prefill_min: u64,
    },
}

/// Validated thresholds.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Rules(Thresholds);

impl TryFrom<Thresholds> for Rules {
    type Error = RulesError;

    fn try_from(thresholds: Thresholds) -> Result<Rules, RulesError> {
        let decode_max = thresholds.decode_threads_per_launch_max;
        let prefill_min = thresholds.prefill_threads_per_launch_min;
        match decode_max < prefill_min {
            true => Ok(Rules(thresholds)),
            false => Err(RulesError::Order { decode_max, prefill_min }),
        }
    }
}

impl Rules {
    pub(crate) fn label(&self, shape: &Shape) -> PhaseLabel {
        let (phase, confidence) = self.decide(shape);
        PhaseLabel { phase, confidence }
    }

    fn decide(&self, shape: &Shape) -> (Phase, f64) {
        let per_launch = shape.threads_per_launch();
        let has_graphs = shape.graph_launches > 0;
        match shape.form {
            Form::Copies => (Phase::Unknown, 0.0),
            _ if has_graphs && shape.graph_launches <= self.0.decode_graph_launches_max => {
                (Phase::Decode, BY_RULE)
            }
            _ if per_launch <= self.0.decode_threads_per_launch_max as f64 => (Phase::Decode, BY_RULE),
            _ if per_launch < self.0.prefill_threads_per_launch_min as f64 => (Phase::Unknown, 0.0),
            _ if has_graphs => (Phase::Mixed, EITHER),
            _ => (Phase::Prefill, BY_RULE),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shape::StepWork;
    use probe_abi::fold::Counter;

    #[track_caller]
    fn check(launches: u64, graphs: u64, threads_per_launch: u64, expected: Phase) {
        let mut work = StepWork::default();
        work.0[Counter::Launches as usize] = launches;
        work.0[Counter::GraphLaunches as usize] = graphs;
        work.0[Counter::Threads as usize] = launches * threads_per_launch;
        assert_eq!(Rules::default().label(&Shape::of(&work)).phase, expected);
    }

    #[test]
    fn thresholds_decide() {
        check(0, 0, 0, Phase::Unknown);
        check(4, 1, 7_000_000, Phase::Decode);
        check(700, 0, 33_000, Phase::Decode);
        check(700, 0, 65_536, Phase::Decode);
        check(700, 0, 100_000, Phase::Unknown);
        check(768, 0, 390_000, Phase::Prefill);
        check(52, 25, 3_400_000, Phase::Mixed);
        check(52, 25, 30_000, Phase::Decode);
    }

    #[test]
    fn invalid_thresholds_are_refused_with_both_values() {
        let wrong = Thresholds {
            decode_threads_per_launch_max: 9,
            prefill_threads_per_launch_min: 9,
            ..Thresholds::default()
        };
        assert_eq!(
            Rules::try_from(wrong).unwrap_err().to_string(),
            "decode_threads_per_launch_max is 9 and prefill_threads_per_launch_min is 9: expected the first to be \
             below the second"
        );
        assert!(Rules::try_from(Thresholds::default()).is_ok());
    }
}
