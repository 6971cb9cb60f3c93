//! Steps of GPU workloads: their phase, their baseline, and the causes of outliers.
//!
//! The kernel sends one record for each stretch of work that a sync call waited for. Four stages make a verdict of it,
//! each a comparison with earlier records:
//!
//! ```text
//!  StepRecord --- assemble ---> step ----- phase -----> label ---- baseline ----> verdict --- causes --> causes
//!  (a segment)    serving or    (Group)    shape        and        (workload,     and          of the
//!                 training?                only         confidence phase)         bucket       excess
//! ```
//!
//! ```
//! use steps::{Engine, Finding, Settings};
//!
//! # let events: Vec<event::Event> = Vec::new();
//! let (mut engine, mut findings) = (Engine::new(Settings::default()), Vec::new());
//! events.iter().for_each(|event| engine.observe(event, &mut findings));
//! engine.finish(&mut findings);
//! for finding in findings {
//!     match finding {
//!         Finding::Step(step) => println!("{} {} ns", step.phase.as_str(), step.duration_ns),
//!         Finding::BaselineShift(shift) => println!("{} has changed", shift.phase.as_str()),
//!     }
//! }
//! ```
//!
//! Baselines survive the process and the agent: [`Engine::take_changed`] returns the workloads whose baselines changed,
//! [`Engine::baseline_record`] encodes them as a [`BaselineRecord`], and [`Engine::restore`] restores one. The caller
//! stores the bytes.
//!
//! Pure: no clock, file or thread, and no order that depends on hashing. All state is bounded, and evictions are counted
//! in [`StepTally`]. Spans and instruments belong to `gpu`.

mod assemble;
pub mod baseline;
mod baseline_cache;
mod causes;
mod engine;
mod finding;
mod gpu_attribution;
mod identity;
mod kernels;
mod lanes;
mod mode;
mod peer_waits;
pub mod phase;
mod process;
mod profile;
pub mod record;
mod segment;
mod settings;
pub mod shape;
mod stream;
#[cfg(test)]
mod testing;
mod throttling;
mod workload;

pub use crate::baseline::{BaselineKey, BaselineLevel, BaselineSettings, Outlier, outlier_bucket};
pub use crate::causes::{Cause, CauseKind, Severity};
pub use crate::engine::Engine;
pub use crate::finding::{
    BaselineShift, Certainty, EventId, Finding, Gpu, Increase, Step, StepTally, Throttled,
};
pub use crate::identity::WorkloadId;
pub use crate::phase::{Classifier, Hint, Phase, PhaseLabel, Rules, RulesError, Thresholds};
pub use crate::record::BaselineRecord;
pub use crate::settings::{Joining, STREAMS_MAX, Settings};
pub use crate::shape::StepWork;
pub use crate::throttling::ThrottleShares;
