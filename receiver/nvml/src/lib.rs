//! The `nvml` receiver: what the driver of NVIDIA's GPUs says of them, as OpenTelemetry's hardware metrics and events.
//!
//! The one idea: only the library's questions, numbers and masks stand here. What becomes of the answers is the same for
//! every vendor, and stands in `hardware`.

mod ask;
mod events;
mod fault;
mod session;
mod throttle;
mod xid;

use component::{BuildContext, Receiver, ReceiverFactory, Stability};
use config::{ConfigError, Section};
use hardware::{Config, Vendor};
use pdata::Signal;
use semconv::value::GpuHardwareThrottleReason as Reason;
pub use session::Library;

/// Whose GPUs these are.
pub const VENDOR: Vendor = Vendor {
    name: "NVIDIA",
    receiver: "nvml",
    scope: "warptap/receiver/nvml",
    reasons: &[
        Reason::ApplicationsClocks,
        Reason::DisplayClock,
        Reason::Hw,
        Reason::HwPowerBrake,
        Reason::HwSlowdown,
        Reason::HwThermal,
        Reason::SwPowerCap,
        Reason::SwThermal,
        Reason::SyncBoost,
    ],
};

/// The row of the receivers' table.
pub const FACTORY: ReceiverFactory = ReceiverFactory {
    kind: VENDOR.receiver,
    aliases: &[],
    signals: &[Signal::Logs, Signal::Metrics],
    stability: Stability::Alpha,
    about: "Asks the driver of NVIDIA GPUs for their load, memory, heat, power, clocks, throttling and errors.",
    example: "\
collection_interval: 10s
",
    build,
};

fn build(_context: &BuildContext, section: Section<'_>) -> Result<Box<dyn Receiver>, ConfigError> {
    let config = Config::read(section)?;
    let library = config.library.clone().map_or_else(Library::default, |path| Library { path: path.into() });
    Ok(hardware::receiver(VENDOR, &config, Box::new(library)))
}
