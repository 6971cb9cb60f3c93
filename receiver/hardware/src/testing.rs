//! Test support: polls of a scripted driver at the times of its script, and their output.

mod bench;
mod hours;
mod machine;

use std::collections::BTreeMap;
use std::time::Duration;

use instrumentation::testing::{Output, metrics, pid_of, show, values};

pub use bench::Bench;
pub use hours::{DEVICES, Hours, INCIDENTS, sum};
pub use machine::{Machine, check_points};

use crate::{Driver, DriverPoll, Monitor, Session, Settings, Vendor};

/// One second in nanoseconds.
pub const SECOND: u64 = 1_000_000_000;
/// Start of scripts, ns since 1970.
pub const UNIX: u64 = 1_700_000_000 * SECOND;

/// Polls a driver at these seconds of its script, whose time `set_now` sets in nanoseconds, and passes each output to
/// `take`.
pub fn each_poll(
    vendor: Vendor,
    driver: &mut dyn Driver,
    set_now: &dyn Fn(u64),
    seconds: impl IntoIterator<Item = u64>,
    take: &mut dyn FnMut(Output),
) {
    let mut monitor = Monitor::new(vendor, settings());
    let mut seconds = seconds.into_iter().peekable();
    set_now(seconds.peek().copied().unwrap_or(0) * SECOND);
    let opened = driver.open(&mut |session| {
        for second in seconds.by_ref() {
            set_now(second * SECOND);
            take(poll(session, &mut monitor, UNIX + second * SECOND));
        }
    });
    opened.expect("the driver is there");
}

fn poll(session: &mut dyn Session, monitor: &mut Monitor, at_unix_ns: u64) -> Output {
    let mut output = Output::default();
    let readings = session.read().expect("devices are listed");
    let poll = DriverPoll { at_unix_ns, took: Duration::from_millis(3), readings };
    monitor.take_poll(&poll, &mut |batch| output.batches.push(batch));
    while let Some(incident) = session.wait(Duration::ZERO) {
        monitor.incident(at_unix_ns, &incident, &mut |batch| output.batches.push(batch));
    }
    output
}

/// Returns settings for a machine with four attributes.
pub fn settings() -> Settings {
    let host = ["host.arch", "host.id", "host.name", "os.type"].map(|key| (key.to_owned(), "x".to_owned()));
    Settings { host: host.to_vec(), ..Settings::default() }
}

/// Returns the values of points by `name{key=value,...} unit`, those of a process prefixed by its pid.
pub fn points(output: &Output) -> BTreeMap<String, f64> {
    let mut all = BTreeMap::new();
    for resource in output.collections() {
        let pid = pid_of(resource.resource.as_ref()).map(|pid| format!("{pid} ")).unwrap_or_default();
        for metric in metrics(resource) {
            for (attributes, value) in values(resource, &metric.name) {
                all.insert(format!("{pid}{}{{{attributes}}} {}", metric.name, metric.unit), value);
            }
        }
    }
    all
}

/// Returns the event name and body of each log record of a poll.
pub fn log_records(output: &Output) -> Vec<(String, String)> {
    let of = |row: &semconv::EventDefinition| -> Vec<(String, String)> {
        output.logs(row.name).iter().map(|(_, log)| (row.name.to_owned(), show(log.body.as_ref()))).collect()
    };
    semconv::EVENTS.iter().flat_map(of).collect()
}
