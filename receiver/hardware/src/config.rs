//! The configuration section that the receivers of all vendors share.

use config::{ConfigError, GoDuration, Section};

use crate::monitor::Settings;

/// Minimum interval between polls: a driver call may take tens of milliseconds.
const INTERVAL_MIN: GoDuration = GoDuration::from_millis(100);

config::section! {
    /// The section of the receiver.
    #[derive(Clone, Debug, PartialEq)]
    pub struct Config {
        /// Interval at which devices are polled.
        pub collection_interval: GoDuration = GoDuration::from_secs(10) => in INTERVAL_MIN..,
        /// Library of the driver: a name that the loader finds, or a path. Unset is the vendor's own.
        pub library: Option<String>,
        /// Largest number of processes with series of their own. Those that use the most device memory come first.
        pub processes_max: usize = Settings::default().processes_max,
    }
}

impl Config {
    /// Decodes and validates a section.
    pub fn read(section: Section<'_>) -> Result<Config, ConfigError> {
        let (config, mut problems) = section.read::<Config>();
        let is_named = config.library.as_ref().is_none_or(|library| !library.is_empty());
        problems.require(is_named, "library", "\"\": expected the name or path of a library");
        problems.finish()?;
        Ok(config)
    }

    /// Returns the settings of the monitor.
    pub(crate) fn settings(&self) -> Settings {
        Settings { processes_max: self.processes_max, ..Settings::default() }
    }
}

#[cfg(test)]
mod tests {
    use config::Node;

    use super::*;

    fn read(json: &str) -> Result<Config, String> {
        let node: Node = serde_json::from_str(json).unwrap();
        Config::read(Section::new("receivers::gpus", &node)).map_err(|e| e.to_string())
    }

    #[test]
    fn empty_section_is_the_default() {
        assert_eq!(read("null"), Ok(Config::default()));
        assert_eq!(read("{}"), Ok(Config::default()));
    }

    #[test]
    fn values_reach_the_settings() {
        let config =
            read(r#"{"collection_interval": "2s", "library": "/x.so", "processes_max": 0}"#).unwrap();
        assert_eq!(config.collection_interval, GoDuration::from_secs(2));
        assert_eq!((config.library.as_deref(), config.settings().processes_max), (Some("/x.so"), 0));
    }

    #[test]
    fn every_wrong_value_is_reported_with_its_position() {
        for (json, want) in [
            (r#"{"collection_intervall": "2s"}"#, "collection_interval"),
            (
                r#"{"collection_interval": "1ms"}"#,
                "collection_interval: 1ms is out of range: expected 100ms or more",
            ),
            (r#"{"library": ""}"#, "library: \"\": expected the name or path of a library"),
            (r#"{"processes_max": -1}"#, "processes_max"),
        ] {
            let error = read(json).unwrap_err();
            assert!(error.contains(want), "{error}");
        }
    }
}
