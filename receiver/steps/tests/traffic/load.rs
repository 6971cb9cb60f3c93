//! The load of an inference server, and the durations of a healthy one.
//!
//! The load varies, the speed of the server does not. Batches follow a rate that changes within minutes, the lengths of
//! prompts have a long tail, the clock of the GPU and the contexts drift, and steps jitter with a heavy tail. None of it is
//! slowness.

use super::{MS, Rng, Shape};

/// Batch sizes with a captured graph.
const CAPTURED: [u64; 14] = [1, 2, 4, 8, 16, 24, 32, 48, 64, 96, 128, 160, 192, 256];

/// The variation of the load.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Load {
    /// One batch size, and prompts of one length.
    Steady,
    /// Every batch size at any time, and prompts of any length.
    Mixed,
    /// Contexts grow and shrink: durations vary by up to a fifth within thousands of steps.
    Drift,
    /// The rate follows the time of day; batches and the share of prompts follow the rate.
    Diurnal,
    /// As mixed, on a shared machine: healthy steps scatter so far that some are slow by any definition.
    Noisy,
}

impl Load {
    /// The loads of quiet machines.
    pub const ALL: [Load; 4] = [Load::Steady, Load::Mixed, Load::Drift, Load::Diurnal];
}

/// A healthy server under a load.
#[derive(Clone, Debug)]
pub struct Healthy {
    load: Load,
    rng: Rng,
    count: u64,
}

impl Healthy {
    pub fn new(load: Load, seed: u64) -> Healthy {
        Healthy { load, rng: Rng::new(seed), count: 0 }
    }

    /// Returns the next step and its duration, ns.
    pub fn next(&mut self) -> (Shape, f64) {
        self.count += 1;
        let rate = self.rate();
        let shape = match self.rng.chance(0.1 + 0.3 * rate) {
            true => Shape::Prefill { tokens: self.tokens() },
            false => Shape::Decode { batch: captured(self.batch(rate)) },
        };
        (shape, self.kind_ns(shape) * self.jitter())
    }

    /// Returns the usual duration of such a step, ns, with drift and without jitter.
    pub fn kind_ns(&self, shape: Shape) -> f64 {
        MS * usual_ms(shape) * self.drift()
    }

    /// Returns the rate, 0 to 1.
    fn rate(&mut self) -> f64 {
        match self.load {
            Load::Steady | Load::Drift => 0.5,
            Load::Mixed | Load::Noisy => self.rng.uniform(0.0, 1.0),
            Load::Diurnal => 0.5 - 0.5 * (self.count as f64 / 6_000.0 * std::f64::consts::TAU).cos(),
        }
    }

    fn batch(&mut self, rate: f64) -> f64 {
        match self.load {
            Load::Steady => 32.0,
            Load::Drift => self.rng.uniform(24.0, 40.0),
            Load::Mixed | Load::Diurnal | Load::Noisy => {
                let mean = 1.0 + 200.0 * rate * rate;
                (mean + mean.sqrt() * self.rng.normal()).clamp(1.0, 256.0)
            }
        }
    }

    fn tokens(&mut self) -> u64 {
        match self.load {
            Load::Steady => 900,
            _ => (900.0 * (0.9 * self.rng.normal()).exp()).clamp(256.0, 8_192.0) as u64,
        }
    }

    fn drift(&self) -> f64 {
        match self.load {
            Load::Drift => 1.0 + 0.2 * (self.count as f64 / 8_000.0 * std::f64::consts::TAU).sin(),
            _ => 1.0,
        }
    }

    /// Returns the jitter: usually a few percent, and for one step in thirty a Pareto tail up to a third.
    fn jitter(&mut self) -> f64 {
        let (sigma, tail, most) = match self.load {
            Load::Noisy => (0.08, 0.05, 1.4),
            _ => (0.05, 0.03, 1.3),
        };
        let usual = (sigma * self.rng.normal()).exp();
        match self.rng.chance(tail) {
            true => usual * self.rng.uniform(1e-9, 1.0).powf(-1.0 / 8.0).min(most),
            false => usual,
        }
    }
}

/// Returns the duration of such a step without jitter, ms.
fn usual_ms(shape: Shape) -> f64 {
    match shape {
        Shape::Decode { batch } => 8.0 + 0.05 * batch as f64,
        Shape::Prefill { tokens } => 12.0 + 0.05 * tokens as f64,
    }
}

fn captured(batch: f64) -> u64 {
    CAPTURED.into_iter().find(|size| *size as f64 >= batch.floor()).unwrap_or(256)
}
