//! The sampling state that an item carries: a span in its tracestate, a log record in its attributes
//! `sampling.randomness` and `sampling.threshold`.

use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::common::v1::{AnyValue, KeyValue};
use opentelemetry_proto::tonic::logs::v1::LogRecord;
use opentelemetry_proto::tonic::trace::v1::Span;
use pdata::json::plain;

use super::threshold::{Randomness, Threshold};
use super::tracestate::Tracestate;

/// The sampling state of an item; a log record has a randomness and a threshold only.
pub(super) type Carried = Tracestate;

/// A request to sample or drop an item regardless of its randomness.
pub(super) type Priority = Option<Threshold>;

/// An item that can be sampled.
pub(super) trait Sampled {
    /// Returns the state that the item carries; none if it cannot be parsed.
    fn carried(&self) -> Option<Carried>;
    /// Replaces the state that the item carries.
    fn carry(&mut self, carried: Carried);
    /// Returns the id of the item's trace; none if it is zero.
    fn trace_id(&self) -> Option<&[u8; 16]>;
    /// Returns the bytes of an attribute; none if it is empty.
    fn attribute(&self, key: &str) -> Option<Vec<u8>>;
    /// Returns the requested priority; `key` is the attribute of a log record that contains it.
    fn priority(&self, key: &str, precision: u32) -> Priority;
}

fn id(bytes: &[u8]) -> Option<&[u8; 16]> {
    <&[u8; 16]>::try_from(bytes).ok().filter(|id| **id != [0; 16])
}

fn find<'a>(attributes: &'a [KeyValue], key: &str) -> Option<&'a Value> {
    attributes.iter().find(|a| a.key == key)?.value.as_ref()?.value.as_ref()
}

impl Sampled for Span {
    fn carried(&self) -> Option<Carried> {
        Tracestate::parse(&self.trace_state)
    }

    fn carry(&mut self, carried: Carried) {
        self.trace_state = carried.write();
    }

    fn trace_id(&self) -> Option<&[u8; 16]> {
        id(&self.trace_id)
    }

    fn attribute(&self, _: &str) -> Option<Vec<u8>> {
        None
    }

    /// Reads `sampling.priority` of OpenTracing: 0 drops, more than 0 samples.
    fn priority(&self, _: &str, _: u32) -> Priority {
        let priority = match find(&self.attributes, "sampling.priority")? {
            Value::IntValue(n) => *n as f64,
            Value::DoubleValue(v) => *v,
            Value::StringValue(text) => text.parse().ok()?,
            _ => return None,
        };
        match priority {
            0.0 => Some(Threshold::NEVER),
            more if more > 0.0 => Some(Threshold::ALWAYS),
            _ => None,
        }
    }
}

const RANDOMNESS: &str = "sampling.randomness";
const THRESHOLD: &str = "sampling.threshold";

impl Sampled for LogRecord {
    fn carried(&self) -> Option<Carried> {
        let text = |key| match find(&self.attributes, key) {
            Some(Value::StringValue(text)) if !text.is_empty() => Some(text),
            _ => None,
        };
        let randomness = text(RANDOMNESS).map(|t| Randomness::parse(t).ok_or(())).transpose().ok()?;
        let threshold = text(THRESHOLD).map(|t| Threshold::parse(t).ok_or(())).transpose().ok()?;
        Some(Tracestate::new(randomness, threshold))
    }

    fn carry(&mut self, carried: Carried) {
        put(&mut self.attributes, RANDOMNESS, carried.randomness.map(Randomness::digits));
        put(&mut self.attributes, THRESHOLD, carried.threshold.map(Threshold::digits));
    }

    fn trace_id(&self) -> Option<&[u8; 16]> {
        id(&self.trace_id)
    }

    fn attribute(&self, key: &str) -> Option<Vec<u8>> {
        let attribute = self.attributes.iter().find(|a| a.key == key)?;
        let bytes = match find(&self.attributes, key) {
            Some(Value::BytesValue(bytes)) => bytes.clone(),
            _ => plain::text(attribute.value.as_ref()).into_bytes(),
        };
        Some(bytes).filter(|b| !b.is_empty())
    }

    /// Reads the percentage to sample.
    fn priority(&self, key: &str, precision: u32) -> Priority {
        let percentage = match find(&self.attributes, key)? {
            Value::IntValue(n) => *n as f64,
            Value::DoubleValue(v) => *v,
            _ => return None,
        };
        Threshold::of_probability(percentage / 100.0, precision)
    }
}

/// Sets an attribute if there is a value.
fn put(attributes: &mut Vec<KeyValue>, key: &str, text: Option<String>) {
    let Some(text) = text else { return };
    let value = Some(AnyValue { value: Some(Value::StringValue(text)) });
    match attributes.iter_mut().find(|a| a.key == key) {
        Some(attribute) => attribute.value = value,
        None => attributes.push(KeyValue { key: key.to_owned(), value, ..KeyValue::default() }),
    }
}
