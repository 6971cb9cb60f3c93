//! Keys that are accepted because the Collector's files have them and that have no effect here: each is warned
//! about once, when its component is built.

use crate::{Node, Section, Value};

/// A key by its path in the section, such as `keepalive::enforcement_policy`, and why it changes nothing.
pub type Unused = (&'static str, &'static str);

/// Warns of each key of the table that was written, with the reason why it has no effect.
pub fn warn(section: &Section<'_>, table: &[Unused]) {
    for (key, why) in written(section, table) {
        section.warn(key, format!("accepted without effect: {why}"));
    }
}

/// The rows whose key was written, with something in it.
fn written<'a>(section: &Section<'_>, table: &'a [Unused]) -> impl Iterator<Item = &'a Unused> {
    table.iter().filter(|(key, _)| {
        let found = key.split("::").try_fold(section.node(), |node, step| node.get(step));
        found.is_some_and(says_something)
    })
}

/// False for a null and for an empty list or mapping.
fn says_something(node: &Node) -> bool {
    match &node.value {
        Value::Null => false,
        Value::Sequence(items) => !items.is_empty(),
        Value::Mapping(entries) => !entries.is_empty(),
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_written_keys_are_warned_about() {
        let json = r#"{"a": 1, "b": null, "c": {"d": false}, "e": []}"#;
        let node: Node = serde_json::from_str(json).unwrap();
        let table = [("a", ""), ("b", ""), ("c::d", ""), ("c::x", ""), ("e", ""), ("f", "")];
        let section = Section::new("x", &node);
        let keys: Vec<_> = written(&section, &table).map(|(key, _)| *key).collect();
        assert_eq!(keys, ["a", "c::d"]);
    }
}
