//! The keys under `hardware`: polling of GPU clocks.

use config::{GoDuration, Problems};
use hardware::DriverFactory;

use crate::source::ClockSettings;

/// The minimum interval; shorter ones cost more than they show.
const INTERVAL_MIN: GoDuration = GoDuration::from_millis(10);

config::section! {
    /// Polling of GPU clocks.
    #[derive(Clone, Debug, PartialEq)]
    pub struct HardwareConfig {
        /// Whether clocks are polled.
        pub enabled: bool = true,
        /// Interval of the polls, which bounds the resolution of what is known about a step.
        pub interval: GoDuration = GoDuration::from_millis(100) => in INTERVAL_MIN..,
        /// Library of NVIDIA's driver: a name that the loader finds, or a path.
        pub library: String = "libnvidia-ml.so.1".to_owned(),
        /// Library of AMD's driver: a name that the loader finds, or a path. Unset tries the usual names.
        pub amdsmi_library: Option<String>,
    }
}

impl HardwareConfig {
    /// Checks the values.
    pub(super) fn check(&self, problems: &mut Problems<'_>) {
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
