//! The processors: the steps in the middle of a pipeline.
//!
//! Every processor is one file or folder with one row, its `FACTORY`; the binary lists the rows. What several
//! of them share stands beside them: `actions` changes attributes, `matching` says which data is meant,
//! `change` is the consumer of a processor that only changes what passes by. Where data comes from and where
//! it goes is left to the pipeline.

mod actions;
pub mod attributes;
pub mod batch;
mod change;
pub mod cumulative_to_delta;
pub mod group_by_attrs;
mod identity;
mod matching;
pub mod memory_limiter;
pub mod probabilistic_sampler;
pub mod resource;
pub mod resource_detection;
mod telemetry;

pub use actions::ActionConfig;
pub use matching::{MatchConfig, RegexpConfig};

#[cfg(test)]
mod testing;
