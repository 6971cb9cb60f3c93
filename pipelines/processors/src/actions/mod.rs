//! What can be done to attributes: a list of actions, applied in order, as in the Collector.
//!
//! `config` is what the user writes and its checks; this file is what runs.

mod config;
mod convert;

use component::context;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::common::v1::{AnyValue, KeyValue};
use regex::Regex;

pub use self::config::ActionConfig;
pub(crate) use config::{any_value, compile};
use convert::Target;

/// One action, checked.
#[derive(Clone, Debug)]
pub(crate) enum Action {
    /// Sets `key`, of attributes that have it, do not have it, or either.
    Set { key: String, source: Source, when: When },
    /// Removes `key`, and every key that `pattern` matches.
    Delete { key: String, pattern: Option<Regex> },
    /// Puts the SHA-256 in the place of the value of `key`, and of every key that `pattern` matches.
    Hash { key: String, pattern: Option<Regex> },
    /// Sets the keys that the groups of `pattern` are named, from the text of `key`.
    Extract { key: String, pattern: Regex },
    /// Gives the value of `key` another type.
    Convert { key: String, to: Target },
}

/// When a value is set.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum When {
    /// Where the key is missing: insert.
    Missing,
    /// Where the key is there: update.
    There,
    /// Always: upsert.
    Always,
}

/// Where a value comes from: the first of these that has one.
#[derive(Clone, Debug)]
pub(crate) struct Source {
    value: Option<AnyValue>,
    from_attribute: Option<String>,
    from_context: Option<FromContext>,
    default_value: Option<AnyValue>,
}

/// A part of what is known of the request that data came with.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) enum FromContext {
    /// An attribute of the authenticated sender.
    Auth(String),
    /// A header.
    Metadata(String),
}

impl FromContext {
    /// Several values of a header become one text.
    fn value(&self) -> Option<AnyValue> {
        let context = context::current();
        match self {
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

/// Applies all actions, one after the other.
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
                let is_meant = |a: &KeyValue| pattern.as_ref().is_some_and(|p| p.is_match(&a.key));
                attributes.retain(|a| a.key != *key && !is_meant(a));
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
    if (when == When::Missing && is_there) || (when == When::There && !is_there) {
        return;
    }
    if let Some(value) = source.value(attributes) {
        put(attributes, key, value);
    }
}

/// Puts a value in the place of the one that `key` has, or at the end.
fn put(attributes: &mut Vec<KeyValue>, key: &str, value: AnyValue) {
    match attributes.iter_mut().find(|a| a.key == key) {
        Some(attribute) => attribute.value = Some(value),
        None => {
            attributes.push(KeyValue { key: key.to_owned(), value: Some(value), ..KeyValue::default() });
        }
    }
}

/// Text in the place of a value: the SHA-256 in hex of its bytes, numbers as they lie in memory, little end
/// first. Of lists, maps and bytes nothing is left, as in the Collector.
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

/// Only text is looked into. A group that took no part in the match gives an empty text.
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
