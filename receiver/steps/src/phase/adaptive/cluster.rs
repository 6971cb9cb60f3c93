//! A cluster: steps of one shape, and statistics of how they follow other steps.
//!
//! Sizes are logarithms to base 2. Fields are narrow, since every stream has many clusters.

use crate::phase::Phase;
use crate::shape::{DIMENSIONS, Form, Shape, log2};

/// The weights of the quantities of [`Shape::vector`] in the distance: steps that differ by a tenth of their launches are of
/// different kinds.
const WEIGHTS: [f64; DIMENSIONS] = [6.0, 1.0, 2.0, 0.5, 0.25];
/// Steps that a centre is averaged over.
const CENTRE_MEMORY: u32 = 64;
/// Steps that a share is averaged over.
const SHARE_MEMORY: f32 = 64.0;
/// The weight of the prior of a share, in steps.
const SHARE_PRIOR: f32 = 2.0;
/// The distance in doublings from which two steps are unlike; launches count threefold.
const APART: f64 = 0.15;
/// The largest difference, in doublings, between the launches of one model's passes.
const ONE_MODEL: f64 = 1.5;
/// The fewest launches of a pass of a model: 32, as a logarithm.
const PASS_LAUNCHES_MIN: f64 = 5.0;

/// The relation of a step to those before it.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Follows {
    /// The largest likeness to an earlier step, 0 to 1; `None` if there was none of its form.
    pub(super) likeness: Option<f64>,
    /// True if it follows a step with much less work; `None` if the step before gives no evidence.
    pub(super) is_jump: Option<bool>,
}

/// Kernels and threads of a step.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Size {
    pub(super) launches: f32,
    pub(super) threads: f32,
}

impl Size {
    pub(super) fn of(shape: &Shape) -> Size {
        Size { launches: log2(shape.kernels()) as f32, threads: log2(shape.kernel_threads()) as f32 }
    }

    /// Returns the likeness of two sizes: 1 if equal, 0 from [`APART`] on.
    pub(super) fn likeness(&self, other: &Size) -> f64 {
        let distance = (self.threads - other.threads).abs() + 3.0 * (self.launches - other.launches).abs();
        (1.0 - f64::from(distance) / APART).max(0.0)
    }
}

/// A share of the latest steps.
#[derive(Clone, Copy, Debug, Default)]
struct Share {
    hits: f32,
    count: f32,
}

impl Share {
    fn add(&mut self, hit: f64) {
        let fade = 1.0 - 1.0 / SHARE_MEMORY;
        self.hits = self.hits * fade + hit as f32;
        self.count = self.count * fade + 1.0;
    }

    /// Returns the share, given a prior.
    fn from(&self, prior: f32) -> f64 {
        f64::from((self.hits + SHARE_PRIOR * prior) / (self.count + SHARE_PRIOR))
    }
}

/// A cluster of steps of one shape.
#[derive(Clone, Debug)]
pub(super) struct Cluster {
    pub(super) form: Form,
    /// True if the contents of its graphs are known.
    pub(super) is_known: bool,
    pub(super) label: Phase,
    /// Steps added.
    pub(super) seen: u32,
    /// Weighted steps, in a unit that grows.
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

    /// Returns the logarithm of the kernels.
    pub(super) fn launches(&self) -> f64 {
        f64::from(self.centre[0])
    }

    /// Returns the logarithm of the threads.
    pub(super) fn work(&self) -> f64 {
        f64::from(self.centre[1])
    }

    /// Returns the size of its latest step; `None` before the first.
    pub(super) fn last(&self) -> Option<&Size> {
        (self.seen > 0).then_some(&self.last)
    }

    /// Returns the likeness of its latest step to an earlier one, 0 to 1.
    pub(super) fn likeness(&self) -> f64 {
        f64::from(self.likeness)
    }

    /// Returns the mean likeness of its steps to earlier ones, 0 to 1.
    pub(super) fn steadiness(&self) -> f64 {
        self.steady.from(0.5)
    }

    /// Returns the share of jumps among its steps that follow another cluster.
    pub(super) fn jumps(&self, prior: f32) -> f64 {
        self.jumps.from(prior)
    }

    /// Returns true if it has enough launches for a pass of a model.
    pub(super) fn is_pass(&self) -> bool {
        self.launches() >= PASS_LAUNCHES_MIN
    }

    /// Returns the part of its shape that [`is_one_model`] compares.
    pub(super) fn outline(&self) -> Outline {
        Outline { form: self.form, is_known: self.is_known, kernels: self.centre[0] }
    }

    /// Returns true if both can be passes of one model.
    pub(super) fn is_of_model(&self, other: &Cluster) -> bool {
        is_one_model(&self.outline(), &other.outline())
    }

    /// Returns the distance of a shape from the centre; infinite for another form, or if only one of them is known.
    pub(super) fn distance(&self, shape: &Shape, vector: &[f64; DIMENSIONS]) -> f64 {
        if self.form != shape.form || self.is_known != shape.is_known {
            return f64::INFINITY;
        }
        let distance = self.centre.iter().zip(vector).map(|(centre, value)| f64::from(*centre) - value);
        distance.zip(WEIGHTS).map(|(distance, weight)| (weight * distance).powi(2)).sum::<f64>().sqrt()
    }

    /// Adds a step of weight `unit`.
    pub(super) fn add(&mut self, shape: &Shape, unit: f64, follows: Follows) {
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

/// The part of a shape that is compared across forms.
#[derive(Clone, Copy, Debug)]
pub(super) struct Outline {
    pub(super) form: Form,
    pub(super) is_known: bool,
    /// Logarithm of the kernels.
    pub(super) kernels: f32,
}

/// Returns true if both can be passes of one model. A graph with unknown contents can only be compared with its own form;
/// otherwise the form makes no difference.
pub(super) fn is_one_model(one: &Outline, other: &Outline) -> bool {
    let is_comparable = one.is_known && other.is_known || one.form == other.form && one.form != Form::Whole;
    is_comparable && f64::from((one.kernels - other.kernels).abs()) <= ONE_MODEL
}
