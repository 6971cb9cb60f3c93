//! Warnings about configured keys without effect, and about durations without a unit, which are in nanoseconds.
//! Each is reported once, when its component is built.

use crate::{GoDuration, Key, Node, Section, Value, key_path};

/// A bare number of nanoseconds below this is likely a mistake.
const NANOS_MEANT: f64 = 1e6;

/// Warns of the keys of a section, whose tree is `section.node()`.
pub(super) fn warn(section: &Section<'_>, keys: &[Key]) {
    warn_below(section, section.node(), "", keys);
}

fn warn_below(section: &Section<'_>, node: &Node, path: &str, keys: &[Key]) {
    for key in keys {
        let Some(value) = node.get(key.name).filter(|value| has_content(value)) else { continue };
        let path = key_path(path, key.name);
        match key.unused {
            Some(reason) => section.warn(&path, format!("accepted without effect: {reason}")),
            None => warn_value(section, value, &path, key),
        }
    }
}

fn warn_value(section: &Section<'_>, value: &Node, path: &str, key: &Key) {
    match &value.value {
        Value::Sequence(items) => items.iter().enumerate().for_each(|(index, item)| {
            warn_below(section, item, &format!("{path}[{index}]"), &key.keys);
        }),
        Value::Mapping(entries) if key.kind.starts_with("map of") => entries.iter().for_each(|entry| {
            warn_below(section, &entry.value, &format!("{path}::{}", entry.key), &key.keys);
        }),
        Value::Int(nanos) if key.kind == GoDuration::KIND => warn_nanos(section, *nanos as f64, path),
        Value::Float(nanos) if key.kind == GoDuration::KIND => warn_nanos(section, *nanos, path),
        _ => warn_below(section, value, path, &key.keys),
    }
}

fn warn_nanos(section: &Section<'_>, nanos: f64, path: &str) {
    if nanos > 0.0 && nanos < NANOS_MEANT {
        section.warn(
            path,
            format!("a number without a unit counts nanoseconds: write a unit, such as {nanos}s"),
        );
    }
}

/// Returns false for null and for an empty list or mapping.
fn has_content(node: &Node) -> bool {
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
    use crate::{Optional, Seen};

    crate::section! {
        #[derive(Clone, Debug)]
        struct Outer {
            ..shared: Inner => unused &[("d", "not here")],
            /// A.
            a: i64 => unused "never",
            /// B.
            b: Option<String> => unused "never",
            /// E.
            e: Vec<Inner>,
            /// F.
            f: Optional<Inner>,
            /// T.
            t: GoDuration,
        }

        #[derive(Clone, Debug)]
        struct Inner {
            /// C.
            c: Vec<String> => unused "never",
            /// D.
            d: bool,
        }
    }

    fn warnings(json: &str) -> Vec<String> {
        let (node, seen): (Node, _) = (serde_json::from_str(json).unwrap(), Seen::default());
        let section = Section::new("x", &node).noting(&seen);
        section.read::<Outer>().1.finish().unwrap();
        seen.warnings().into_iter().map(|warning| format!("{}: {}", warning.path, warning.message)).collect()
    }

    #[test]
    fn only_configured_keys_are_warned_about() {
        assert_eq!(warnings(r#"{"b": null, "c": [], "e": [], "f": {}}"#), [""; 0]);
        assert_eq!(
            warnings(r#"{"a": 1, "d": false, "e": [{"c": ["y"], "d": true}], "f": {"c": ["z"]}}"#),
            [
                "x::a: accepted without effect: never",
                "x::e[0]::c: accepted without effect: never",
                "x::f::c: accepted without effect: never",
                "x::d: accepted without effect: not here",
            ]
        );
    }

    #[test]
    fn a_bare_number_of_nanoseconds_is_warned_about() {
        let expected = "x::t: a number without a unit counts nanoseconds: write a unit, such as 5s";
        assert_eq!(warnings(r#"{"t": 5}"#), [expected]);
        assert_eq!(warnings(r#"{"t": 0}"#), [""; 0]);
        assert_eq!(warnings(r#"{"t": 5000000000}"#), [""; 0]);
        assert_eq!(warnings(r#"{"t": "5ns"}"#), [""; 0]);
    }
}
