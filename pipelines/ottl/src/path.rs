//! The paths of a condition: fields and attributes of an item, and of the messages that contain it.

use opentelemetry_proto::tonic::common::v1::KeyValue;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::logs::v1::SeverityNumber;
use opentelemetry_proto::tonic::trace::v1::Span;
use opentelemetry_proto::tonic::trace::v1::span::SpanKind;
use opentelemetry_proto::tonic::trace::v1::status::StatusCode;

use pdata::{ItemKind, ItemRef, Origin};

/// The message that a field belongs to.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Owner {
    Resource,
    Scope,
    Span,
    SpanEvent,
    Metric,
    Point,
    LogRecord,
}

/// The names of owners, and their fields except `attributes`. Of several names of an owner the last one is not deprecated.
const OWNERS: [(&str, Owner, &[&str]); 8] = [
    ("datapoint", Owner::Point, &[]),
    ("instrumentation_scope", Owner::Scope, &["name", "version"]),
    ("log", Owner::LogRecord, &["body", "event_name", "severity_number", "severity_text"]),
    ("metric", Owner::Metric, &["description", "name", "unit"]),
    ("resource", Owner::Resource, &[]),
    ("scope", Owner::Scope, &["name", "version"]),
    ("span", Owner::Span, &["kind", "name", "status.code", "status.message", "trace_state"]),
    ("spanevent", Owner::SpanEvent, &["name"]),
];

/// Returns the item itself, then the messages that contain it.
fn owners(kind: ItemKind) -> &'static [Owner] {
    match kind {
        ItemKind::Profile => &[],
        ItemKind::Span => &[Owner::Span, Owner::Scope, Owner::Resource],
        ItemKind::SpanEvent => &[Owner::SpanEvent, Owner::Span, Owner::Scope, Owner::Resource],
        ItemKind::Metric => &[Owner::Metric, Owner::Scope, Owner::Resource],
        ItemKind::Point => &[Owner::Point, Owner::Metric, Owner::Scope, Owner::Resource],
        ItemKind::LogRecord => &[Owner::LogRecord, Owner::Scope, Owner::Resource],
    }
}

/// A field of an owner, or one of its attributes.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Path {
    owner: Owner,
    field: Field,
}

#[derive(Clone, Debug, Eq, PartialEq)]
enum Field {
    Attribute(String),
    Named(&'static str),
}

impl Path {
    /// Parses `owner.field`, or `field` of the item itself; `key` follows it in brackets.
    pub(crate) fn parse(kind: ItemKind, word: &str, key: Option<String>) -> Result<Self, String> {
        let owners = owners(kind);
        let known = |(name, owner, fields): &(&'static str, Owner, &'static [&'static str])| {
            let field = word.strip_prefix(name)?.strip_prefix('.')?;
            owners.contains(owner).then_some((*owner, *fields, field.to_owned()))
        };
        let own = || {
            let (_, owner, fields) = OWNERS.iter().find(|(_, owner, _)| Some(owner) == owners.first())?;
            Some((*owner, *fields, word.to_owned()))
        };
        let found = OWNERS.iter().find_map(known).or_else(own);
        let Some((owner, fields, field)) = found else { return Err(expected(kind)) };
        let field = match (field.as_str(), key) {
            ("attributes", Some(key)) if owner != Owner::Metric => Field::Attribute(key),
            (field, None) => {
                let field = fields.iter().find(|known| **known == field).ok_or_else(|| expected(kind))?;
                Field::Named(field)
            }
            _ => return Err(expected(kind)),
        };
        Ok(Path { owner, field })
    }

    /// Returns the value; none if the item has none.
    pub(crate) fn value(&self, origin: Origin<'_>, item: ItemRef<'_>) -> Option<Value> {
        match &self.field {
            Field::Attribute(key) => {
                let found = self.attributes(origin, item).iter().find(|a| a.key == *key)?;
                found.value.as_ref()?.value.clone()
            }
            Field::Named(field) => self.named(field, origin, item),
        }
    }

    fn attributes<'a>(&self, origin: Origin<'a>, item: ItemRef<'a>) -> &'a [KeyValue] {
        match (self.owner, item) {
            (Owner::Resource, _) => origin.resource_attributes(),
            (Owner::Scope, _) => origin.scope_attributes(),
            (Owner::Span, ItemRef::SpanEvent(span, _)) => &span.attributes,
            _ => item.attributes(),
        }
    }

    fn named(&self, field: &str, origin: Origin<'_>, item: ItemRef<'_>) -> Option<Value> {
        let text = |text: &str| Some(Value::StringValue(text.to_owned()));
        match (self.owner, item) {
            (Owner::Scope, _) => match (origin.scope, field) {
                (Some(scope), "name") => text(&scope.name),
                (Some(scope), _) => text(&scope.version),
                (None, _) => text(""),
            },
            (Owner::Span, ItemRef::Span(span) | ItemRef::SpanEvent(span, _)) => Some(span_field(span, field)),
            (Owner::SpanEvent, ItemRef::SpanEvent(_, event)) => text(&event.name),
            (Owner::Metric, ItemRef::Metric(metric) | ItemRef::Point(metric, _)) => match field {
                "name" => text(&metric.name),
                "unit" => text(&metric.unit),
                _ => text(&metric.description),
            },
            (Owner::LogRecord, ItemRef::LogRecord(record)) => match field {
                "severity_number" => Some(Value::IntValue(record.severity_number.into())),
                "severity_text" => text(&record.severity_text),
                "event_name" => text(&record.event_name),
                _ => record.body.as_ref()?.value.clone(),
            },
            _ => None,
        }
    }
}

fn span_field(span: &Span, field: &str) -> Value {
    let status = span.status.clone().unwrap_or_default();
    match field {
        "kind" => Value::IntValue(span.kind.into()),
        "name" => Value::StringValue(span.name.clone()),
        "status.code" => Value::IntValue(status.code.into()),
        "status.message" => Value::StringValue(status.message),
        _ => Value::StringValue(span.trace_state.clone()),
    }
}

/// Returns the number of an enum value by its name in the protocol.
pub(crate) fn enumeration(word: &str) -> Option<i32> {
    let severity = SeverityNumber::from_str_name(word).map(|severity| severity as i32);
    let kind = || SpanKind::from_str_name(word).map(|kind| kind as i32);
    let status = || StatusCode::from_str_name(word).map(|code| code as i32);
    severity.or_else(kind).or_else(status)
}

/// Lists the paths of items of this kind.
fn expected(kind: ItemKind) -> String {
    let mut paths = Vec::new();
    for owner in owners(kind) {
        let Some((name, _, fields)) = OWNERS.iter().rev().find(|(_, known, _)| known == owner) else {
            continue;
        };
        paths.extend(fields.iter().map(|field| format!("{name}.{field}")));
        if *owner != Owner::Metric {
            paths.push(format!("{name}.attributes[\"key\"]"));
        }
    }
    format!("one of {}", paths.join(", "))
}
