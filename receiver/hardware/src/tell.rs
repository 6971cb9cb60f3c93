//! What happens to devices, as log records: each once, when it happens.

use instrumentation::{Records, instant};
use opentelemetry::KeyValue;
use opentelemetry::logs::{AnyValue, LogRecord as _, Severity};
use semconv::{attribute, event};

use crate::driver::{Identity, Incident, Vendor};
use crate::known::Told;
use crate::points::attributes;

/// What a record says.
struct Said {
    event: &'static str,
    severity: Severity,
    body: String,
    others: Vec<(&'static str, String)>,
    more: Vec<(&'static str, AnyValue)>,
}

/// Emits the record.
pub(crate) fn tell(vendor: Vendor, device: &Identity, told: &Told, at: u64, records: &Records) {
    let Said { event, severity, body, others, more } = said(device, told);
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

fn said(device: &Identity, told: &Told) -> Said {
    let name = &device.name;
    let plain = |event, severity, body| Said { event, severity, body, others: Vec::new(), more: Vec::new() };
    match told {
        Told::Answered(question) => {
            let body = format!("{name} answers again: {}", question.name());
            let others = vec![(attribute::GPU_HARDWARE_QUERY_NAME, question.name().to_owned())];
            Said { others, ..plain(event::GPU_HARDWARE_QUERY_RECOVERED, Severity::Info, body) }
        }
        Told::Errors { kind, count } => {
            let body = format!("{name} has counted {count} more errors: {kind}");
            let others = vec![(attribute::ERROR_TYPE, (*kind).to_owned())];
            let more = vec![(attribute::GPU_HARDWARE_ERRORS, whole(*count))];
            let severity = if *kind == "uncorrected" { Severity::Error } else { Severity::Warn };
            Said { others, more, ..plain(event::GPU_HARDWARE_ERRORS, severity, body) }
        }
        Told::Gone => plain(
            event::GPU_HARDWARE_DEVICE_REMOVED,
            Severity::Warn,
            format!("{name} is no longer listed by its driver"),
        ),
        Told::Incident(Incident { event, severity, text, which: (key, value), .. }) => {
            let others = vec![(*key, value.clone())];
            Said { others, ..plain(*event, *severity, format!("{name} {text}")) }
        }
        Told::Lost(why) => {
            let others = vec![(attribute::ERROR_TYPE, (*why).to_owned())];
            let body = format!("{name} does not answer any more: {why}");
            Said { others, ..plain(event::GPU_HARDWARE_DEVICE_LOST, Severity::Error, body) }
        }
        Told::Recovered => {
            plain(event::GPU_HARDWARE_DEVICE_RECOVERED, Severity::Info, format!("{name} answers again"))
        }
        Told::Seen { unsupported } => {
            let texts = unsupported.iter().map(|text| AnyValue::from(*text)).collect();
            let more = vec![(attribute::GPU_HARDWARE_QUERY_UNSUPPORTED, AnyValue::ListAny(Box::new(texts)))];
            Said {
                more,
                ..plain(event::GPU_HARDWARE_DEVICE_DISCOVERED, Severity::Info, seen(device, unsupported))
            }
        }
        Told::Unanswered(question, why) => {
            let body = format!("{name} does not answer now: {}: {why}", question.name());
            let others = vec![
                (attribute::ERROR_TYPE, (*why).to_owned()),
                (attribute::GPU_HARDWARE_QUERY_NAME, question.name().to_owned()),
            ];
            Said { others, ..plain(event::GPU_HARDWARE_QUERY_FAILED, Severity::Warn, body) }
        }
    }
}

fn seen(device: &Identity, unsupported: &[&str]) -> String {
    let (name, model) = (&device.name, &device.model);
    match unsupported {
        [] => format!("{name} is {model}"),
        unsupported => format!("{name} is {model}; it does not tell {}", unsupported.join(", ")),
    }
}

fn whole(count: u64) -> AnyValue {
    AnyValue::Int(i64::try_from(count).unwrap_or(i64::MAX))
}
