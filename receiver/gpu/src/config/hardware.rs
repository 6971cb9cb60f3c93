//! The keys under `hardware`: whether and how often the clocks of the GPUs are looked at.

use std::time::Duration;

use config::{GoDuration, Problems};
use serde::Deserialize;

use crate::hardware::HardwareSettings;

/// Looks that follow each other faster than this cost more than they tell.
const INTERVAL_MIN: Duration = Duration::from_millis(10);

/// Whether the clocks of the GPUs are looked at, for outliers to say what held them down.
#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(default)]
pub struct HardwareConfig {
    /// False where nobody looks.
    pub enabled: bool,
    /// Time between looks: what is known of a step is as fine as this.
    pub interval: GoDuration,
    /// The library of NVIDIA's driver: a name that the loader finds, or a path.
    pub library: String,
    /// The library of AMD's driver, in the same way; the one that is found where nothing is said.
    pub amdsmi_library: Option<String>,
}

impl Default for HardwareConfig {
    fn default() -> Self {
        let HardwareSettings { interval, library, .. } = HardwareSettings::default();
        let library = library.path.to_string_lossy().into_owned();
        HardwareConfig { enabled: true, interval: interval.into(), library, amdsmi_library: None }
    }
}

impl HardwareConfig {
    /// Adds what is wrong with it.
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

    /// How it is looked, where it is.
    pub(super) fn settings(&self) -> Option<HardwareSettings> {
        let library = nvml::Library { path: self.library.clone().into() };
        let amdsmi = self.amdsmi_library.as_ref().map_or_else(amdsmi::Library::default, amdsmi::Library::at);
        self.enabled.then_some(HardwareSettings { interval: *self.interval, library, amdsmi })
    }
}
