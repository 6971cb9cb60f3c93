//! Steps: the turns of a workload, with their phase, what is usual for them, and which of them were slow.
//!
//! The one idea: the kernel sends one record for each stretch of work that something waited for. Four layers make
//! a verdict of it, each of them a comparison with what came before:
//!
//! ```text
//!  StepRecord --- assemble ---> step ----- phase -----> label ---- baseline ----> verdict --- causes --> why
//!  (a segment)    serving or    (Group)    shape        and how    (workload,     and          of the
//!                 training?                only         sure       phase)         bucket       excess
//! ```
//!
//! ```
//! use steps::{Engine, Finding, Settings};
//!
//! # let events: Vec<event::Event> = Vec::new();
//! let mut engine = Engine::new(Settings::default());
//! let mut print = |finding| match finding {
//!     Finding::Step(step) => println!("{} {} ns, {}", step.phase.as_str(), step.duration_ns, step.outlier.as_str()),
//!     Finding::BaselineShift(shift) => println!("{} is another now", shift.phase.as_str()),
//! };
//! events.iter().for_each(|event| engine.observe(event, &mut print));
//! engine.finish(&mut print);
//! ```
//!
//! What is learnt outlives a process and the agent: [`Engine::take_changed`] names the workloads whose baselines
//! changed, [`Engine::baseline_record`] gives each as a [`BaselineRecord`], which is bytes and back, and
//! [`Engine::restore`] takes it over again. Whoever keeps the bytes is not here.
//!
//! Pure: no clock, no file, no thread, no order that depends on hashing. Everything it remembers is bounded, and
//! what is forgotten to stay within bounds is counted in [`Tally`]. What a span or an instrument is, it must not
//! know: that is `gpu`'s.

mod assemble;
pub mod baseline;
mod causes;
mod engine;
mod finding;
mod habit;
mod hardware;
mod identity;
mod mode;
mod others;
pub mod phase;
mod process;
pub mod record;
mod segment;
mod settings;
pub mod shape;
mod shelf;
mod stream;
#[cfg(test)]
mod testing;
mod throttling;
mod workload;

pub use crate::baseline::{BaselineKey, BaselineSettings, Level, Outlier, outlier_bucket};
pub use crate::causes::{Cause, CauseKind, Severity};
pub use crate::engine::{Engine, WorkloadState};
pub use crate::finding::{BaselineShift, Certainty, EventId, Finding, Gpu, RunQueue, Step, Tally, Throttled};
pub use crate::identity::WorkloadId;
pub use crate::mode::Mode;
pub use crate::phase::{Classifier, Label, Phase, Rules, RulesError, Thresholds};
pub use crate::record::BaselineRecord;
pub use crate::settings::{Joining, STREAMS_MAX, Settings};
pub use crate::shape::Work;
pub use crate::throttling::Shares;
