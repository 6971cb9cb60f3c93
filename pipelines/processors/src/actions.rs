//! Actions on attributes, applied in order, as in the Collector.
//!
//! `config` is their configuration; this module applies them.

mod config;
mod convert;

use component::context;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::common::v1::{AnyValue, KeyValue};
use regex::Regex;

pub use self::config::ActionConfig;
pub(crate) use config::{any_value, compile};
use convert::Target;

/// A validated action.
#[derive(Clone, Debug)]
pub(crate) enum Action {
    /// Sets `key`, if the condition `when` holds.
    Set { key: String, source: Source, when: When },
    /// Removes `key`, and every key that `pattern` matches.
    Delete { key: String, pattern: Option<Regex> },
    /// Replaces the value of `key`, and of every key that `pattern` matches, by its SHA-256.
    Hash { key: String, pattern: Option<Regex> },
    /// Sets keys named by the groups of `pattern` to what they match in the text of `key`.
    Extract { key: String, pattern: Regex },
    /// Converts the value of `key` to another type.
    Convert { key: String, to: Target },
}

/// When a value is set.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum When {
    /// If the key is absent (insert).
    Missing,
    /// If the key is present (update).
    Present,
    /// Always (upsert).
    Always,
}

/// The source of a value. The first one that is present is used.
#[derive(Clone, Debug)]
pub(crate) struct Source {
    value: Option<AnyValue>,
    from_attribute: Option<String>,
    from_context: Option<FromContext>,
    default_value: Option<AnyValue>,
}

/// A property of the request that the data came with.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) enum FromContext {
    /// The address of the sender; empty if it has none.
    Address,
    /// An attribute of the authenticated sender.
    Auth(String),
    /// A header.
    Metadata(String),
}

impl FromContext {
    /// Returns the value; several values of a header are joined to one text.
    fn value(&self) -> Option<AnyValue> {
        let context = context::current();
        match self {
            FromContext::Address => Some(text(context.address.map(|ip| ip.to_string()).unwrap_or_default())),
            FromContext::Auth(name) => context.identity.0.get(name).cloned().map(text),
            FromContext::Metadata(name) => match context.metadata.get(name) {
                [] => None,
                values => Some(text(values.join(";"))),
            },
        }
    }
}

impl Source {
    fn value(&self, attributes: &[KeyValue]) -> Option<AnyValue> {
        let copied = || attributes.iter().find(|a| Some(&a.key) == self.from_attribute.as_ref());
        let copied = || copied().map(|a| a.value.clone().unwrap_or_default());
        let from_context = || self.from_context.as_ref().and_then(FromContext::value);
        self.value.clone().or_else(copied).or_else(from_context).or_else(|| self.default_value.clone())
    }
}

/// Applies all actions in order.
pub(crate) fn apply(actions: &[Action], attributes: &mut Vec<KeyValue>) {
    for action in actions {
        action.apply(attributes);
    }
}

impl Action {
    fn apply(&self, attributes: &mut Vec<KeyValue>) {
        match self {
            Action::Set { key, source, when } => set(attributes, key, source, *when),
            Action::Delete { key, pattern } => {
                let is_matched = |a: &KeyValue| pattern.as_ref().is_some_and(|p| p.is_match(&a.key));
                attributes.retain(|a| a.key != *key && !is_matched(a));
            }
            Action::Hash { key, pattern } => {
                attributes.iter_mut().filter(|a| a.key == *key).for_each(hash);
                if let Some(pattern) = pattern {
                    attributes.iter_mut().filter(|a| pattern.is_match(&a.key)).for_each(hash);
                }
            }
            Action::Extract { key, pattern } => extract(attributes, key, pattern),
            Action::Convert { key, to } => {
                attributes.iter_mut().filter(|a| a.key == *key).for_each(|a| to.convert(a));
            }
        }
    }
}

fn set(attributes: &mut Vec<KeyValue>, key: &str, source: &Source, when: When) {
    let is_there = attributes.iter().any(|a| a.key == key);
    if (when == When::Missing && is_there) || (when == When::Present && !is_there) {
        return;
    }
    if let Some(value) = source.value(attributes) {
        put(attributes, key, value);
    }
}

/// Sets the value of `key`, which is appended if absent.
fn put(attributes: &mut Vec<KeyValue>, key: &str, value: AnyValue) {
    match attributes.iter_mut().find(|a| a.key == key) {
        Some(attribute) => attribute.value = Some(value),
        None => {
            attributes.push(KeyValue { key: key.to_owned(), value: Some(value), ..KeyValue::default() });
        }
    }
}

/// Replaces a value by the hex SHA-256 of its bytes; numbers are hashed as little-endian bytes. Lists, maps and
/// bytes become empty, as in the Collector.
fn hash(attribute: &mut KeyValue) {
    use sha2::{Digest, Sha256};
    let sum = match attribute.value.as_ref().and_then(|v| v.value.as_ref()) {
        Some(Value::StringValue(text)) => Sha256::digest(text),
        Some(Value::BoolValue(flag)) => Sha256::digest([u8::from(*flag)]),
        Some(Value::IntValue(n)) => Sha256::digest(n.to_le_bytes()),
        Some(Value::DoubleValue(v)) => Sha256::digest(v.to_le_bytes()),
        _ => return attribute.value = Some(text(String::new())),
    };
    attribute.value = Some(text(sum.iter().map(|byte| format!("{byte:02x}")).collect()));
}

fn text(text: String) -> AnyValue {
    AnyValue { value: Some(Value::StringValue(text)) }
}

/// Sets an attribute for each named group of `pattern`. Only strings are matched. A group without a match gives an
/// empty string.
fn extract(attributes: &mut Vec<KeyValue>, key: &str, pattern: &Regex) {
    let found = attributes.iter().find(|a| a.key == key).and_then(|a| a.value.as_ref());
    let Some(AnyValue { value: Some(Value::StringValue(from)) }) = found.cloned() else { return };
    let Some(groups) = pattern.captures(&from) else { return };
    for name in pattern.capture_names().flatten() {
        let taken = groups.name(name).map_or("", |group| group.as_str());
        put(attributes, name, text(taken.to_owned()));
    }
}

#[cfg(test)]
mod tests;
