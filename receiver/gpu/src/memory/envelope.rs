//! Detection of leaks: memory whose lower envelope only grows while the workload runs.
//!
//! The minimum of each window is compared, so that memory of a batch that is freed again has no effect. Windows
//! without steps are skipped, so that loading a model has none either. If the minimum grows in successive windows
//! by similar amounts, a leak is suspected, and the size class that grew most is named. A leak is logged once, and
//! once more when half of it was freed or it has stopped growing.
//!
//! Time is event time. Memory use is constant: one size class per power of two.

/// Length of a window in ns.
const WINDOW_NS: u64 = 60_000_000_000;
/// Minimum number of steps of a window; windows with fewer are skipped.
const STEPS_MIN: u32 = 20;
/// Minimum number of windows with growth before a leak is suspected.
const GROWN_MIN: u32 = 5;
/// Minimum growth of a suspected leak, in bytes and as a fraction of the first minimum.
const GROWTH_MIN: u64 = 32 << 20;
const GROWTH_PART: u64 = 100;
/// No window has more than one part in this many of the growth.
const PORTIONS_MIN: u64 = 2;
/// Number of successive windows without growth after which a leak has stopped growing.
const FLAT_MAX: u32 = 3;
/// The number of size classes, by powers of two. Larger sizes are in the last.
const CLASSES: usize = 44;

/// The allocated bytes of one size class.
#[derive(Clone, Copy, Debug, Default)]
struct Class {
    live: u64,
    /// The minimum within this window.
    least: u64,
    /// The minimum of the window in which the growth began.
    base: u64,
}

/// The allocated bytes by power of two.
#[derive(Debug)]
pub(super) struct Sizes(Box<[Class; CLASSES]>);

impl Default for Sizes {
    fn default() -> Self {
        Sizes(Box::new([Class::default(); CLASSES]))
    }
}

impl Sizes {
    pub(super) fn allocate(&mut self, bytes: u64) {
        let class = &mut self.0[class_of(bytes)];
        class.live = class.live.saturating_add(bytes);
    }

    pub(super) fn free(&mut self, bytes: u64) {
        let class = &mut self.0[class_of(bytes)];
        class.live = class.live.saturating_sub(bytes);
        class.least = class.least.min(class.live);
    }

    /// Sets the current window as the start of the growth.
    fn begin(&mut self) {
        self.0.iter_mut().for_each(|class| class.base = class.least);
    }

    /// Opens a window.
    fn open(&mut self) {
        self.0.iter_mut().for_each(|class| class.least = class.live);
    }

    /// Returns the class that grew most since the start of the growth.
    fn grown(&self) -> Grown {
        let growth = |class: &Class| class.least.saturating_sub(class.base);
        let most = (0..CLASSES).rev().max_by_key(|at| growth(&self.0[*at])).unwrap_or_default();
        Grown { from_bytes: 1 << most, growth_bytes: growth(&self.0[most]) }
    }
}

fn class_of(bytes: u64) -> usize {
    (bytes.max(1).ilog2() as usize).min(CLASSES - 1)
}

/// A size class, from a power of two to the next, and the growth of its allocated bytes.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Grown {
    pub(crate) from_bytes: u64,
    pub(crate) growth_bytes: u64,
}

/// A leak that is suspected, or no longer suspected.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Leak {
    /// Whether the leak is suspected.
    pub(crate) is_suspected: bool,
    pub(crate) at_ns: u64,
    /// The growth of the minimum, and its duration.
    pub(crate) growth_bytes: u64,
    pub(crate) since_ns: u64,
    /// The current minimum.
    pub(crate) least_bytes: u64,
    pub(crate) class: Grown,
}

/// Successive windows, none with a lower minimum than the one before.
#[derive(Clone, Copy, Debug, Default)]
struct Run {
    since_ns: u64,
    base: u64,
    last: u64,
    /// Number of windows that grew, and the largest growth of one.
    grown: u32,
    portion: u64,
    /// Number of successive windows without growth.
    flat: u32,
}

impl Run {
    fn growth(&self) -> u64 {
        self.last.saturating_sub(self.base)
    }

    fn is_leak(&self) -> bool {
        let growth = self.growth();
        self.grown >= GROWN_MIN
            && growth >= GROWTH_MIN.max(self.base / GROWTH_PART)
            && self.portion <= growth / PORTIONS_MIN
    }
}

/// The lower envelope of the allocated bytes.
#[derive(Debug, Default)]
pub(super) struct Envelope {
    /// End of the current window; 0 before the first.
    end_ns: u64,
    least: u64,
    steps: u32,
    run: Option<Run>,
    /// The suspected leak.
    suspected: Option<Leak>,
}

impl Envelope {
    /// Observes a free.
    pub(super) fn fall(&mut self, live: u64) {
        self.least = self.least.min(live);
    }

    /// Observes the end of a step. Windows without steps are skipped.
    pub(super) fn step(&mut self, now_ns: u64, live: u64, sizes: &mut Sizes) -> Option<Leak> {
        self.steps += 1;
        if now_ns < self.end_ns {
            return None;
        }
        let is_whole = self.end_ns > 0 && self.steps >= STEPS_MIN;
        let leak = if is_whole { self.close(now_ns, sizes) } else { None };
        (self.end_ns, self.least, self.steps) = (now_ns.saturating_add(WINDOW_NS), live, 0);
        sizes.open();
        leak
    }

    fn close(&mut self, now_ns: u64, sizes: &mut Sizes) -> Option<Leak> {
        let least = self.least;
        match &mut self.run {
            Some(run) if least > run.last => {
                run.portion = run.portion.max(least - run.last);
                (run.last, run.grown, run.flat) = (least, run.grown + 1, 0);
            }
            Some(run) if least == run.last && run.flat + 1 < FLAT_MAX => run.flat += 1,
            // Some of it was freed, but less than half.
            Some(run) if least < run.last && self.suspected.is_some() && !is_half_back(run, least) => {
                run.last = least;
            }
            _ => return self.begin(now_ns, sizes),
        }
        let leak = self.run.filter(Run::is_leak).map(|run| leak(&run, now_ns, sizes))?;
        self.suspected.replace(leak).is_none().then_some(leak)
    }

    /// Ends the growth, and returns the end of a suspected leak. A new growth may begin here.
    fn begin(&mut self, now_ns: u64, sizes: &mut Sizes) -> Option<Leak> {
        self.run = Some(Run { since_ns: now_ns, base: self.least, last: self.least, ..Run::default() });
        sizes.begin();
        let leak = self.suspected.take()?;
        Some(Leak { is_suspected: false, at_ns: now_ns, least_bytes: self.least, ..leak })
    }
}

fn is_half_back(run: &Run, least: u64) -> bool {
    least.saturating_sub(run.base) <= run.growth() / 2
}

fn leak(run: &Run, now_ns: u64, sizes: &Sizes) -> Leak {
    Leak {
        is_suspected: true,
        at_ns: now_ns,
        growth_bytes: run.growth(),
        since_ns: run.since_ns,
        least_bytes: run.last,
        class: sizes.grown(),
    }
}

#[cfg(test)]
mod tests;
