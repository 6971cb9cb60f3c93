//! Merging of sources: mappings are merged by key; other values, including null, are replaced.
//!
//! A feature gate makes the lists of a service's components be appended instead.
//!
//! A key that contains `::` denotes nested mappings, anywhere in a file except below lists.

use std::collections::HashMap;

use config::{Entry, Node, Position, Problem, Value};

use super::yaml::DEPTH_MAX;

/// How lists are merged.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Lists {
    /// The later list replaces the earlier one.
    Replace,
    /// Lists of a service's components are appended without duplicates.
    Append,
}

/// Merges `over` into `base`, the root of a configuration.
pub(super) fn merge(base: &mut Node, over: Node, lists: Lists) {
    merge_at(base, over, lists, &mut Vec::new());
}

fn merge_at(base: &mut Node, over: Node, lists: Lists, path: &mut Vec<String>) {
    match (&mut base.value, over.value) {
        (Value::Mapping(below), Value::Mapping(above)) => merge_entries(below, above, lists, path),
        (Value::Sequence(below), Value::Sequence(above)) if lists == Lists::Append && joins(path) => {
            for item in above {
                if !below.iter().any(|b| b.value == item.value) {
                    below.push(item);
                }
            }
        }
        (_, value) => *base = Node { value, ..over },
    }
}

/// Returns whether lists at this path are appended: `service::extensions`, and any `receivers` and `exporters`
/// below the service.
fn joins(path: &[String]) -> bool {
    match path {
        [first, .., last] if first == "service" => {
            matches!(last.as_str(), "receivers" | "exporters") || (last == "extensions" && path.len() == 2)
        }
        _ => false,
    }
}

fn merge_entries(below: &mut Vec<Entry>, above: Vec<Entry>, lists: Lists, path: &mut Vec<String>) {
    let places: HashMap<String, usize> = below.iter().enumerate().map(|(i, e)| (e.key.clone(), i)).collect();
    for entry in above {
        match places.get(&entry.key) {
            Some(&place) => {
                below[place].position = entry.position;
                path.push(entry.key);
                merge_at(&mut below[place].value, entry.value, lists, path);
                path.pop();
            }
            None => below.push(entry),
        }
    }
}

/// Expands keys such as `a::b` to nested mappings. Two keys of one file for the same value are a problem, unless
/// both values are mappings, which are merged.
pub(super) fn unflatten(node: &mut Node, problems: &mut Vec<Problem>) {
    unflatten_below(node, DEPTH_MAX, problems);
}

fn unflatten_below(node: &mut Node, depth_left: usize, problems: &mut Vec<Problem>) {
    let Value::Mapping(entries) = &mut node.value else { return };
    if entries.iter().any(|e| e.key.contains("::")) {
        *entries = regroup(std::mem::take(entries), depth_left, problems);
    }
    for entry in entries {
        unflatten_below(&mut entry.value, depth_left.saturating_sub(1), problems);
    }
}

fn regroup(entries: Vec<Entry>, depth_left: usize, problems: &mut Vec<Problem>) -> Vec<Entry> {
    let mut grouped = Group::default();
    for entry in entries {
        if entry.key.matches("::").count() >= depth_left {
            let message = format!("key leads deeper than {DEPTH_MAX} levels");
            problems.push(Problem::new(entry.position, "", message));
            continue;
        }
        grouped.join(nested(entry), problems);
    }
    grouped.entries
}

/// Returns `a::b: 1` as `a: {b: 1}`.
fn nested(entry: Entry) -> Entry {
    let Entry { key, position, value } = entry;
    let mut keys: Vec<&str> = key.split("::").collect();
    let outermost = keys.remove(0);
    let value = keys.iter().rev().fold(value, |value, key| {
        let entry = Entry { key: (*key).to_owned(), position: position.clone(), value };
        Node::new(Value::Mapping(vec![entry]), position.clone())
    });
    Entry { key: outermost.to_owned(), position, value }
}

/// The entries of a mapping, and the position of each key.
#[derive(Default)]
struct Group {
    entries: Vec<Entry>,
    places: HashMap<String, usize>,
}

impl Group {
    fn join(&mut self, entry: Entry, problems: &mut Vec<Problem>) {
        match self.places.get(&entry.key) {
            Some(&place) => join(&mut self.entries[place], entry, problems),
            None => {
                self.places.insert(entry.key.clone(), self.entries.len());
                self.entries.push(entry);
            }
        }
    }
}

/// Merges two values of one key.
fn join(first: &mut Entry, second: Entry, problems: &mut Vec<Problem>) {
    match (&mut first.value.value, second.value.value) {
        (Value::Mapping(entries), Value::Mapping(more)) => {
            for entry in more {
                match entries.iter_mut().find(|e| e.key == entry.key) {
                    Some(same) => join(same, entry, problems),
                    None => entries.push(entry),
                }
            }
        }
        _ => problems.push(defined_twice(&second.key, second.position, &first.position)),
    }
}

fn defined_twice(key: &str, position: Position, first: &Position) -> Problem {
    Problem::new(position, "", format!("mapping key {key:?} already defined at {first}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::testing::{flow, json};

    #[track_caller]
    fn check_merge(base: &str, over: &str, want: &str) {
        check_merge_by(Lists::Replace, base, over, want);
    }

    #[track_caller]
    fn check_merge_by(lists: Lists, base: &str, over: &str, want: &str) {
        let mut node = json(base);
        merge(&mut node, json(over), lists);
        assert_eq!(flow(&node), want, "{base} + {over}");
    }

    #[test]
    fn mappings_merge_and_other_values_are_replaced() {
        check_merge(r#"{"a": {"b": 1, "c": 2}}"#, r#"{"a": {"c": 3, "d": 4}}"#, "{a: {b: 1, c: 3, d: 4}}");
        check_merge(r#"{"a": [1, 2]}"#, r#"{"a": [3]}"#, "{a: [3]}");
        check_merge(r#"{"a": {"b": 1}}"#, r#"{"a": 2}"#, "{a: 2}");
        check_merge(r#"{"a": 2}"#, r#"{"a": {"b": 1}}"#, "{a: {b: 1}}");
    }

    #[test]
    fn null_replaces_and_empty_mappings_do_not() {
        check_merge(r#"{"a": {"b": 1}}"#, r#"{"a": null}"#, "{a: null}");
        check_merge(r#"{"a": {"b": 1}}"#, r#"{"a": {}}"#, "{a: {b: 1}}");
        check_merge(r#"{"a": null}"#, r#"{"a": {"b": 1}}"#, "{a: {b: 1}}");
    }

    #[test]
    fn component_lists_are_appended_with_the_gate() {
        let base = r#"{"service": {"extensions": [1], "pipelines": {"logs": {"receivers": [1, 2], "processors": [1]}}}, "receivers": [1]}"#;
        let over = r#"{"service": {"extensions": [2], "pipelines": {"logs": {"receivers": [2, 3], "processors": [2]}}}, "receivers": [2]}"#;
        check_merge_by(
            Lists::Append,
            base,
            over,
            "{service: {extensions: [1, 2], pipelines: {logs: {receivers: [1, 2, 3], processors: [2]}}}, receivers: [2]}",
        );
    }

    #[track_caller]
    fn check_unflatten(text: &str, want: Result<&str, &str>) {
        let (mut node, mut problems) = (json(text), Vec::new());
        unflatten(&mut node, &mut problems);
        match want {
            Ok(want) => assert_eq!((flow(&node).as_str(), problems.len()), (want, 0), "{text}"),
            Err(want) => assert!(problems[0].message.contains(want), "{text}: {problems:?}"),
        }
    }

    #[test]
    fn double_colons_denote_nested_mappings() {
        check_unflatten(r#"{"a::b::c": 1}"#, Ok("{a: {b: {c: 1}}}"));
        check_unflatten(r#"{"a": {"b::c": 1}}"#, Ok("{a: {b: {c: 1}}}"));
        check_unflatten(r#"{"a::b": {"c::d": 1}}"#, Ok("{a: {b: {c: {d: 1}}}}"));
        check_unflatten(
            r#"{"a::b": 1, "x": 0, "a::c": 2, "a": {"d": 3}}"#,
            Ok("{a: {b: 1, c: 2, d: 3}, x: 0}"),
        );
        check_unflatten(r#"{"a": [{"b::c": 1}]}"#, Ok("{a: [{b::c: 1}]}"));
    }

    #[test]
    fn two_keys_for_one_value_are_a_problem() {
        check_unflatten(r#"{"a::b": 1, "a": {"b": 2}}"#, Err("already defined"));
        check_unflatten(r#"{"a": 1, "a::b": 2}"#, Err("already defined"));
    }

    #[test]
    fn nesting_of_keys_is_bounded() {
        let deep = vec!["a"; 200].join("::");
        check_unflatten(&format!(r#"{{"{deep}": 1}}"#), Err("deeper than"));
    }
}
