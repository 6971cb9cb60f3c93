//! Trees from JSON, trees as one line of text, and a fake environment, for the tests of this folder.

use std::collections::BTreeMap;
use std::io;

use config::{Node, Value};

use super::source::Environment;

/// Returns a tree without positions.
pub(super) fn json(text: &str) -> Node {
    serde_json::from_str(text).unwrap()
}

/// Returns the tree of a YAML text, with positions.
pub(crate) fn tree(yaml: &str) -> Node {
    super::yaml::parse(yaml, &"test.yaml".into()).unwrap()
}

/// Returns a tree as one line; the retained text of a value follows it in angle brackets.
pub(crate) fn flow(node: &Node) -> String {
    let value = match &node.value {
        Value::Null => "null".to_owned(),
        Value::Bool(b) => b.to_string(),
        Value::Int(i) => i.to_string(),
        Value::Float(f) => format!("{f:?}"),
        Value::String(s) => format!("{s:?}"),
        Value::Sequence(items) => format!("[{}]", items.iter().map(flow).collect::<Vec<_>>().join(", ")),
        Value::Mapping(entries) => {
            let entries: Vec<String> =
                entries.iter().map(|e| format!("{}: {}", e.key, flow(&e.value))).collect();
            format!("{{{}}}", entries.join(", "))
        }
    };
    match &node.text {
        Some(text) => format!("{value}<{text}>"),
        None => value,
    }
}

/// An environment with variables and files of a test.
#[derive(Default)]
pub(super) struct FakeEnvironment {
    pub(super) env: BTreeMap<&'static str, &'static str>,
    pub(super) files: BTreeMap<&'static str, Vec<u8>>,
}

impl Environment for FakeEnvironment {
    fn env(&self, name: &str) -> Option<String> {
        self.env.get(name).map(|text| (*text).to_owned())
    }

    fn read(&self, path: &str, _limit: usize) -> io::Result<Vec<u8>> {
        self.files.get(path).cloned().ok_or_else(|| io::Error::from(io::ErrorKind::NotFound))
    }
}
