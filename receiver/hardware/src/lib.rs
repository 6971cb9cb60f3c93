//! OpenTelemetry's hardware metrics and events of GPUs, for the driver of any vendor.
//!
//! A [`Monitor`] without clock, thread or driver turns polls into telemetry. A thread polls a [`Driver`] once per interval
//! and waits for its events in between. A fault of a driver never stops the receiver: a query that is unsupported or
//! fails, and a device that is lost or hangs, is logged once, and again when it recovers.
//!
//! A [`ClockPoller`] polls clocks for `gpu`, as events. Names are values of `semconv`; a vendor's library, numbers and masks
//! are in its own package.

mod clock_poller;
mod clocks;
mod config;
mod device_points;
mod device_state;
mod driver;
mod log_events;
mod monitor;
mod points;
mod poller;
mod queries;
mod receiver;
mod roster;
#[cfg(feature = "testing")]
pub mod testing;
mod throttle;
mod users;

pub use self::config::Config;
pub use clock_poller::{ClockPoller, FirstDriver};
pub use clocks::ClockSamples;
pub use driver::{Driver, DriverFactory, Fault, Identity, Incident, Process, Reading, Session, Vendor};
pub use monitor::{DriverPoll, Monitor, Settings};
pub use queries::{DriverQuery, QUERY_COUNT, duration_query};
pub use receiver::receiver;
pub use roster::Roster;
pub use throttle::Reasons;
