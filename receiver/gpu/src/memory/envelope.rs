//! Leaks: memory whose lower envelope does nothing but grow while the workload works.
//!
//! The one idea: what a workload needs comes back. Of each window the *least* that was allocated counts, so that a
//! batch that comes and goes leaves no trace; only windows with steps count, so that loading a model does not either.
//! Where that least grows window after window, in even portions, a leak is suspected, and the class of sizes that
//! grew most is named. It is logged once, and once when half of it was freed or it has stopped growing.
//!
//! Time is event time. Fixed memory: one class for each power of two.

/// How long a window is, ns.
const WINDOW_NS: u64 = 60_000_000_000;
/// Steps that make a window count.
const STEPS_MIN: u32 = 20;
/// In so many windows the least has grown before a leak is suspected...
const GROWN_MIN: u32 = 5;
/// ... by this much in all, in bytes and as a part of what it began with...
const GROWTH_MIN: u64 = 32 << 20;
const GROWTH_PART: u64 = 100;
/// ... of which no window has more than half.
const PORTIONS_MIN: u64 = 2;
/// After so many windows without growth in a row it has stopped.
const FLAT_MAX: u32 = 3;
/// The number of size classes, by powers of two. Larger sizes are in the last.
const CLASSES: usize = 44;

/// What is allocated of one class.
#[derive(Clone, Copy, Debug, Default)]
struct Class {
    live: u64,
    /// The least within this window.
    least: u64,
    /// The least of the window that the growth began with.
    base: u64,
}

/// What is allocated, by power of two.
#[derive(Debug)]
pub(super) struct Sizes(Box<[Class; CLASSES]>);

impl Default for Sizes {
    fn default() -> Self {
        Sizes(Box::new([Class::default(); CLASSES]))
    }
}

impl Sizes {
    pub(super) fn allocate(&mut self, bytes: u64) {
        let class = &mut self.0[place(bytes)];
        class.live = class.live.saturating_add(bytes);
    }

    pub(super) fn free(&mut self, bytes: u64) {
        let class = &mut self.0[place(bytes)];
        class.live = class.live.saturating_sub(bytes);
        class.least = class.least.min(class.live);
    }

    /// The growth begins with this window.
    fn begin(&mut self) {
        self.0.iter_mut().for_each(|class| class.base = class.least);
    }

    /// A window begins.
    fn open(&mut self) {
        self.0.iter_mut().for_each(|class| class.least = class.live);
    }

    /// The class that grew most since the growth began.
    fn grown(&self) -> Grown {
        let growth = |class: &Class| class.least.saturating_sub(class.base);
        let most = (0..CLASSES).rev().max_by_key(|at| growth(&self.0[*at])).unwrap_or_default();
        Grown { from_bytes: 1 << most, growth_bytes: growth(&self.0[most]) }
    }
}

fn place(bytes: u64) -> usize {
    (bytes.max(1).ilog2() as usize).min(CLASSES - 1)
}

/// A class of sizes, from a power of two to the next, and by how much what is allocated of it grew.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Grown {
    pub(crate) from_bytes: u64,
    pub(crate) growth_bytes: u64,
}

/// Something to be said of a leak.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Leak {
    /// False where it is no longer suspected.
    pub(crate) is_suspected: bool,
    pub(crate) at_ns: u64,
    /// By how much the least grew, and since when.
    pub(crate) growth_bytes: u64,
    pub(crate) since_ns: u64,
    /// What it grew to.
    pub(crate) least_bytes: u64,
    pub(crate) class: Grown,
}

/// Windows in a row of which none had less than the one before.
#[derive(Clone, Copy, Debug, Default)]
struct Run {
    since_ns: u64,
    base: u64,
    last: u64,
    /// Windows that had more, and the most that one had.
    grown: u32,
    portion: u64,
    /// Windows that had as much, in a row.
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

/// The lower envelope of what is allocated.
#[derive(Debug, Default)]
pub(super) struct Envelope {
    /// When the window ends; 0 before the first.
    end_ns: u64,
    least: u64,
    steps: u32,
    run: Option<Run>,
    /// The suspected leak, while it lasts.
    suspected: Option<Leak>,
}

impl Envelope {
    /// Something was freed.
    pub(super) fn fall(&mut self, live: u64) {
        self.least = self.least.min(live);
    }

    /// A step is over. Windows without steps pass unseen.
    pub(super) fn step(&mut self, now_ns: u64, live: u64, sizes: &mut Sizes) -> Option<Leak> {
        self.steps += 1;
        if now_ns < self.end_ns {
            return None;
        }
        let is_whole = self.end_ns > 0 && self.steps >= STEPS_MIN;
        let said = if is_whole { self.close(now_ns, sizes) } else { None };
        (self.end_ns, self.least, self.steps) = (now_ns.saturating_add(WINDOW_NS), live, 0);
        sizes.open();
        said
    }

    fn close(&mut self, now_ns: u64, sizes: &mut Sizes) -> Option<Leak> {
        let least = self.least;
        match &mut self.run {
            Some(run) if least > run.last => {
                run.portion = run.portion.max(least - run.last);
                (run.last, run.grown, run.flat) = (least, run.grown + 1, 0);
            }
            Some(run) if least == run.last && run.flat + 1 < FLAT_MAX => run.flat += 1,
            // Some came back, and most of what leaked did not.
            Some(run) if least < run.last && self.suspected.is_some() && !is_half_back(run, least) => {
                run.last = least;
            }
            _ => return self.begin(now_ns, sizes),
        }
        let leak = self.run.filter(Run::is_leak).map(|run| leak(&run, now_ns, sizes))?;
        self.suspected.replace(leak).is_none().then_some(leak)
    }

    /// The growth is over, if it was any. Another may begin here.
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
