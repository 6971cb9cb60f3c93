//! The baseline of one workload and phase: usual durations, and the outliers among steps.
//!
//! Two comparisons must agree before a step is an outlier: with the phase's p95, which is reported, and with steps of its
//! own size ([`Class`]), so that neither a long prompt nor a larger batch is mistaken for slowness. Steps far outside the
//! usual scatter of their size are *strange* and not learnt from, outliers or not. If that lasts, it is the new normal: the
//! baseline is learnt again from the latest steps, and the change is reported. Steps with a known disturbance are skipped
//! instead, up to [`DISTURBED_MAX`] in a row.
//!
//! Uses at most [`Baseline::BYTES_MAX`] of memory.

mod class;
mod digest;
mod stored;
mod verdict;
mod window;

use self::class::{Classes, Expected};
use self::digest::Digest;
use self::window::{Sample, WINDOW, Window};

pub use self::class::Class;
pub use self::verdict::{
    BaselineKey, BaselineLevel, BaselineSettings, BaselineVerdict, Observed, Outlier, outlier_bucket,
};

/// Steps after which the weight of a step in the level is halved.
const HALF_LIFE: f64 = 4096.0;
/// The ratio to its class from which a step can be an outlier: a little less than the lowest bucket, since the duration of
/// the class is an estimate too.
const CLASS_RATIO: f64 = 1.47;
/// The ratio to the p95 from which a step of an unknown class is an outlier: the highest bucket only.
const COLD_RATIO: f64 = 3.0;
/// Mean deviations beyond which a step is strange (5 standard deviations of a normal distribution).
const STRANGE_DEVIATIONS: f64 = 6.0;
/// Steps that the mean deviation and the share of strange steps are averaged over: many more than the detection of a change
/// takes, or the change would count as scatter.
const DEVIATION_MEMORY: f64 = 1024.0;
const STRANGE_MEMORY: f64 = 1024.0;
/// The share of strange steps above which they are normal. Outliers up to 5 % remain outliers.
const STRANGE_SHARE_MAX: f64 = 0.08;
/// Strange steps in a row that count towards that share.
const STRANGE_RUN_MAX: u32 = 8;
/// Steps of the last [`WINDOW`] that must be off their class, all in one direction, to be a lasting change.
const SHIFTED_MIN: u32 = 150;
/// The difference of logarithms from which a step is off its class: a quarter longer, a fifth shorter.
const SHIFT_LOG: f64 = 0.223;
/// Mean deviations from which a step is off its class.
const SHIFT_DEVIATIONS: f64 = 2.0;
/// Mean deviations beyond which, and beyond [`SHIFT_LOG`], a class does not learn from a step.
const LEARN_DEVIATIONS: f64 = 3.0;
/// The excess, as a share of the expected duration, from which a step can be disturbed.
const DISTURBED_EXCESS: f64 = 0.25;
/// Disturbed steps in a row that are skipped; a longer disturbance is learnt like any change.
const DISTURBED_MAX: u32 = 4096;
/// The largest share of the warm-up that is rejected as outliers; more than that is normal.
const WARM_UP_REJECTED_MAX: f64 = 1.0 / 3.0;
/// The ratio of standard deviation to median absolute deviation of a normal distribution.
const MAD_TO_SIGMA: f64 = 1.4826;

/// The distance of a step from its expected duration.
#[derive(Clone, Copy, Debug)]
struct Off {
    /// The difference of logarithms.
    log: f32,
    /// True if the expectation is that of its own class.
    is_own: bool,
}

impl Off {
    /// Returns the expected duration of a step that took `ns`.
    fn usual_ns(&self, ns: f64) -> f64 {
        ns / f64::from(self.log).exp()
    }
}

/// The baseline of one workload and phase.
#[derive(Clone, Debug, PartialEq)]
pub struct Baseline {
    settings: BaselineSettings,
    warm_up: Vec<(f64, Class)>,
    digest: Digest,
    p95_ns: f64,
    mean_ns: f64,
    mean_weight: f64,
    count: u64,
    classes: Classes,
    /// The mean absolute deviation of a step's logarithm from its class's.
    deviation: f64,
    deviation_count: f64,
    strange_share: f64,
    /// Strange steps in a row.
    strange_run: u32,
    /// Disturbed steps in a row.
    disturbed: u32,
    window: Window,
}

impl Baseline {
    /// The most memory that a baseline takes with a warm-up of up to 32 steps, in bytes.
    pub const BYTES_MAX: usize = 5 * 512;

    /// Returns a baseline that has learnt nothing.
    pub fn new(settings: BaselineSettings) -> Baseline {
        Baseline {
            settings,
            warm_up: Vec::new(),
            digest: Digest::new(HALF_LIFE),
            p95_ns: 0.0,
            mean_ns: 0.0,
            mean_weight: 0.0,
            count: 0,
            classes: Classes::default(),
            deviation: 0.0,
            deviation_count: 0.0,
            strange_share: 0.0,
            strange_run: 0,
            disturbed: 0,
            window: Window::default(),
        }
    }

    /// Compares a step with earlier ones, then learns from it.
    pub fn observe(&mut self, step: &Observed) -> BaselineVerdict {
        let ns = (step.duration_ns as f64).max(1.0);
        match self.level() {
            None => {
                self.warm(ns, step.class);
                BaselineVerdict::WARM_UP
            }
            Some(level) => self.judge(ns, step, level),
        }
    }

    /// Returns the level; `None` during the warm-up.
    pub fn level(&self) -> Option<BaselineLevel> {
        (self.count > 0).then_some(BaselineLevel {
            mean_ns: self.mean_ns,
            p95_ns: self.p95_ns,
            count: self.count,
        })
    }

    /// Returns the number of size classes evicted.
    pub fn classes_evicted(&self) -> u64 {
        self.classes.evicted()
    }

    fn judge(&mut self, ns: f64, step: &Observed, level: BaselineLevel) -> BaselineVerdict {
        let (ratio, class) = (ns / level.p95_ns, step.class);
        let off = self.off(ns, &class);
        let outlier = self.bucket(ns, ratio, off);
        let verdict = BaselineVerdict { level: Some(level), ratio, outlier, is_learnt: false, shift: None };
        let is_disturbed =
            is_disturbed(ns, off.map_or(level.mean_ns, |off| off.usual_ns(ns)), step.outside_ns);
        self.disturbed = if is_disturbed { self.disturbed.saturating_add(1) } else { 0 };
        if (1..=DISTURBED_MAX).contains(&self.disturbed) {
            return verdict;
        }
        let is_strange = match off {
            Some(off) => self.is_strange(ns, off),
            None => outlier != Outlier::None,
        };
        self.count_strange(is_strange);
        match is_strange {
            true => self.learn_strange(ns, &class, off),
            false => self.learn(ns, &class, off),
        }
        if let Some(Off { log, is_own: true }) = off {
            self.window.push(Sample { ns, off: log });
        }
        let shift = self.relearn().then(|| (level, self.level().unwrap_or(level)));
        BaselineVerdict { is_learnt: !is_strange, shift, ..verdict }
    }

    /// Counts a step towards the share of strange ones. A new normal is spread among other steps; of an incident, which is
    /// one run of strange steps, only the beginning counts.
    fn count_strange(&mut self, is_strange: bool) {
        self.strange_run = if is_strange { self.strange_run.saturating_add(1) } else { 0 };
        if self.strange_run <= STRANGE_RUN_MAX {
            self.strange_share += (f64::from(u8::from(is_strange)) - self.strange_share) / STRANGE_MEMORY;
        }
    }

    fn bucket(&self, ns: f64, ratio: f64, off: Option<Off>) -> Outlier {
        let is_off = match off {
            Some(off) => f64::from(off.log) >= CLASS_RATIO.ln(),
            None => ratio >= COLD_RATIO,
        };
        match is_off && ns - self.p95_ns >= self.settings.excess_min_ns as f64 {
            true => outlier_bucket(ratio),
            false => Outlier::None,
        }
    }

    /// Returns the distance of a step from its expected duration; `None` if its class is unknown.
    fn off(&self, ns: f64, class: &Class) -> Option<Off> {
        let Expected { log, is_own } = self.classes.expected(class)?;
        Some(Off { log: ns.ln() as f32 - log, is_own })
    }

    fn strange_from(&self) -> f64 {
        STRANGE_DEVIATIONS * self.deviation
    }

    /// Returns true for a step that is slow for its class, even if it is not an outlier of its phase. A small step as long as
    /// a large one would otherwise move the p95.
    fn is_strange(&self, ns: f64, off: Off) -> bool {
        f64::from(off.log) > self.strange_from().max(CLASS_RATIO.ln())
            && ns - off.usual_ns(ns) >= self.settings.excess_min_ns as f64
    }

    /// Lets an unknown class learn from its first steps, even if other classes predict less.
    fn learn_strange(&mut self, ns: f64, class: &Class, off: Option<Off>) {
        if off.is_some_and(|off| !off.is_own) {
            self.classes.learn(class, ns.ln() as f32);
        }
    }

    fn learn(&mut self, ns: f64, class: &Class, off: Option<Off>) {
        self.learn_level(ns);
        let own = off.filter(|off| off.is_own);
        let distance = own.map_or(0.0, |off| f64::from(off.log.abs()));
        // A class follows slow drifts only, or it would have absorbed a change before the change is found to last.
        if distance <= SHIFT_LOG.max(LEARN_DEVIATIONS * self.deviation) {
            self.classes.learn(class, ns.ln() as f32);
        }
        if own.is_some() && distance <= SHIFT_LOG.max(self.strange_from()) {
            self.deviation_count = (self.deviation_count + 1.0).min(DEVIATION_MEMORY);
            self.deviation += (distance - self.deviation) / self.deviation_count;
        }
    }

    fn learn_level(&mut self, ns: f64) {
        // Divided by the current weight: no bias towards an initial value.
        self.mean_weight = self.mean_weight * (-1.0 / HALF_LIFE).exp2() + 1.0;
        self.mean_ns += (ns - self.mean_ns) / self.mean_weight;
        self.count += 1;
        if self.digest.add(ns) {
            self.p95_ns = self.digest.quantile().unwrap_or(ns);
        }
    }

    fn warm(&mut self, ns: f64, class: Class) {
        self.warm_up.push((ns, class));
        if self.warm_up.len() < self.settings.warm_up.max(1) as usize {
            return;
        }
        let steps = std::mem::take(&mut self.warm_up);
        let limit = warm_up_limit(&steps);
        for (ns, class) in steps.into_iter().filter(|(ns, _)| *ns <= limit) {
            let off = self.off(ns, &class);
            self.learn(ns, &class, off);
        }
    }

    /// Learns again from the latest steps if they show a lasting change; returns true if they do.
    fn relearn(&mut self) -> bool {
        let least = SHIFT_LOG.max(SHIFT_DEVIATIONS * self.deviation) as f32;
        if let Some(by) = self.window.shift(least, SHIFTED_MIN) {
            self.restart(|sample| (sample.off >= 0.0) == (by >= 0.0) && sample.off.abs() >= least);
            self.classes.shift(by);
            self.window.clear();
            return true;
        }
        let is_shifting = self.window.shift(least, WINDOW as u32 / 2).is_some();
        if self.strange_share > STRANGE_SHARE_MAX && !is_shifting {
            // The steps have two modes now, neither of which is strange.
            self.deviation = self.deviation.max(self.window.deviation());
            self.restart(|_| true);
            return true;
        }
        false
    }

    fn restart(&mut self, belongs: impl Fn(&Sample) -> bool) {
        self.digest.clear();
        (self.mean_ns, self.mean_weight, self.count, self.strange_share) = (0.0, 0.0, 0, 0.0);
        let window = std::mem::take(&mut self.window);
        window.iter().filter(|s| belongs(s)).for_each(|s| self.learn_level(s.ns));
        self.window = window;
    }
}

/// Returns true for a step that is slow mostly for a known reason outside of it.
fn is_disturbed(ns: f64, usual_ns: f64, outside_ns: f64) -> bool {
    let excess_ns = ns - usual_ns;
    excess_ns > DISTURBED_EXCESS * usual_ns && outside_ns > excess_ns / 2.0
}

/// Returns the longest duration of a warm-up that is not an outlier of it. Outliers are few, and far from the median for
/// the scatter around it.
fn warm_up_limit(steps: &[(f64, Class)]) -> f64 {
    let logs = sorted(steps.iter().map(|(ns, _)| ns.ln()));
    let median = logs[logs.len() / 2];
    let deviations = sorted(logs.iter().map(|log| (log - median).abs()));
    let sigma = deviations[deviations.len() / 2] * MAD_TO_SIGMA;
    let limit = median + (STRANGE_DEVIATIONS * sigma).max(CLASS_RATIO.ln());
    let beyond = logs.iter().filter(|log| **log > limit).count();
    match beyond as f64 <= WARM_UP_REJECTED_MAX * logs.len() as f64 {
        true => limit.exp(),
        false => f64::INFINITY,
    }
}

fn sorted(values: impl Iterator<Item = f64>) -> Vec<f64> {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values
}

// The memory of the warm-up is released when that of the classes is allocated, which is less.
const WARM_UP_BYTES: usize = 32 * size_of::<(f64, Class)>();
const _: () = assert!(Classes::BYTES_MAX <= WARM_UP_BYTES);
const _: () = assert!(size_of::<Baseline>() + Digest::BYTES_MAX + WARM_UP_BYTES <= Baseline::BYTES_MAX);
const _: () = assert!((SHIFTED_MIN as usize) < WINDOW);

#[cfg(test)]
mod tests;
