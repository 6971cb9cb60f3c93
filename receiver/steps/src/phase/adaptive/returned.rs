//! Does a step that reads prompts carry answers along?
//!
//! The one idea: a token is copied back for every request that is answered. A step that returns about as much as
//! decodes did lately answers them too; one that returns a fraction of it reads prompts alone. With a request or two
//! under way there is no telling, and the confidence says so.

use crate::phase::Phase;
use crate::shape::{Form, Shape};

/// Decodes that what they return is averaged over.
const MEMORY: f64 = 8.0;
/// Less than this, bytes, is a request or two.
const TELLING: f64 = 16.0;
/// From this share of what decodes return on, decodes are among it...
const MIXED_MIN: f64 = 0.6;
/// ... and up to this share they are not.
const PREFILL_MAX: f64 = 0.3;

/// What decodes of a stream returned lately.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Returned {
    bytes: f64,
}

impl Returned {
    /// Takes a decode in.
    pub(super) fn learn(&mut self, shape: &Shape) {
        self.bytes += (shape.bytes_from_device as f64 - self.bytes) / MEMORY;
    }

    /// What a step that reads prompts is, and the surest that can be.
    pub(super) fn tell(&self, shape: &Shape, has_decodes: bool) -> (Phase, f64) {
        let share = shape.bytes_from_device as f64 / self.bytes.max(1.0);
        let is_telling = has_decodes && self.bytes >= TELLING && shape.bytes_from_device > 0;
        match shape.form {
            _ if is_telling && share >= MIXED_MIN => (Phase::Mixed, 0.85),
            _ if is_telling && share <= PREFILL_MAX => (Phase::Prefill, 0.95),
            // What is compiled in pieces is so for the sake of steps that are both.
            Form::Piecewise => (Phase::Mixed, 0.65),
            Form::Whole if has_decodes => (Phase::Mixed, 0.65),
            _ => (Phase::Prefill, 0.85),
        }
    }
}
