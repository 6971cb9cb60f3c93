//! The section `service::telemetry::logs`.

use config::{GoDuration, Node, Problems};

use super::keys::LogsKeys;
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

config::choice! {
    /// Format of a line.
    #[derive(Default)]
    pub enum LogEncoding {
        /// Columns, followed by the fields as JSON.
        #[default]
        Console = "console",
        /// A JSON object.
        Json = "json",
    }
}

config::section! {
    /// Of lines with one level and message in one tick, the first `initial` and then one in `thereafter` are logged.
    #[derive(Clone, Copy, Debug, Eq, PartialEq)]
    pub struct Sampling {
        /// Whether lines are sampled.
        pub enabled: bool = true,
        /// Length of a tick, after which counting restarts.
        pub tick: GoDuration = GoDuration::from_secs(10),
        /// Number of lines that are logged per tick.
        pub initial: u64 = 10,
        /// Of the others, one in this many is logged. 0 logs none.
        pub thereafter: u64 = 100,
    }
}

impl Default for Logs {
    fn default() -> Self {
        Logs::from(LogsKeys::default())
    }
}

impl From<LogsKeys> for Logs {
    fn from(keys: LogsKeys) -> Self {
        Logs {
            level: keys.level,
            encoding: keys.encoding,
            has_caller: !keys.disable_caller,
            has_resource: !keys.disable_zap_resource,
            sampling: keys.sampling.enabled.then_some(keys.sampling),
            output_paths: keys.output_paths,
            error_output_paths: keys.error_output_paths,
            initial_fields: keys.initial_fields.into_iter().collect(),
            processors: Vec::new(),
        }
    }
}

impl Logs {
    pub(super) fn new(keys: LogsKeys, problems: &mut Problems<'_>) -> Self {
        if keys.disable_stacktrace == Some(false) {
            problems
                .warn("logs::disable_stacktrace", "accepted without effect: lines never have stack traces");
        }
        let processors = push::processors(&keys.processors, "logs", &push::LOGS, problems);
        let mut logs = Logs { processors, ..Logs::from(keys) };
        check_paths("output_paths", &mut logs.output_paths, problems);
        check_paths("error_output_paths", &mut logs.error_output_paths, problems);
        logs
    }
}

/// Checks paths, and replaces URLs of files by their paths.
fn check_paths(key: &str, paths: &mut [String], problems: &mut Problems<'_>) {
    for (index, path) in paths.iter_mut().enumerate() {
        match path.split_once("://") {
            Some(("file", rest)) if rest.starts_with('/') => *path = rest.to_owned(),
            Some(_) => problems.add(&format!("logs::{key}[{index}]"), {
                format!("{path:?} cannot be opened: expected stdout, stderr, a path, or file:///path")
            }),
            None => {}
        }
    }
}
