//! The resource of internal telemetry: name, version and instance id of the collector, and the configured
//! attributes.

use config::Value;
use opentelemetry::{Array, KeyValue, StringValue, Value as Attribute};
use opentelemetry_sdk::Resource as SdkResource;

use crate::config::telemetry::Resource;
use crate::prepare::VERSION;

/// Returns the resource attributes, sorted by name.
pub(super) fn attributes(configured: &Resource, instance_id: &str) -> Vec<KeyValue> {
    let defaults = [
        ("service.instance.id", instance_id),
        ("service.name", env!("CARGO_PKG_NAME")),
        ("service.version", VERSION),
    ];
    let defaults = defaults.into_iter().filter(|(name, _)| !configured.removed.iter().any(|r| r == name));
    let mut found: Vec<KeyValue> =
        defaults.map(|(name, value)| KeyValue::new(name, value.to_owned())).collect();
    for (name, value) in &configured.attributes {
        found.retain(|kv| kv.key.as_str() != name);
        found.extend(attribute(value).map(|value| KeyValue::new(name.clone(), value)));
    }
    found.sort_by(|a, b| a.key.cmp(&b.key));
    found
}

/// Converts attributes to a resource of the SDK.
pub(super) fn sdk(attributes: &[KeyValue]) -> SdkResource {
    SdkResource::builder_empty().with_attributes(attributes.to_vec()).build()
}

/// Converts attributes to texts, for the log.
pub(super) fn texts(attributes: &[KeyValue]) -> Vec<(String, String)> {
    attributes.iter().map(|kv| (kv.key.to_string(), kv.value.as_str().into_owned())).collect()
}

/// Returns a random instance id: the kernel's UUID of version 4, or the process id without `/proc`.
pub(crate) fn instance_id() -> String {
    let uuid = std::fs::read_to_string("/proc/sys/kernel/random/uuid");
    uuid.map(|uuid| uuid.trim().to_owned()).unwrap_or_else(|_| std::process::id().to_string())
}

fn attribute(value: &Value) -> Option<Attribute> {
    Some(match value {
        Value::Null | Value::Mapping(_) => return None,
        Value::Bool(b) => Attribute::Bool(*b),
        Value::Int(i) => i64::try_from(*i).map_or_else(|_| Attribute::from(i.to_string()), Attribute::I64),
        Value::Float(f) => Attribute::F64(*f),
        Value::String(text) => Attribute::from(text.clone()),
        Value::Sequence(items) => {
            let texts = items.iter().filter_map(|item| attribute(&item.value));
            let texts: Vec<StringValue> = texts.map(|value| value.as_str().into_owned().into()).collect();
            Attribute::Array(Array::String(texts))
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn configured_attributes_override_defaults() {
        let text = |text: &str| Value::String(text.to_owned());
        let configured = Resource {
            attributes: vec![
                ("zone".to_owned(), Value::Int(3)),
                ("service.name".to_owned(), text("mine")),
                ("zone".to_owned(), text("b")),
            ],
            removed: vec!["service.instance.id".to_owned()],
            legacy: Vec::new(),
        };
        let got = texts(&attributes(&configured, "id"));
        let want = [("service.name", "mine"), ("service.version", VERSION), ("zone", "b")];
        assert_eq!(got, want.map(|(n, v)| (n.to_owned(), v.to_owned())));
        let names = texts(&attributes(&Resource::default(), "id"));
        assert_eq!(names[0], ("service.instance.id".to_owned(), "id".to_owned()));
    }

    #[test]
    fn ids_differ() {
        let (a, b) = (instance_id(), instance_id());
        assert!(a.len() == 36 && a != b, "{a} {b}");
    }
}
