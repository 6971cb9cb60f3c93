//! Log records of device events.

use instrumentation::{Records, instant};
use opentelemetry::KeyValue;
use opentelemetry::logs::{AnyValue, LogRecord as _, Severity};
use semconv::{attribute, event};

use crate::device_state::DeviceEvent;
use crate::driver::{Identity, Incident, Vendor};
use crate::points::attributes;

/// Content of a log record.
struct LogEvent {
    event: &'static str,
    severity: Severity,
    body: String,
    others: Vec<(&'static str, String)>,
    more: Vec<(&'static str, AnyValue)>,
}

/// Emits the log record of an event.
pub(crate) fn emit(vendor: Vendor, device: &Identity, event: &DeviceEvent, at: u64, records: &Records) {
    let LogEvent { event, severity, body, others, more } = log_event(device, event);
    let row = semconv::EVENTS.iter().find(|row| row.name == event);
    let others: Vec<(&'static str, &str)> =
        others.iter().map(|(key, value)| (*key, value.as_str())).collect();
    let known = attributes(vendor, row.map_or(&[], |row| row.attributes), device, &others);
    records.log(instant(at), None, |log| {
        log.set_event_name(event);
        log.set_severity_number(severity);
        log.set_severity_text(severity.name());
        log.set_body(body.into());
        let known =
            known.into_iter().map(|KeyValue { key, value, .. }| (key, AnyValue::from(value.to_string())));
        let mut all: Vec<_> = known.chain(more.into_iter().map(|(key, value)| (key.into(), value))).collect();
        all.sort_by(|a, b| a.0.as_str().cmp(b.0.as_str()));
        log.add_attributes(all);
    });
}

fn log_event(device: &Identity, event: &DeviceEvent) -> LogEvent {
    let name = &device.name;
    let plain =
        |event, severity, body| LogEvent { event, severity, body, others: Vec::new(), more: Vec::new() };
    match event {
        DeviceEvent::QueryRecovered(query) => {
            let body = format!("{name}: query {} works again", query.name());
            let others = vec![(attribute::GPU_HARDWARE_QUERY_NAME, query.name().to_owned())];
            LogEvent { others, ..plain(event::GPU_HARDWARE_QUERY_RECOVERED, Severity::Info, body) }
        }
        DeviceEvent::Errors { kind, count } => {
            let body = format!("{name} counted {count} more errors: {kind}");
            let others = vec![(attribute::ERROR_TYPE, (*kind).to_owned())];
            let more = vec![(attribute::GPU_HARDWARE_ERRORS, whole(*count))];
            let severity = if *kind == "uncorrected" { Severity::Error } else { Severity::Warn };
            LogEvent { others, more, ..plain(event::GPU_HARDWARE_ERRORS, severity, body) }
        }
        DeviceEvent::Removed => plain(
            event::GPU_HARDWARE_DEVICE_REMOVED,
            Severity::Warn,
            format!("{name} is no longer listed by its driver"),
        ),
        DeviceEvent::Incident(Incident { event, severity, text, which: (key, value), .. }) => {
            let others = vec![(*key, value.clone())];
            LogEvent { others, ..plain(*event, *severity, format!("{name} {text}")) }
        }
        DeviceEvent::Lost(why) => {
            let others = vec![(attribute::ERROR_TYPE, (*why).to_owned())];
            let body = format!("{name} is lost: {why}");
            LogEvent { others, ..plain(event::GPU_HARDWARE_DEVICE_LOST, Severity::Error, body) }
        }
        DeviceEvent::Recovered => {
            plain(event::GPU_HARDWARE_DEVICE_RECOVERED, Severity::Info, format!("{name} answers again"))
        }
        DeviceEvent::Discovered { unsupported } => {
            let texts = unsupported.iter().map(|text| AnyValue::from(*text)).collect();
            let more = vec![(attribute::GPU_HARDWARE_QUERY_UNSUPPORTED, AnyValue::ListAny(Box::new(texts)))];
            LogEvent {
                more,
                ..plain(
                    event::GPU_HARDWARE_DEVICE_DISCOVERED,
                    Severity::Info,
                    discovered(device, unsupported),
                )
            }
        }
        DeviceEvent::QueryFailed(query, why) => {
            let body = format!("{name}: query {} failed: {why}", query.name());
            let others = vec![
                (attribute::ERROR_TYPE, (*why).to_owned()),
                (attribute::GPU_HARDWARE_QUERY_NAME, query.name().to_owned()),
            ];
            LogEvent { others, ..plain(event::GPU_HARDWARE_QUERY_FAILED, Severity::Warn, body) }
        }
    }
}

fn discovered(device: &Identity, unsupported: &[&str]) -> String {
    let (name, model) = (&device.name, &device.model);
    match unsupported {
        [] => format!("{name} is {model}"),
        unsupported => format!("{name} is {model}; unsupported queries: {}", unsupported.join(", ")),
    }
}

fn whole(count: u64) -> AnyValue {
    AnyValue::Int(i64::try_from(count).unwrap_or(i64::MAX))
}
