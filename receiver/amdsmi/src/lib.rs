//! The `amdsmi` receiver: what the driver of AMD's GPUs says of them, as OpenTelemetry's hardware metrics and events.
//!
//! The one idea: only the library's functions, layouts and numbers stand here. What becomes of the answers is the same
//! for every vendor, and stands in `hardware`.

mod ask;
mod events;
mod layout;
mod library;
mod session;
mod status;
mod throttle;

use component::{BuildContext, Receiver, ReceiverFactory, Stability};
use config::{ConfigError, Section};
use hardware::{Config, Vendor};
use pdata::Signal;
use semconv::value::GpuHardwareThrottleReason as Reason;

pub use layout::{FIELDS, Field, Place, VERSIONS};
pub use session::Library;

/// Whose GPUs these are.
pub const VENDOR: Vendor = Vendor {
    name: "AMD",
    receiver: "amdsmi",
    scope: "warptap/receiver/amdsmi",
    reasons: &[
        Reason::Hw,
        Reason::HwSlowdown,
        Reason::HwThermal,
        Reason::MemoryThermal,
        Reason::SwPowerCap,
        Reason::VrThermal,
    ],
};

/// The row of the receivers' table.
pub const FACTORY: ReceiverFactory = ReceiverFactory {
    kind: VENDOR.receiver,
    aliases: &[],
    signals: &[Signal::Logs, Signal::Metrics],
    stability: Stability::Alpha,
    about: "Asks the driver of AMD GPUs for their load, memory, heat, power, clocks, throttling, links and errors.",
    example: "\
collection_interval: 10s
",
    build,
};

fn build(_context: &BuildContext, section: Section<'_>) -> Result<Box<dyn Receiver>, ConfigError> {
    let config = Config::read(section)?;
    let library = config.library.as_ref().map_or_else(Library::default, Library::at);
    Ok(hardware::receiver(VENDOR, &config, Box::new(library)))
}
