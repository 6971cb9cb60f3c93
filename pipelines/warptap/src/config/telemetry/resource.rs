//! The section `service::telemetry::resource`: attributes in a list, or, in the older format, as keys of the
//! section, where null removes a default attribute.

use config::{Node, Section, Value};

use super::Reading;
use super::keys::AttributeKeys;

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

impl Resource {
    pub(super) fn read(reading: &mut Reading<'_>) -> Self {
        let node = reading.section.node();
        let mut resource = Resource::default();
        if !matches!(node.value, Value::Mapping(_) | Value::Null) {
            reading.wrong("", format!("expected a map or struct, got {:?}", node.value.go_type()));
        }
        for entry in node.entries() {
            let key = entry.key.as_str();
            match key {
                "attributes" => resource.list(&entry.value, reading),
                "schema_url" | "detectors" | "detection/development" => reading.no_effect(key),
                "attributes_list" => reading.wrong(key, {
                    "resource::attributes_list is not currently supported, please use resource::attributes"
                }),
                _ => resource.legacy(key, &entry.value, reading),
            }
        }
        if node.get("attributes").is_some_and(|list| !list.is_null()) && !resource.legacy.is_empty() {
            let message =
                "resource::attributes cannot be used together with legacy inline resource attributes";
            reading.wrong("", message);
        }
        if !resource.legacy.is_empty() {
            let message = "legacy inline map format; prefer service.telemetry.resource.attributes \
                (array of maps with `name` and `value` keys)";
            reading.odd("", message);
        }
        resource
    }

    fn list(&mut self, list: &Node, reading: &mut Reading<'_>) {
        let path = format!("{}::attributes", reading.section.path());
        match Section::new(&path, list).decode::<Vec<AttributeKeys>>() {
            Ok(found) => {
                let pair = |a: AttributeKeys| Some((a.name, a.value?.value));
                self.attributes.extend(found.into_iter().filter_map(pair));
            }
            Err(_) if list.is_null() => {}
            Err(error) => reading.problems.extend(error.into_problems()),
        }
    }

    fn legacy(&mut self, key: &str, node: &Node, reading: &mut Reading<'_>) {
        self.legacy.push(key.to_owned());
        match &node.value {
            Value::Null => self.removed.push(key.to_owned()),
            Value::String(text) => self.attributes.push((key.to_owned(), Value::String(text.clone()))),
            _ => reading.wrong(key, format!("legacy resource attribute {key:?} must be string or null")),
        }
    }
}
