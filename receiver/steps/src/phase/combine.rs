//! The label of a step from all evidence: its kernels, its shape, the mode of its process, and what the user says.
//!
//! Three questions are answered in turn: does it train, does it generate tokens, does it decode. The probability of a
//! phase is the product of the answers. A question with much evidence on both sides makes the phase unknown.

use crate::mode::Mode;
use crate::phase::names::{NameEvidence, Odds};
use crate::phase::{Hint, Phase, PhaseLabel, calibration};

/// The largest confidence if the evidence of the kernels contradicts itself.
const DISPUTED_MAX: f64 = 0.55;

/// Returns the label of a step. `reading` is the label by shape and kernels among the phases of inference.
pub(crate) fn label(
    names: Option<&NameEvidence>,
    mode: Mode,
    hint: Option<Hint>,
    reading: impl FnOnce() -> PhaseLabel,
) -> PhaseLabel {
    match hint {
        Some(Hint::Training) => return PhaseLabel { phase: Phase::Train, confidence: 1.0 },
        Some(Hint::Forward) => return PhaseLabel { phase: Phase::Forward, confidence: 1.0 },
        Some(Hint::Inference) | None => {}
    }
    let label = match names {
        Some(names) => by_names(names, mode, hint, reading),
        None => by_shape(mode, hint, reading),
    };
    PhaseLabel { confidence: calibration::confidence(label.confidence, names.is_some()), ..label }
}

fn by_names(
    names: &NameEvidence,
    mode: Mode,
    hint: Option<Hint>,
    reading: impl FnOnce() -> PhaseLabel,
) -> PhaseLabel {
    let trains = match (hint, mode) {
        (Some(_), _) => 0.0,
        (None, mode) if names.is_complete || names.trains.is_evident() => {
            probability(names.trains.sum() + mode_odds(mode))
        }
        (None, Mode::Training { confidence }) => confidence,
        (None, _) => 0.0,
    };
    if trains >= 0.5 {
        return bounded(Phase::Train, trains, &names.trains);
    }
    if !names.is_pass {
        return PhaseLabel::UNKNOWN;
    }
    let reading = reading();
    // Where kernels are not known, as in graphs captured before, nothing speaks against what most servers do.
    let is_likely = !names.is_complete && names.generates.sum() >= 0.0;
    let generates = if hint.is_some() || is_likely { 1.0 } else { probability(names.generates.sum()) };
    match generates < 0.5 {
        true => bounded(Phase::Forward, (1.0 - trains) * (1.0 - generates), &names.generates),
        false => {
            let confidence = (1.0 - trains) * generates * reading.confidence;
            let odds = if names.is_mixed { Odds::default() } else { names.decodes };
            bounded(reading.phase, confidence, &odds)
        }
    }
}

fn by_shape(mode: Mode, hint: Option<Hint>, reading: impl FnOnce() -> PhaseLabel) -> PhaseLabel {
    match mode {
        Mode::Training { confidence } if hint.is_none() => PhaseLabel { phase: Phase::Train, confidence },
        _ => reading(),
    }
}

/// Returns a label whose confidence is limited if the evidence contradicts itself.
fn bounded(phase: Phase, confidence: f64, odds: &Odds) -> PhaseLabel {
    let confidence = if odds.is_disputed() { confidence.min(DISPUTED_MAX) } else { confidence };
    PhaseLabel { phase, confidence }
}

/// Returns the evidence of the mode of the process for training.
fn mode_odds(mode: Mode) -> f64 {
    match mode {
        Mode::Training { confidence } => (confidence / (1.0 - confidence).max(1e-6)).ln(),
        _ => 0.0,
    }
}

fn probability(odds: f64) -> f64 {
    1.0 / (1.0 + (-odds).exp())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn by_mode(mode: Mode, hint: Option<Hint>) -> PhaseLabel {
        label(None, mode, hint, || PhaseLabel { phase: Phase::Decode, confidence: 0.8 })
    }

    #[test]
    fn a_hint_decides_what_it_says() {
        let training = Mode::Training { confidence: 0.9 };
        let phase = |mode, hint| by_mode(mode, hint).phase;
        assert_eq!([phase(training, None), phase(Mode::Serving, None)], [Phase::Train, Phase::Decode]);
        assert_eq!(phase(training, Some(Hint::Inference)), Phase::Decode);
        assert_eq!(phase(Mode::Serving, Some(Hint::Training)), Phase::Train);
        assert_eq!(
            by_mode(Mode::Serving, Some(Hint::Forward)),
            PhaseLabel { phase: Phase::Forward, confidence: 1.0 }
        );
        assert_eq!(Hint::of("training"), Some(Hint::Training));
        assert_eq!(Hint::of("other"), None);
    }
}
