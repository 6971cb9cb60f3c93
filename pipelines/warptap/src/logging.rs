//! The log of the collector itself: lines on standard error, as severe as the configuration asks for.

use tracing_subscriber::EnvFilter;

use crate::config::LogLevel;

/// Libraries whose own debug messages nobody asked for.
const QUIET: &str = "h2=info,hyper=info,hyper_util=info,tonic=info,tower=info";

/// Starts the log. A log that is there already, as in a test, stays.
pub fn init(level: LogLevel) {
    let level = match level {
        LogLevel::Debug => "debug",
        LogLevel::Info => "info",
        LogLevel::Warn => "warn",
        LogLevel::Error => "error",
    };
    let directives = if level == "debug" { format!("{level},{QUIET}") } else { level.to_owned() };
    let filter = EnvFilter::new(directives);
    let log = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    // The only way to fail is that one is set, which is the case this documents.
    _ = log.try_init();
}
