//! The section of the configuration, which the receivers of all vendors share.

use config::{ConfigError, GoDuration, Section};
use serde::Deserialize;

use crate::monitor::Settings;

/// Passes that follow each other faster than this cost more than they tell.
const INTERVAL_MIN_MS: u128 = 100;

/// What the user writes.
#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(default)]
pub struct Config {
    /// How often devices are asked.
    pub collection_interval: GoDuration,
    /// The driver's library: a name that the loader finds, or a path. None is the vendor's own.
    pub library: Option<String>,
    /// Processes that have series at a time; those that use most device memory come first.
    pub processes_max: usize,
}

impl Default for Config {
    fn default() -> Self {
        Config {
            collection_interval: GoDuration::from_secs(10),
            library: None,
            processes_max: Settings::default().processes_max,
        }
    }
}

impl Config {
    /// Reads and checks a section.
    pub fn read(section: Section<'_>) -> Result<Config, ConfigError> {
        let config: Config = section.decode()?;
        let mut problems = section.problems();
        let interval = config.collection_interval;
        problems.require(
            interval.as_millis() >= INTERVAL_MIN_MS,
            "collection_interval",
            format!("{:?} is too short: expected at least {INTERVAL_MIN_MS}ms", *interval),
        );
        let is_named = config.library.as_ref().is_none_or(|library| !library.is_empty());
        problems.require(is_named, "library", "\"\": expected the name or path of a library");
        problems.finish()?;
        Ok(config)
    }

    /// How telemetry is made.
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
    fn nothing_written_is_the_default() {
        assert_eq!(read("null"), Ok(Config::default()));
        assert_eq!(read("{}"), Ok(Config::default()));
    }

    #[test]
    fn what_is_written_is_what_runs() {
        let config =
            read(r#"{"collection_interval": "2s", "library": "/x.so", "processes_max": 0}"#).unwrap();
        assert_eq!(config.collection_interval, GoDuration::from_secs(2));
        assert_eq!((config.library.as_deref(), config.settings().processes_max), (Some("/x.so"), 0));
    }

    #[test]
    fn every_wrong_value_is_told_with_its_place() {
        for (json, want) in [
            (r#"{"collection_intervall": "2s"}"#, "collection_interval"),
            (
                r#"{"collection_interval": "1ms"}"#,
                "collection_interval: 1ms is too short: expected at least 100ms",
            ),
            (r#"{"library": ""}"#, "library: \"\": expected the name or path of a library"),
            (r#"{"processes_max": -1}"#, "processes_max"),
        ] {
            let told = read(json).unwrap_err();
            assert!(told.contains(want), "{told}");
        }
    }
}
