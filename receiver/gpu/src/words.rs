//! The engine's values in the registry's words. Matches without a rest: a new value does not compile unnamed.

use semconv::value::{GpuStepCause, GpuStepGpuCertainty, GpuStepOutlier, GpuStepPhase};
use steps::{CauseKind, Certainty, Outlier, Phase};

/// The phase.
pub(crate) fn phase(phase: Phase) -> GpuStepPhase {
    match phase {
        Phase::Decode => GpuStepPhase::Decode,
        Phase::Mixed => GpuStepPhase::Mixed,
        Phase::Prefill => GpuStepPhase::Prefill,
        Phase::Train => GpuStepPhase::Train,
        Phase::Unknown => GpuStepPhase::Unknown,
    }
}

/// The bucket.
pub(crate) fn outlier(outlier: Outlier) -> GpuStepOutlier {
    match outlier {
        Outlier::None => GpuStepOutlier::None,
        Outlier::X1_5 => GpuStepOutlier::Ratio15,
        Outlier::X2 => GpuStepOutlier::Ratio2,
        Outlier::X3 => GpuStepOutlier::Ratio3,
    }
}

/// The cause.
pub(crate) fn cause(kind: CauseKind) -> GpuStepCause {
    match kind {
        CauseKind::Collective => GpuStepCause::Collective,
        CauseKind::Host => GpuStepCause::Host,
        CauseKind::Memory => GpuStepCause::Memory,
        CauseKind::None => GpuStepCause::None,
        CauseKind::Throttle => GpuStepCause::Throttle,
        CauseKind::Unknown => GpuStepCause::Unknown,
    }
}

/// How the GPU of a step is known.
pub(crate) fn certainty(certainty: Certainty) -> GpuStepGpuCertainty {
    match certainty {
        Certainty::Listed => GpuStepGpuCertainty::Listed,
        Certainty::Only => GpuStepGpuCertainty::Only,
        Certainty::Order => GpuStepGpuCertainty::Order,
        Certainty::Visible => GpuStepGpuCertainty::Visible,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn engine_and_registry_say_the_same_words() {
        assert!(Phase::ALL.iter().all(|p| phase(*p).as_str() == p.name()));
        assert!(Outlier::ALL.iter().all(|o| outlier(*o).as_str() == o.name()));
        assert!(CauseKind::ALL.iter().all(|k| cause(*k).as_str() == k.name()));
        assert!(Certainty::ALL.iter().all(|c| certainty(*c).as_str() == c.name()));
        assert_eq!(Phase::ALL.len(), GpuStepPhase::ALL.len());
        assert_eq!(Outlier::ALL.len(), GpuStepOutlier::ALL.len());
        assert_eq!(CauseKind::ALL.len(), GpuStepCause::ALL.len());
    }
}
