//! The `nvml` receiver: OpenTelemetry's hardware metrics and events of NVIDIA GPUs.
//!
//! This crate contains only the calls, numbers and masks of NVIDIA's library. The conversion to telemetry is the same
//! for every vendor and is in `hardware`.

mod events;
mod fault;
mod query;
mod session;
mod throttle;
mod xid;

use component::{BuildContext, Receiver, ReceiverFactory, Stability};
use config::{ConfigError, Section};
use hardware::{Config, Driver, Vendor};
use pdata::Signal;
use semconv::value::GpuHardwareThrottleReason as Reason;
pub use session::NvmlLibrary;

/// Names of the vendor and of its driver.
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

/// The factory of the receiver.
pub const FACTORY: ReceiverFactory = ReceiverFactory {
    kind: VENDOR.receiver,
    aliases: &[],
    signals: &[Signal::Logs, Signal::Metrics],
    stability: Stability::Alpha,
    about: "Polls NVIDIA's driver for utilization, memory, temperature, power, clocks, throttling and errors of its GPUs.",
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

/// Returns NVIDIA's driver, by the path of its library or as the loader finds it.
pub fn driver(path: Option<&str>) -> Box<dyn Driver> {
    Box::new(path.map_or_else(NvmlLibrary::default, |path| NvmlLibrary { path: path.into() }))
}
