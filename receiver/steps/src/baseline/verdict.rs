//! What a baseline is asked, how it is set, and what it answers.

pub use semconv::value::GpuStepOutlier as Outlier;

use super::Class;

/// Which steps of a workload share a baseline.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum BaselineKey {
    /// Those of a phase.
    #[default]
    Phase,
    /// Those of a phase that launch the same kernels and graphs.
    PhaseAndFingerprint,
}

/// How a baseline is learnt and applied.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct BaselineSettings {
    /// Which steps share one.
    pub key: BaselineKey,
    /// Steps before anything is judged; 0 counts as 1.
    pub warm_up: u32,
    /// A step is no outlier for less than this over the p95, ns: microseconds lost are not worth a span.
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

/// A warmed-up baseline at one instant.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Level {
    /// Mean duration of steps that are not outliers, ns, recent ones weighing more.
    pub mean_ns: f64,
    /// The duration that 95 % of them do not exceed, ns.
    pub p95_ns: f64,
    /// Steps learnt from since it began or was last learnt anew.
    pub count: u64,
}

/// One step, as far as baselines are concerned.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Observed {
    /// How long it took, ns.
    pub duration_ns: u64,
    /// Which steps it is compared with.
    pub class: Class,
    /// How much of that is known to be lost to something outside of it, beyond what is usual, ns: to other processes on
    /// its CPU, to ranks that came late, to clocks that were held down.
    pub outside_ns: f64,
}

/// What a baseline says of one step.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Verdict {
    /// The level it was compared with; `None` during the warm-up.
    pub level: Option<Level>,
    /// Its duration as a multiple of the p95; 0 during the warm-up.
    pub ratio: f64,
    /// The bucket.
    pub outlier: Outlier,
    /// True where it was taken into the baseline.
    pub is_learnt: bool,
    /// The step completed a lasting change: levels before and after.
    pub shift: Option<(Level, Level)>,
}

impl Verdict {
    /// The verdict on a step of the warm-up.
    pub(super) const WARM_UP: Verdict =
        Verdict { level: None, ratio: 0.0, outlier: Outlier::None, is_learnt: true, shift: None };
}
