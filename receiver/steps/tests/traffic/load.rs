//! What an inference server is asked to do, and how long a healthy one takes for it.
//!
//! The one idea: the load moves, the server does not. Batches follow a rate that changes within minutes, prompts
//! have a long tail, the clock of the GPU and the contexts drift, and single steps jitter with a heavy tail. None of
//! it is slowness.

use super::{MS, Rng, Shape};

/// Batch sizes that a graph is captured for.
const CAPTURED: [u64; 14] = [1, 2, 4, 8, 16, 24, 32, 48, 64, 96, 128, 160, 192, 256];

/// How the load moves.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Load {
    /// One batch size, prompts of one length.
    Steady,
    /// Every batch size at any time, prompts of any length.
    Mixed,
    /// Contexts grow and shrink: everything takes up to a fifth more or less, within thousands of steps.
    Drift,
    /// The rate follows the hours of a day; batches and the share of prompts follow the rate.
    Diurnal,
    /// As mixed, on a machine with neighbours: healthy steps scatter so far that some are slow by any definition.
    Noisy,
}

impl Load {
    /// The loads of machines that are well.
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

    /// The next step, and what it takes, ns.
    pub fn next(&mut self) -> (Shape, f64) {
        self.count += 1;
        let rate = self.rate();
        let shape = match self.rng.chance(0.1 + 0.3 * rate) {
            true => Shape::Prefill { tokens: self.tokens() },
            false => Shape::Decode { batch: captured(self.batch(rate)) },
        };
        (shape, self.kind_ns(shape) * self.jitter())
    }

    /// What a step like the last one takes as a rule, ns: drift included, jitter left out.
    pub fn kind_ns(&self, shape: Shape) -> f64 {
        MS * usual_ms(shape) * self.drift()
    }

    /// From 0 to 1.
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

    /// A few percent as a rule, and of one step in thirty a Pareto tail that ends at a third.
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

/// What such a step takes without jitter, ms.
fn usual_ms(shape: Shape) -> f64 {
    match shape {
        Shape::Decode { batch } => 8.0 + 0.05 * batch as f64,
        Shape::Prefill { tokens } => 12.0 + 0.05 * tokens as f64,
    }
}

fn captured(batch: f64) -> u64 {
    CAPTURED.into_iter().find(|size| *size as f64 >= batch.floor()).unwrap_or(256)
}
