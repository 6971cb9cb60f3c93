//! The keys under `hardware`: polling of GPU clocks.

use std::time::Duration;

use config::{GoDuration, Problems};
use hardware::DriverFactory;
use serde::Deserialize;

use crate::source::ClockSettings;

/// The minimum interval; shorter ones cost more than they show.
const INTERVAL_MIN: Duration = Duration::from_millis(10);

/// Polling of GPU clocks, which shows throttling in outliers.
#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(default)]
pub struct HardwareConfig {
    /// Whether GPU clocks are polled.
    pub enabled: bool,
    /// Interval between polls, which is the resolution of throttle times.
    pub interval: GoDuration,
    /// The library of the first driver: a name that the loader finds, or a path.
    pub library: String,
    /// The library of the second driver, which is used if the first is absent; by default as it is found.
    pub amdsmi_library: Option<String>,
}

impl Default for HardwareConfig {
    fn default() -> Self {
        let library = "libnvidia-ml.so.1".to_owned();
        HardwareConfig {
            enabled: true,
            interval: Duration::from_millis(100).into(),
            library,
            amdsmi_library: None,
        }
    }
}

impl HardwareConfig {
    /// Checks the values.
    pub(super) fn check(&self, problems: &mut Problems<'_>) {
        problems.require(
            *self.interval >= INTERVAL_MIN,
            "hardware::interval",
            format!("{:?} is too short: expected at least {INTERVAL_MIN:?}", *self.interval),
        );
        let is_named = !self.library.is_empty();
        problems.require(is_named, "hardware::library", "\"\": expected the name or path of a library");
        let is_named = self.amdsmi_library.as_ref().is_none_or(|library| !library.is_empty());
        problems.require(
            is_named,
            "hardware::amdsmi_library",
            "\"\": expected the name or path of a library",
        );
    }

    /// Returns the settings of the poller, if enabled. The libraries are those of the factories, in order.
    pub(super) fn settings(&self, drivers: &[DriverFactory]) -> Option<ClockSettings> {
        let libraries = [Some(self.library.as_str()), self.amdsmi_library.as_deref()];
        let drivers = drivers.iter().zip(libraries).map(|(driver, library)| driver(library)).collect();
        self.enabled.then_some(ClockSettings { interval: *self.interval, drivers })
    }
}
