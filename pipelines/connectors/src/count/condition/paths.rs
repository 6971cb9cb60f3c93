//! What a condition can look at: fields and attributes of an item and of what it belongs to.

use opentelemetry_proto::tonic::common::v1::KeyValue;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::logs::v1::SeverityNumber;
use opentelemetry_proto::tonic::trace::v1::Span;
use opentelemetry_proto::tonic::trace::v1::span::SpanKind;
use opentelemetry_proto::tonic::trace::v1::status::StatusCode;

use crate::count::walk::{Item, Kind, View};

/// Whose a field is.
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

/// The names of owners, and their fields beside `attributes`.
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

impl Kind {
    /// The item itself, and what else of it can be looked at.
    fn owners(self) -> &'static [Owner] {
        match self {
            Kind::Span => &[Owner::Span, Owner::Scope, Owner::Resource],
            Kind::SpanEvent => &[Owner::SpanEvent, Owner::Span, Owner::Scope, Owner::Resource],
            Kind::Metric => &[Owner::Metric, Owner::Scope, Owner::Resource],
            Kind::Point => &[Owner::Point, Owner::Metric, Owner::Scope, Owner::Resource],
            Kind::LogRecord => &[Owner::LogRecord, Owner::Scope, Owner::Resource],
        }
    }
}

/// A field of an owner, or one of its attributes.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(in crate::count) struct Path {
    owner: Owner,
    what: What,
}

#[derive(Clone, Debug, Eq, PartialEq)]
enum What {
    Attribute(String),
    Field(&'static str),
}

impl Path {
    /// Reads `owner.field`, or `field` of the item itself; `key` stood behind it in brackets.
    pub(super) fn parse(kind: Kind, word: &str, key: Option<String>) -> Result<Self, String> {
        let owners = kind.owners();
        let known = |(name, owner, fields): &(&'static str, Owner, &'static [&'static str])| {
            let field = word.strip_prefix(name)?.strip_prefix('.')?;
            owners.contains(owner).then_some((*owner, *fields, field.to_owned()))
        };
        let own = || {
            let (_, owner, fields) = OWNERS.iter().find(|(_, owner, _)| *owner == owners[0])?;
            Some((*owner, *fields, word.to_owned()))
        };
        let found = OWNERS.iter().find_map(known).or_else(own);
        let Some((owner, fields, field)) = found else { return Err(expected(kind)) };
        let what = match (field.as_str(), key) {
            ("attributes", Some(key)) if owner != Owner::Metric => What::Attribute(key),
            (field, None) => {
                let field = fields.iter().find(|known| **known == field).ok_or_else(|| expected(kind))?;
                What::Field(field)
            }
            _ => return Err(expected(kind)),
        };
        Ok(Path { owner, what })
    }

    /// The value; none where there is none.
    pub(super) fn value(&self, view: &View<'_>) -> Option<Value> {
        match &self.what {
            What::Attribute(key) => {
                let found = self.attributes(view).iter().find(|a| a.key == *key)?;
                found.value.as_ref()?.value.clone()
            }
            What::Field(field) => self.field(field, view),
        }
    }

    fn attributes<'a>(&self, view: &View<'a>) -> &'a [KeyValue] {
        match (self.owner, view.item) {
            (Owner::Resource, _) => view.resource,
            (Owner::Scope, _) => view.scope.map_or(&[][..], |scope| &scope.attributes),
            (Owner::Span, Item::SpanEvent(span, _)) => &span.attributes,
            _ => view.attributes(),
        }
    }

    fn field(&self, field: &str, view: &View<'_>) -> Option<Value> {
        let text = |text: &str| Some(Value::StringValue(text.to_owned()));
        match (self.owner, view.item) {
            (Owner::Scope, _) => match (view.scope, field) {
                (Some(scope), "name") => text(&scope.name),
                (Some(scope), _) => text(&scope.version),
                (None, _) => text(""),
            },
            (Owner::Span, Item::Span(span) | Item::SpanEvent(span, _)) => Some(span_field(span, field)),
            (Owner::SpanEvent, Item::SpanEvent(_, event)) => text(&event.name),
            (Owner::Metric, Item::Metric(metric) | Item::Point(metric, _)) => match field {
                "name" => text(&metric.name),
                "unit" => text(&metric.unit),
                _ => text(&metric.description),
            },
            (Owner::LogRecord, Item::LogRecord(record)) => match field {
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

/// The number of a name that the protocol has for it.
pub(super) fn enumeration(word: &str) -> Option<i32> {
    let severity = SeverityNumber::from_str_name(word).map(|severity| severity as i32);
    let kind = || SpanKind::from_str_name(word).map(|kind| kind as i32);
    let status = || StatusCode::from_str_name(word).map(|code| code as i32);
    severity.or_else(kind).or_else(status)
}

/// All that items of this kind can be asked for.
fn expected(kind: Kind) -> String {
    let mut paths = Vec::new();
    for owner in kind.owners() {
        // The last name of an owner is the one that is not deprecated.
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
