//! The `nvml` receiver: what the driver of NVIDIA's GPUs says of them, as OpenTelemetry's hardware metrics and events.
//!
//! The one idea: a [`Monitor`] that knows no clock, no thread and no driver, beside a thread that asks a [`Driver`] every
//! question once per interval and waits for its events meanwhile. Nothing that a driver does stops anything: what is
//! not supported, fails, is lost or never answers is told once, and told again when it is over.
//!
//! Names are values of `semconv`; what a step of a process made of a GPU is for `gpu` to say.

mod config;
pub mod driver;
mod known;
mod monitor;
mod points;
mod questions;
mod receiver;
mod session;
mod tell;
mod throttle;
mod watch;
mod xid;

pub use config::Config;
pub use monitor::{Monitor, Pass, Settings};
pub use questions::{QUESTIONS, Question};
pub use receiver::{FACTORY, receiver};
pub use session::Library;
pub use throttle::{counted_by, is_active};

/// The name of the scope of everything that this receiver emits.
const SCOPE: &str = "warptap/receiver/nvml";
