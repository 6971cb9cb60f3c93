//! The identity of resources, scopes and series: a hash of 128 bits.
//!
//! The order of attributes is ignored at any depth. The hash is two SipHashes with different initial input, so that a
//! million identities collide with a probability of 10^-26.

use std::hash::{DefaultHasher, Hash, Hasher};

use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::common::v1::{AnyValue, InstrumentationScope, KeyValue};
use opentelemetry_proto::tonic::resource::v1::Resource;

/// A hasher of identifying properties. Cheap to clone, to extend a common prefix.
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
    /// Returns the hash of the properties.
    pub(crate) fn number(&self) -> u128 {
        u128::from(self.0.finish()) << 64 | u128::from(self.1.finish())
    }

    /// Adds a property.
    pub(crate) fn with(mut self, property: impl Hash) -> Self {
        property.hash(&mut self);
        self
    }

    /// Adds attributes, ignoring their order.
    pub(crate) fn with_attributes(mut self, attributes: &[KeyValue]) -> Self {
        self.attributes(attributes);
        self
    }

    /// Adds a resource.
    pub(crate) fn with_resource(self, resource: Option<&Resource>) -> Self {
        let Some(Resource { attributes, dropped_attributes_count, entity_refs }) = resource else {
            return self.with_resource(Some(&Resource::default()));
        };
        let entities: Vec<String> = entity_refs.iter().map(|entity| format!("{entity:?}")).collect();
        self.with_attributes(attributes).with(dropped_attributes_count).with(entities)
    }

    /// Adds a scope.
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
    fn identity_ignores_only_the_order_of_attributes() {
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
