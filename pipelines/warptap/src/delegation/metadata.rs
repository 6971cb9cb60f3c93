//! Headers of requests that components read when data has crossed to another process: an exporter sends no headers of the
//! request that its data came with, unless an extension sets them by name.

use std::collections::BTreeSet;

use config::{Node, Value};
use serde_json::json;

use super::crossing;

/// The type of the extension that sets headers.
pub(super) const SETTER: &str = "headers_setter";
/// Its id on both sides.
pub(super) const SETTER_ID: &str = "headers_setter/delegated";

/// Returns the names of the headers that components of a configuration read.
pub(super) fn names(root: &Node) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    collect(root, &mut names);
    names
}

fn collect(node: &Node, names: &mut BTreeSet<String>) {
    if let Value::Sequence(items) = &node.value {
        items.iter().for_each(|item| collect(item, names));
    }
    for entry in node.entries() {
        match (entry.key.as_str(), &entry.value.value) {
            // `attributes` reads several kinds of values of a request, `headers_setter` headers only.
            ("from_context", Value::String(name)) => {
                let name = name.strip_prefix("metadata.").unwrap_or(name);
                names.extend((!name.contains('.')).then(|| name.to_owned()));
            }
            ("metadata_keys", Value::Sequence(items)) => {
                let text = |item: &Node| match &item.value {
                    Value::String(name) => Some(name.clone()),
                    _ => None,
                };
                names.extend(items.iter().filter_map(text));
            }
            _ => collect(&entry.value, names),
        }
    }
}

/// Returns the section of an extension that passes headers on.
pub(super) fn setter(names: &BTreeSet<String>) -> Node {
    let headers: Vec<_> = names.iter().map(|name| json!({ "key": name, "from_context": name })).collect();
    crossing::node(json!({ "headers": headers }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::testing::tree;

    #[test]
    fn names_of_headers_are_found_where_components_read_them() {
        let root = tree(
            "processors:\n  batch: {metadata_keys: [a, 1]}\n  attributes:\n    actions:\n    - {key: k, from_context: metadata.b}\n\
             \x20   - {key: l, from_context: client.address}\nextensions:\n  headers_setter: {headers: [{key: x, from_context: c}]}\n",
        );
        assert_eq!(names(&root).into_iter().collect::<Vec<_>>(), ["a", "b", "c"]);
    }
}
