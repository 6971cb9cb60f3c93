//! The engine's values in the registry's words. Matches without a rest: a new value does not compile unnamed.

use event::ThrottleReason;
use semconv::value::{
    GpuHardwareThrottleReason, GpuStepCause, GpuStepGpuCertainty, GpuStepOutlier, GpuStepPhase,
};
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

/// What held clocks down.
pub(crate) fn reason(reason: ThrottleReason) -> GpuHardwareThrottleReason {
    use GpuHardwareThrottleReason as Registry;
    match reason {
        ThrottleReason::ApplicationsClocks => Registry::ApplicationsClocks,
        ThrottleReason::DisplayClock => Registry::DisplayClock,
        ThrottleReason::Hw => Registry::Hw,
        ThrottleReason::HwPowerBrake => Registry::HwPowerBrake,
        ThrottleReason::HwSlowdown => Registry::HwSlowdown,
        ThrottleReason::HwThermal => Registry::HwThermal,
        ThrottleReason::SwPowerCap => Registry::SwPowerCap,
        ThrottleReason::SwThermal => Registry::SwThermal,
        ThrottleReason::SyncBoost => Registry::SyncBoost,
        ThrottleReason::MemoryThermal => Registry::MemoryThermal,
        ThrottleReason::VrThermal => Registry::VrThermal,
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
        assert!(ThrottleReason::ALL.iter().all(|r| reason(*r).as_str() == r.name()));
        assert_eq!(ThrottleReason::ALL.len(), GpuHardwareThrottleReason::ALL.len());
        assert_eq!(Phase::ALL.len(), GpuStepPhase::ALL.len());
        assert_eq!(Outlier::ALL.len(), GpuStepOutlier::ALL.len());
        assert_eq!(CauseKind::ALL.len(), GpuStepCause::ALL.len());
    }
}
