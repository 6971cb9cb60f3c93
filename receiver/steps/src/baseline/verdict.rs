//! The settings, input and output of a baseline.

pub use semconv::value::GpuStepOutlier as Outlier;

use super::Class;

/// The steps of a workload that share a baseline.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum BaselineKey {
    /// The steps of a phase.
    #[default]
    Phase,
    /// The steps of a phase that launch the same kernels and graphs.
    PhaseAndFingerprint,
}

/// The settings of a baseline.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct BaselineSettings {
    /// The steps that share a baseline.
    pub key: BaselineKey,
    /// Steps of the warm-up, which are not judged; 0 counts as 1.
    pub warm_up: u32,
    /// The smallest excess over the p95 of an outlier, ns: lost microseconds do not deserve a span.
    pub excess_min_ns: u64,
}

impl Default for BaselineSettings {
    fn default() -> Self {
        BaselineSettings { key: BaselineKey::Phase, warm_up: 30, excess_min_ns: 50_000 }
    }
}

/// Returns the bucket of a duration that is `ratio` times the p95.
pub fn outlier_bucket(ratio: f64) -> Outlier {
    match ratio {
        r if r >= 3.0 => Outlier::Ratio3,
        r if r >= 2.0 => Outlier::Ratio2,
        r if r >= 1.5 => Outlier::Ratio15,
        _ => Outlier::None,
    }
}

/// The level of a warmed-up baseline at one instant.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct BaselineLevel {
    /// The mean duration of steps that are not outliers, ns; recent steps weigh more.
    pub mean_ns: f64,
    /// The 95th percentile of their durations, ns.
    pub p95_ns: f64,
    /// Steps learnt from since the start or the latest lasting change.
    pub count: u64,
}

/// The part of a step that a baseline uses.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Observed {
    /// The duration, ns.
    pub duration_ns: u64,
    /// The class of steps that it is compared with.
    pub class: Class,
    /// The part of the duration that exceeds the usual for known reasons outside of the step, ns: other processes on its
    /// CPU, late ranks, throttled clocks.
    pub outside_ns: f64,
}

/// The verdict of a baseline on one step.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BaselineVerdict {
    /// The level that the step was compared with; `None` during the warm-up.
    pub level: Option<BaselineLevel>,
    /// The duration as a multiple of the p95; 0 during the warm-up.
    pub ratio: f64,
    /// The outlier bucket.
    pub outlier: Outlier,
    /// True if the baseline learnt from it.
    pub is_learnt: bool,
    /// The levels before and after a lasting change that the step completed.
    pub shift: Option<(BaselineLevel, BaselineLevel)>,
}

impl BaselineVerdict {
    /// The verdict on a step of the warm-up.
    pub(super) const WARM_UP: BaselineVerdict =
        BaselineVerdict { level: None, ratio: 0.0, outlier: Outlier::None, is_learnt: true, shift: None };
}
