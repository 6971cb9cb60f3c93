//! The OpenTelemetry SDK behind a receiver of ours: what the registry names goes in, OTLP that is ready comes out.
//!
//! The one idea: receivers differ in what they see, not in how it is said. Instruments, log records and spans are the
//! SDK's, and take values of `semconv` alone; ids are hashes, and times the caller's, so that the same events give the
//! same bytes; what a pipeline does not take in time waits in bounded buffers and is counted where it has to go.
//!
//! Knows nothing of GPUs, of sources, or of what any of it means.

mod batch;
mod delivery;
mod ids;
mod instruments;
mod join;
mod limit;
mod records;
mod resource;
#[cfg(feature = "testing")]
pub mod testing;
mod tidy;

pub use batch::{Batch, Sink, hand_over, metrics, of_resource};
pub use delivery::{Delivery, Outlet, Pace, Undelivered, channel};
pub use ids::Hash;
pub use instruments::{Instruments, scope};
pub use limit::Limit;
pub use records::{Records, instant, unix_ns};
pub use resource::{VERSION, built, common, encoded, host, instance, receiver};
pub use tidy::{OVERFLOW, Window, overflowing, tidy, tidy_each};
