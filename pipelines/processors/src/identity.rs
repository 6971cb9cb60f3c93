//! Which things are the same: a number of 128 bits for what identifies a resource, a scope, a series.
//!
//! The order of attributes does not matter, at any depth; everything else does. Two SipHashes with different
//! beginnings make up the number, so that a million identities meet by chance once in 10^26.

use std::hash::{DefaultHasher, Hash, Hasher};

use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::common::v1::{AnyValue, InstrumentationScope, KeyValue};
use opentelemetry_proto::tonic::resource::v1::Resource;

/// Collects what identifies a thing. Cheap to clone, for things that have much in common.
#[derive(Clone, Debug)]
pub(crate) struct Identity(DefaultHasher, DefaultHasher);

impl Default for Identity {
    fn default() -> Self {
        let mut other = DefaultHasher::new();
        other.write_u8(1);
        Identity(DefaultHasher::new(), other)
    }
}

impl Identity {
    /// The number of what was collected.
    pub(crate) fn number(&self) -> u128 {
        u128::from(self.0.finish()) << 64 | u128::from(self.1.finish())
    }

    /// With one more property.
    pub(crate) fn with(mut self, property: impl Hash) -> Self {
        property.hash(&mut self);
        self
    }

    /// With attributes, in whatever order.
    pub(crate) fn with_attributes(mut self, attributes: &[KeyValue]) -> Self {
        self.attributes(attributes);
        self
    }

    /// With a resource.
    pub(crate) fn with_resource(self, resource: Option<&Resource>) -> Self {
        let Some(Resource { attributes, dropped_attributes_count, entity_refs }) = resource else {
            return self.with_resource(Some(&Resource::default()));
        };
        let entities: Vec<String> = entity_refs.iter().map(|entity| format!("{entity:?}")).collect();
        self.with_attributes(attributes).with(dropped_attributes_count).with(entities)
    }

    /// With a scope.
    pub(crate) fn with_scope(self, scope: Option<&InstrumentationScope>) -> Self {
        let Some(InstrumentationScope { name, version, attributes, dropped_attributes_count }) = scope else {
            return self.with_scope(Some(&InstrumentationScope::default()));
        };
        self.with((name, version, dropped_attributes_count)).with_attributes(attributes)
    }

    fn attributes(&mut self, attributes: &[KeyValue]) {
        attributes.len().hash(self);
        let mut add = |attribute: &KeyValue| {
            attribute.key.hash(self);
            self.value(attribute.value.as_ref());
        };
        if attributes.is_sorted_by(|a, b| a.key <= b.key) {
            return attributes.iter().for_each(add);
        }
        let mut sorted: Vec<&KeyValue> = attributes.iter().collect();
        sorted.sort_by(|a, b| a.key.cmp(&b.key));
        sorted.into_iter().for_each(&mut add);
    }

    fn value(&mut self, value: Option<&AnyValue>) {
        let value = value.and_then(|v| v.value.as_ref());
        value.map(std::mem::discriminant).hash(self);
        match value {
            None => {}
            Some(Value::StringValue(text)) => text.hash(self),
            Some(Value::BoolValue(flag)) => flag.hash(self),
            Some(Value::IntValue(n)) => n.hash(self),
            Some(Value::DoubleValue(v)) => v.to_bits().hash(self),
            Some(Value::BytesValue(bytes)) => bytes.hash(self),
            Some(Value::StringValueStrindex(index)) => index.hash(self),
            Some(Value::ArrayValue(array)) => {
                array.values.len().hash(self);
                array.values.iter().for_each(|value| self.value(Some(value)));
            }
            Some(Value::KvlistValue(list)) => self.attributes(&list.values),
        }
    }
}

impl Hasher for Identity {
    fn finish(&self) -> u64 {
        self.0.finish()
    }

    fn write(&mut self, bytes: &[u8]) {
        self.0.write(bytes);
        self.1.write(bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resource(attributes: &str) -> u128 {
        let json = format!(r#"{{"resourceLogs":[{{"resource":{{"attributes":[{attributes}]}}}}]}}"#);
        let data = pdata::json::decode(pdata::Signal::Logs, json.as_bytes()).unwrap();
        let pdata::Data::Logs(logs) = data else { unreachable!("logs were read") };
        Identity::default().with_resource(logs.resource_logs[0].resource.as_ref()).number()
    }

    #[test]
    fn the_order_of_attributes_does_not_matter_and_everything_else_does() {
        let a = r#"{"key":"a","value":{"intValue":"1"}}"#;
        let b = r#"{"key":"b","value":{"kvlistValue":{"values":[{"key":"x"},{"key":"y"}]}}}"#;
        let turned = r#"{"key":"b","value":{"kvlistValue":{"values":[{"key":"y"},{"key":"x"}]}}}"#;
        let text = r#"{"key":"a","value":{"stringValue":"1"}}"#;
        assert_eq!(resource(&format!("{a},{b}")), resource(&format!("{turned},{a}")));
        assert_ne!(resource(a), resource(text));
        assert_ne!(resource(a), resource(&format!("{a},{b}")));
        assert_eq!(resource(""), Identity::default().with_resource(None).number());
    }
}
