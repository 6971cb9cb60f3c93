//! Printing of a loaded configuration, as its components decoded it and without secrets.
//!
//! Sources, references and the defaults of the loader are resolved; defaults of components are not printed. A value
//! that no component decoded is treated as a secret.

use config::{GoDuration, Node, REDACTED, Reading, Seen, Value, redact_url};
use serde::ser::{Serialize, SerializeMap as _, SerializeSeq as _, Serializer};

use super::sections::ComponentKind;
use crate::cli::PrintMode;

/// A configuration to print.
#[derive(Clone, Copy, Debug)]
pub struct Printed<'a> {
    /// The root of the tree.
    pub root: &'a Node,
    /// How the components decoded it.
    pub seen: &'a Seen,
    /// Whether secrets are printed.
    pub mode: PrintMode,
}

impl Printed<'_> {
    /// Returns YAML that every YAML parser reads as the same values.
    pub fn to_yaml(&self) -> Result<String, serde_yaml::Error> {
        super::to_yaml(self)
    }
}

impl Serialize for Printed<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let entries = self.root.entries();
        let mut map = serializer.serialize_map(Some(entries.len()))?;
        for entry in entries {
            let is_component_section = ComponentKind::ALL.iter().any(|kind| kind.section() == entry.key);
            let unread = if is_component_section { Unread::Hidden } else { Unread::Shown };
            map.serialize_entry(&entry.key, &Shown { node: &entry.value, whole: *self, unread })?;
        }
        map.end()
    }
}

/// How a value that no component decoded is printed.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Unread {
    /// Printed, as values of the service are, which has no secrets except headers.
    Shown,
    Hidden,
}

#[derive(Clone, Copy)]
struct Shown<'a> {
    node: &'a Node,
    whole: Printed<'a>,
    unread: Unread,
}

impl Shown<'_> {
    fn is_hidden(&self, reading: Option<Reading>) -> bool {
        let is_secret = match reading {
            Some(reading) => reading == Reading::Secret,
            None => self.unread == Unread::Hidden && !matches!(self.node.value, Value::Null | Value::Bool(_)),
        };
        is_secret && self.whole.mode == PrintMode::Redacted
    }

    fn below<'a>(&'a self, key: &str, node: &'a Node) -> Shown<'a> {
        let unread = if key == "headers" { Unread::Hidden } else { self.unread };
        Shown { node, whole: self.whole, unread }
    }

    fn sequence<S: Serializer>(&self, items: &[Node], serializer: S) -> Result<S::Ok, S::Error> {
        let mut list = serializer.serialize_seq(Some(items.len()))?;
        for node in items {
            list.serialize_element(&Shown { node, ..*self })?;
        }
        list.end()
    }

    fn scalar<S: Serializer>(&self, reading: Option<Reading>, serializer: S) -> Result<S::Ok, S::Error> {
        match (reading, &self.node.value, &self.node.text) {
            (Some(Reading::Duration(duration)), ..) => serializer.collect_str(&GoDuration::from(duration)),
            (Some(Reading::Pieces), Value::String(text), _) => serialize_list(text, serializer),
            (Some(Reading::Text | Reading::Secret), _, Some(text)) => self.text(text, serializer),
            (Some(Reading::Text | Reading::Secret), Value::Null, _) => serializer.serialize_str(""),
            (Some(Reading::Bool), Value::Null, _) => serializer.serialize_bool(false),
            (Some(Reading::Number), Value::Null, _) => serializer.serialize_u64(0),
            (_, Value::String(text), _) => self.text(text, serializer),
            (_, Value::Bool(b), _) => serializer.serialize_bool(*b),
            (_, Value::Int(i), _) => integer(*i, serializer),
            (_, Value::Float(f), _) => serializer.serialize_f64(*f),
            _ => serializer.serialize_unit(),
        }
    }
}

impl Shown<'_> {
    /// Prints a text, without the secrets of a URL.
    fn text<S: Serializer>(&self, text: &str, serializer: S) -> Result<S::Ok, S::Error> {
        match self.whole.mode {
            PrintMode::Redacted => serializer.serialize_str(&redact_url(text)),
            PrintMode::Unredacted => serializer.serialize_str(text),
        }
    }
}

impl Serialize for Shown<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let reading = self.whole.seen.reading(self.node);
        let is_text = matches!(reading, Some(Reading::Text | Reading::Secret));
        match &self.node.value {
            Value::Sequence(items) if !is_text => self.sequence(items, serializer),
            Value::Mapping(entries) if !is_text => {
                let mut map = serializer.serialize_map(Some(entries.len()))?;
                for entry in entries {
                    map.serialize_entry(&entry.key, &self.below(&entry.key, &entry.value))?;
                }
                map.end()
            }
            _ if self.is_hidden(reading) => serializer.serialize_str(REDACTED),
            _ => self.scalar(reading, serializer),
        }
    }
}

/// Serializes a text that was decoded as a list.
fn serialize_list<S: Serializer>(text: &str, serializer: S) -> Result<S::Ok, S::Error> {
    let serialize_list = text.split(',').filter(|_| !text.is_empty());
    serializer.collect_seq(serialize_list)
}

fn integer<S: Serializer>(i: i128, serializer: S) -> Result<S::Ok, S::Error> {
    match (i64::try_from(i), u64::try_from(i)) {
        (Ok(i), _) => serializer.serialize_i64(i),
        (_, Ok(i)) => serializer.serialize_u64(i),
        _ => serializer.serialize_i128(i),
    }
}

#[cfg(test)]
#[path = "print_tests.rs"]
mod tests;
