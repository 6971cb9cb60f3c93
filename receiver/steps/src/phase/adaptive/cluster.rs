//! A cluster: steps of one shape, and how they follow the steps before them.
//!
//! Sizes are logarithms to base 2. They are kept narrow, since every stream has many.

use crate::phase::Phase;
use crate::shape::{DIMENSIONS, Form, Shape, log2};

/// How much each quantity of [`Shape::vector`] says of what a step is: passes that differ by a tenth of their launches
/// are not of one kind.
const WEIGHTS: [f64; DIMENSIONS] = [6.0, 1.0, 2.0, 0.5, 0.25];
/// Steps that a centre averages over.
const CENTRE_MEMORY: u32 = 64;
/// Steps that a share is taken over.
const SHARE_MEMORY: f32 = 64.0;
/// What is not known yet counts as so many steps.
const SHARE_PRIOR: f32 = 2.0;
/// From this many doublings apart on, two steps have nothing in common; launches count threefold.
const APART: f64 = 0.15;
/// Launches of one model's passes are within this many doublings of each other.
const ONE_MODEL: f64 = 1.5;
/// Fewer launches than this (32) are no pass of a model.
const PASS_LAUNCHES_MIN: f64 = 5.0;

/// How a step follows those before it.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Follows {
    /// How much it is like one before, 0 to 1; `None` where there was none of its form.
    pub(super) likeness: Option<f64>,
    /// It comes by a jump from much less work; `None` where the step before says nothing of that.
    pub(super) is_jump: Option<bool>,
}

/// Kernels and threads.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Size {
    pub(super) launches: f32,
    pub(super) threads: f32,
}

impl Size {
    pub(super) fn of(shape: &Shape) -> Size {
        Size { launches: log2(shape.kernels()) as f32, threads: log2(shape.kernel_threads()) as f32 }
    }

    /// 1 for the same, 0 for nothing in common.
    pub(super) fn likeness(&self, other: &Size) -> f64 {
        let apart = (self.threads - other.threads).abs() + 3.0 * (self.launches - other.launches).abs();
        (1.0 - f64::from(apart) / APART).max(0.0)
    }
}

/// A share of the last steps.
#[derive(Clone, Copy, Debug, Default)]
struct Share {
    hits: f32,
    count: f32,
}

impl Share {
    fn add(&mut self, hit: f64) {
        let kept = 1.0 - 1.0 / SHARE_MEMORY;
        self.hits = self.hits * kept + hit as f32;
        self.count = self.count * kept + 1.0;
    }

    /// The share, if it was `prior` before anything was seen.
    fn from(&self, prior: f32) -> f64 {
        f64::from((self.hits + SHARE_PRIOR * prior) / (self.count + SHARE_PRIOR))
    }
}

/// Steps of one shape.
#[derive(Clone, Debug)]
pub(super) struct Cluster {
    pub(super) form: Form,
    /// It is known what its graphs hold.
    pub(super) is_known: bool,
    pub(super) label: Phase,
    /// Steps so far.
    pub(super) seen: u32,
    /// Steps, in a unit that grows.
    pub(super) weight: f64,
    centre: [f32; DIMENSIONS],
    last: Size,
    likeness: f32,
    steady: Share,
    jumps: Share,
}

impl Cluster {
    pub(super) fn of(shape: &Shape) -> Cluster {
        Cluster {
            form: shape.form,
            is_known: shape.is_known,
            label: Phase::Unknown,
            seen: 0,
            weight: 0.0,
            centre: shape.vector().map(|value| value as f32),
            last: Size::of(shape),
            likeness: 0.5,
            steady: Share::default(),
            jumps: Share::default(),
        }
    }

    /// Logarithm of the kernels.
    pub(super) fn launches(&self) -> f64 {
        f64::from(self.centre[0])
    }

    /// Logarithm of the threads.
    pub(super) fn work(&self) -> f64 {
        f64::from(self.centre[1])
    }

    /// The size of its last step; `None` before the first.
    pub(super) fn last(&self) -> Option<&Size> {
        (self.seen > 0).then_some(&self.last)
    }

    /// How much its last step was like one before it, 0 to 1.
    pub(super) fn likeness(&self) -> f64 {
        f64::from(self.likeness)
    }

    /// How much its steps are like ones before them, 0 to 1.
    pub(super) fn steadiness(&self) -> f64 {
        self.steady.from(0.5)
    }

    /// Of its steps that come from another cluster, the share that comes by a jump.
    pub(super) fn jumps(&self, prior: f32) -> f64 {
        self.jumps.from(prior)
    }

    /// True where there are enough launches for a pass of a model.
    pub(super) fn is_pass(&self) -> bool {
        self.launches() >= PASS_LAUNCHES_MIN
    }

    /// How its steps are launched, as [`is_one_model`] compares it.
    pub(super) fn sight(&self) -> Sight {
        Sight { form: self.form, is_known: self.is_known, kernels: self.centre[0] }
    }

    /// True where both can be passes of one model, and their work is seen.
    pub(super) fn is_of_model(&self, other: &Cluster) -> bool {
        is_one_model(&self.sight(), &other.sight())
    }

    /// How far a shape is from the centre; infinitely for another form, and where the one is known and the other not.
    pub(super) fn distance(&self, shape: &Shape, vector: &[f64; DIMENSIONS]) -> f64 {
        if self.form != shape.form || self.is_known != shape.is_known {
            return f64::INFINITY;
        }
        let apart = self.centre.iter().zip(vector).map(|(centre, value)| f64::from(*centre) - value);
        apart.zip(WEIGHTS).map(|(apart, weight)| (weight * apart).powi(2)).sum::<f64>().sqrt()
    }

    /// Takes a step in, that weighs `unit`.
    pub(super) fn take(&mut self, shape: &Shape, unit: f64, follows: Follows) {
        self.weight += unit;
        self.seen = self.seen.saturating_add(1);
        let pull = 1.0 / f64::from(self.seen.min(CENTRE_MEMORY));
        for (centre, value) in self.centre.iter_mut().zip(shape.vector()) {
            *centre += ((value - f64::from(*centre)) * pull) as f32;
        }
        self.last = Size::of(shape);
        self.likeness = follows.likeness.unwrap_or(0.5) as f32;
        follows.likeness.into_iter().for_each(|likeness| self.steady.add(likeness));
        follows.is_jump.into_iter().for_each(|is_jump| self.jumps.add(f64::from(u8::from(is_jump))));
    }
}

/// As much of a step as is compared with steps of other forms.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sight {
    pub(super) form: Form,
    pub(super) is_known: bool,
    /// Logarithm of the kernels.
    pub(super) kernels: f32,
}

/// True where these can be passes of one model. A graph hides what it runs where that is not known; where it is, it makes
/// no difference how the kernels are launched.
pub(super) fn is_one_model(one: &Sight, other: &Sight) -> bool {
    let is_seen = one.is_known && other.is_known || one.form == other.form && one.form != Form::Whole;
    is_seen && f64::from((one.kernels - other.kernels).abs()) <= ONE_MODEL
}
