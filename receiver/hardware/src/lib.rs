//! What a vendor's driver says of its GPUs, as OpenTelemetry's hardware metrics and events: all but the asking.
//!
//! The one idea: a [`Monitor`] that knows no clock, no thread and no driver, beside a thread that asks a [`Driver`] every
//! question once per interval and waits for its events meanwhile. Nothing that a driver does stops anything: what is
//! not supported, fails, is lost or never answers is told once, and told again when it is over.
//!
//! Names are values of `semconv`; a vendor's library, numbers and masks stay in its own package, and what a step of a
//! process made of a GPU is for `gpu` to say.

mod config;
mod device;
mod driver;
mod known;
mod monitor;
mod points;
mod questions;
mod receiver;
mod roster;
mod tell;
#[cfg(feature = "testing")]
pub mod testing;
mod throttle;
mod users;
mod watch;

pub use self::config::Config;
pub use driver::{Driver, Fault, Identity, Incident, Process, Reading, Session, Vendor};
pub use monitor::{Monitor, Pass, Settings};
pub use questions::{QUESTIONS, Question, counted_by};
pub use receiver::receiver;
pub use roster::Roster;
pub use throttle::Reasons;
