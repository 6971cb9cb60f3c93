//! The `amdsmi` receiver: OpenTelemetry's hardware metrics and events of AMD GPUs.
//!
//! This crate contains only the functions, layouts and numbers of AMD's library. The conversion to telemetry is the same
//! for every vendor and is in `hardware`.

mod events;
mod layout;
mod library;
mod query;
mod session;
mod status;
mod throttle;

use component::{BuildContext, Receiver, ReceiverFactory, Stability};
use config::{ConfigError, Section};
use hardware::{Config, Driver, Vendor};
use pdata::Signal;
use semconv::value::GpuHardwareThrottleReason as Reason;

pub use layout::{FIELDS, Place, StructField, VERSIONS};
pub use session::AmdsmiLibrary;

/// Names of the vendor and of its driver.
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

/// The factory of the receiver.
pub const FACTORY: ReceiverFactory = ReceiverFactory {
    kind: VENDOR.receiver,
    aliases: &[],
    signals: &[Signal::Logs, Signal::Metrics],
    stability: Stability::Alpha,
    about: "Polls AMD's library for utilization, memory, temperature, power, clocks, throttling, links and errors of its GPUs.",
    example: "\
collection_interval: 10s
",
    keys: config::keys::<Config>,
    build,
};

fn build(_context: &BuildContext, section: Section<'_>) -> Result<Box<dyn Receiver>, ConfigError> {
    let config = Config::read(section)?;
    Ok(hardware::receiver(VENDOR, &config, driver(config.library.as_deref())))
}

/// Returns AMD's driver, by the path of its library or as the loader finds it.
pub fn driver(path: Option<&str>) -> Box<dyn Driver> {
    Box::new(path.map_or_else(AmdsmiLibrary::default, AmdsmiLibrary::at))
}
