//! The distinction of prefill and mixed steps by the bytes that they return.
//!
//! A token is copied back for every request that is answered. A step that returns about as much as recent decodes answers
//! requests, too; one that returns a fraction of it only reads prompts. With one or two requests the confidence is low.

use crate::phase::Phase;
use crate::shape::{Form, Shape};

/// Decodes that returned bytes are averaged over.
const MEMORY: f64 = 8.0;
/// The fewest bytes of more than two requests.
const EVIDENT: f64 = 16.0;
/// The share of the bytes of decodes from which a step is mixed.
const MIXED_MIN: f64 = 0.6;
/// The share of the bytes of decodes up to which a step is a prefill.
const PREFILL_MAX: f64 = 0.3;

/// The bytes that recent decodes of a stream returned.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Returned {
    bytes: f64,
}

impl Returned {
    /// Learns from a decode.
    pub(super) fn learn(&mut self, shape: &Shape) {
        self.bytes += (shape.bytes_from_device as f64 - self.bytes) / MEMORY;
    }

    /// Returns the phase of a step that reads prompts, with the largest confidence that it can have.
    pub(super) fn label(&self, shape: &Shape, has_decodes: bool) -> (Phase, f64) {
        let share = shape.bytes_from_device as f64 / self.bytes.max(1.0);
        let is_evident = has_decodes && self.bytes >= EVIDENT && shape.bytes_from_device > 0;
        match shape.form {
            _ if is_evident && share >= MIXED_MIN => (Phase::Mixed, 0.85),
            _ if is_evident && share <= PREFILL_MAX => (Phase::Prefill, 0.95),
            // Engines compile piecewise for the sake of mixed steps.
            Form::Piecewise => (Phase::Mixed, 0.65),
            Form::Whole if has_decodes => (Phase::Mixed, 0.65),
            _ => (Phase::Prefill, 0.85),
        }
    }
}
