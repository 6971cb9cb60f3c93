//! The OpenTelemetry SDK behind a receiver: instruments, log records and spans of the registry go in, OTLP comes out.
//!
//! Instruments and records are the SDK's and accept values of `semconv` only. Ids are hashes and times are the caller's,
//! so that the same events give the same bytes. Batches that a pipeline does not accept in time wait in bounded buffers
//! and are counted when they are dropped. The crate knows nothing of GPUs or of event sources;
//! of events it knows the description of a process, whose resource is the same for all receivers.

mod append;
mod batch;
mod delivery;
mod ids;
mod instruments;
mod limit;
mod normalize;
mod process;
mod records;
mod resource;
mod service;
#[cfg(feature = "testing")]
pub mod testing;

pub use batch::{Batch, Sink, metrics, resource_metrics, take_records};
pub use delivery::{Backpressure, BatchSender, Delivery, DroppedItems, channel};
pub use ids::Hash;
pub use instruments::{Instruments, scope};
pub use limit::Limit;
pub use normalize::{OVERFLOW, TimeRange, normalize, normalize_with_start, overflowing};
pub use process::process;
pub use records::{Records, instant, unix_ns};
pub use resource::{VERSION, built, common, encoded, host, instance, receiver};
