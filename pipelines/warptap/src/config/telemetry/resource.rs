//! The section `service::telemetry::resource`: attributes in a list, or, in the older format, as keys of the
//! section, where null removes a default attribute.

use config::{Keys as _, Node, Problems, Section, Value};

use super::keys::ResourceKeys;

/// The resource of the collector's telemetry.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Resource {
    /// Names and values; a later one takes precedence.
    pub attributes: Vec<(String, Value)>,
    /// The names of removed default attributes.
    pub removed: Vec<String>,
    /// The names of attributes in the older format.
    pub legacy: Vec<String>,
}

/// Keys that are reported or warned about and are no attributes.
const NO_ATTRIBUTES: [&str; 2] = ["attributes_list", "detection/development"];

impl Resource {
    /// Reads the section, whose keys are those of [`ResourceKeys`] or, in the legacy form, names of attributes.
    pub(super) fn new(node: &Node, problems: &mut Problems<'_>) -> Self {
        let mut resource = Resource::default();
        if !matches!(node.value, Value::Mapping(_) | Value::Null) {
            problems.add("resource", format!("expected a map or struct, got {:?}", node.value.go_type()));
        }
        let is_known = |key: &str| ResourceKeys::names().contains(&key) || NO_ATTRIBUTES.contains(&key);
        for entry in node.entries().iter().filter(|entry| !is_known(&entry.key)) {
            resource.legacy(&entry.key, &entry.value, problems);
        }
        resource.list(node, problems);
        if node.get("detection/development").is_some() {
            problems.warn(
                "resource::detection/development",
                "accepted without effect: attributes are not detected",
            );
        }
        problems.require(node.get("attributes_list").is_none(), "resource::attributes_list", {
            "resource::attributes_list is not currently supported, please use resource::attributes"
        });
        if !resource.legacy.is_empty() {
            let has_list = node.get("attributes").is_some_and(|list| !list.is_null());
            problems.require(!has_list, "resource", {
                "resource::attributes cannot be used together with legacy inline resource attributes"
            });
            let message = "legacy inline map format; prefer service.telemetry.resource.attributes \
                (array of maps with `name` and `value` keys)";
            problems.warn("resource", message);
        }
        resource
    }

    fn list(&mut self, node: &Node, problems: &mut Problems<'_>) {
        let mut entries = node.entries().to_vec();
        entries.retain(|entry| ResourceKeys::names().contains(&entry.key.as_str()));
        let known = Node::new(Value::Mapping(entries), node.position.clone());
        let (keys, found) = Section::new("service::telemetry::resource", &known).read::<ResourceKeys>();
        problems.extend(found.into());
        let pairs = keys.attributes.into_iter().filter_map(|a| Some((a.name, a.value?.value)));
        self.attributes.extend(pairs);
    }

    fn legacy(&mut self, key: &str, node: &Node, problems: &mut Problems<'_>) {
        self.legacy.push(key.to_owned());
        match &node.value {
            Value::Null => self.removed.push(key.to_owned()),
            Value::String(text) => self.attributes.push((key.to_owned(), Value::String(text.clone()))),
            _ => problems.add(&format!("resource::{key}"), {
                format!("legacy resource attribute {key:?} must be string or null")
            }),
        }
    }
}
