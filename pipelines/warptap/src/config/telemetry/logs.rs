//! The section `service::telemetry::logs`.

use std::time::Duration;

use config::Node;

use super::Reading;
use super::keys::{LogsKeys, SamplingKeys};
use super::push::{self, ProcessorConfig};
use crate::config::LogLevel;

/// Settings of the collector's log.
#[derive(Clone, Debug, PartialEq)]
pub struct Logs {
    /// Minimum severity of logged messages.
    pub level: LogLevel,
    /// Format of a line.
    pub encoding: LogEncoding,
    /// Whether lines have the position in the source code.
    pub has_caller: bool,
    /// Whether lines have the attributes of the resource.
    pub has_resource: bool,
    /// Sampling of repeated lines; `None` disables it.
    pub sampling: Option<Sampling>,
    /// Destinations: `stdout`, `stderr`, or paths of files.
    pub output_paths: Vec<String>,
    /// Destinations of errors while writing the log.
    pub error_output_paths: Vec<String>,
    /// Fields of every line, by name.
    pub initial_fields: Vec<(String, Node)>,
    /// Processors that export the lines as log records, too.
    pub processors: Vec<ProcessorConfig>,
}

/// Format of a line.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum LogEncoding {
    /// Columns, followed by the fields as JSON.
    #[default]
    Console,
    /// A JSON object.
    Json,
}

/// Of lines with one level and message in one tick, the first `initial` and then one in `thereafter` are logged.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Sampling {
    /// Length of a tick, after which counting restarts.
    pub tick: Duration,
    /// Number of lines that are logged per tick.
    pub initial: u64,
    /// One in this many of the others is logged; 0 logs none.
    pub thereafter: u64,
}

impl Default for Sampling {
    fn default() -> Self {
        Sampling { tick: Duration::from_secs(10), initial: 10, thereafter: 100 }
    }
}

impl Default for Logs {
    fn default() -> Self {
        Logs {
            level: LogLevel::default(),
            encoding: LogEncoding::Console,
            has_caller: true,
            has_resource: true,
            sampling: Some(Sampling::default()),
            output_paths: stderr(),
            error_output_paths: stderr(),
            initial_fields: Vec::new(),
            processors: Vec::new(),
        }
    }
}

fn stderr() -> Vec<String> {
    vec!["stderr".to_owned()]
}

impl Logs {
    pub(super) fn read(reading: &mut Reading<'_>) -> Self {
        let keys: LogsKeys = reading.decode();
        if keys.development {
            reading.no_effect("development");
        }
        if keys.disable_stacktrace == Some(false) {
            reading.odd("disable_stacktrace", "is accepted, but lines never carry stack traces here");
        }
        Logs {
            level: keys.level,
            encoding: encoding(keys.encoding.as_deref(), reading),
            has_caller: !keys.disable_caller,
            has_resource: !keys.disable_zap_resource,
            sampling: sampling(&keys.sampling, reading),
            processors: push::processors(&keys.processors, &push::LOGS, reading),
            output_paths: paths("output_paths", keys.output_paths, reading),
            error_output_paths: paths("error_output_paths", keys.error_output_paths, reading),
            initial_fields: keys.initial_fields.into_iter().collect(),
        }
    }
}

fn encoding(written: Option<&str>, reading: &mut Reading<'_>) -> LogEncoding {
    match written {
        None | Some("console") => LogEncoding::Console,
        Some("json") => LogEncoding::Json,
        Some(other) => {
            let message =
                format!("no encoder registered for name {other:?}: expected \"console\" or \"json\"");
            reading.wrong("encoding", message);
            LogEncoding::default()
        }
    }
}

fn sampling(keys: &SamplingKeys, reading: &mut Reading<'_>) -> Option<Sampling> {
    let default = Sampling::default();
    let mut count = |key: &str, written: Option<i64>, default: u64| match written.map(u64::try_from) {
        None => default,
        Some(Ok(count)) => count,
        Some(Err(_)) => {
            reading.wrong(&format!("sampling::{key}"), "expected zero or more");
            default
        }
    };
    let sampling = Sampling {
        tick: keys.tick.map_or(default.tick, |tick| *tick),
        initial: count("initial", keys.initial, default.initial),
        thereafter: count("thereafter", keys.thereafter, default.thereafter),
    };
    keys.enabled.unwrap_or(true).then_some(sampling)
}

/// Returns paths; URLs of files are converted to paths.
fn paths(key: &str, written: Option<Vec<String>>, reading: &mut Reading<'_>) -> Vec<String> {
    let Some(paths) = written else { return stderr() };
    let mut found = Vec::new();
    for (index, path) in paths.into_iter().enumerate() {
        match path.split_once("://") {
            Some(("file", path)) if path.starts_with('/') => found.push(path.to_owned()),
            Some(_) => {
                let message =
                    format!("{path:?} cannot be opened: expected stdout, stderr, a path, or file:///path");
                reading.wrong(&format!("{key}[{index}]"), message);
            }
            None => found.push(path),
        }
    }
    found
}
