//! The text of the child's configuration: references are resolved already, so that `$` is escaped. A value that came from a
//! reference keeps its original text, which a string field of Go's Collector takes: it is a reference of the scheme `yaml`.

use config::{Node, Value};

use crate::config::to_yaml;

/// Returns the text of a configuration.
pub(super) fn of(root: &Node) -> Result<String, serde_yaml::Error> {
    to_yaml(&Escaped(root))
}

/// Represents the `$` of a reference that the child resolves, such as `${env:NAME}`: every other `$` is escaped. A private-use
/// character of Unicode, which is not expected in a configuration.
pub(super) const REFERENCE: char = '\u{e000}';

struct Escaped<'a>(&'a Node);

impl serde::Serialize for Escaped<'_> {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let node = self.0;
        if let Some(text) = node.text.as_ref().filter(|text| can_be_reference(&node.value, text)) {
            return serializer.serialize_str(&format!("${{yaml:{text}}}"));
        }
        match &node.value {
            Value::Null => serializer.serialize_unit(),
            Value::Bool(b) => serializer.serialize_bool(*b),
            Value::Int(i) => match i64::try_from(*i) {
                Ok(i) => serializer.serialize_i64(i),
                Err(_) => serializer.serialize_u64(u64::try_from(*i).unwrap_or(u64::MAX)),
            },
            Value::Float(f) => serializer.serialize_f64(*f),
            Value::String(text) => serializer.serialize_str(&text.replace('$', "$$").replace(REFERENCE, "$")),
            Value::Sequence(items) => serializer.collect_seq(items.iter().map(Escaped)),
            Value::Mapping(entries) => {
                serializer.collect_map(entries.iter().map(|e| (&e.key, Escaped(&e.value))))
            }
        }
    }
}

/// Returns whether the text of a plain value can be in a reference.
fn can_be_reference(value: &Value, text: &str) -> bool {
    let is_plain = matches!(value, Value::Null | Value::Bool(_) | Value::Int(_) | Value::Float(_));
    is_plain && !text.contains(['$', '{', '}', '\n', '\r'])
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::config::testing::tree;

    fn read(text: &str) -> serde_json::Value {
        serde_yaml::from_str(text).unwrap()
    }

    #[test]
    fn dollars_are_escaped_and_types_are_kept() {
        let root =
            tree("a: {s: 'x$y ${env:Z}', n: 1, f: 0.5, b: true, t: 'true', o: '0123', e: , l: [1, x]}\n");
        let want = json!({"a": {
            "s": "x$$y $${env:Z}", "n": 1, "f": 0.5, "b": true, "t": "true", "o": "0123", "e": null, "l": [1, "x"],
        }});
        assert_eq!(read(&of(&root).unwrap()), want);
    }

    #[test]
    fn values_of_references_keep_their_text() {
        let mut root = tree("a: 83\n");
        if let Value::Mapping(entries) = &mut root.value {
            entries[0].value.text = Some("0123".to_owned());
        }
        assert_eq!(read(&of(&root).unwrap()), json!({"a": "${yaml:0123}"}));
    }
}
