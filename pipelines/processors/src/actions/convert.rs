//! The `convert` action, which converts a value to a string, an integer or a double. Values that cannot be
//! converted are unchanged.

use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::common::v1::{AnyValue, KeyValue};
use pdata::json::plain;

/// The type to convert to.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Target {
    /// A string.
    Text,
    /// An integer.
    Int,
    /// A double.
    Double,
}

impl Target {
    /// The names of the targets.
    pub(crate) const ALL: [(&'static str, Target); 3] =
        [("string", Target::Text), ("int", Target::Int), ("double", Target::Double)];

    pub(super) fn convert(self, attribute: &mut KeyValue) {
        let value = attribute.value.as_ref().and_then(|v| v.value.as_ref());
        let converted = match self {
            Target::Text => Some(Value::StringValue(plain::text(attribute.value.as_ref()))),
            Target::Int => value.and_then(int).map(Value::IntValue),
            Target::Double => value.and_then(double).map(Value::DoubleValue),
        };
        if converted.is_some() {
            attribute.value = Some(AnyValue { value: converted });
        }
    }
}

fn int(value: &Value) -> Option<i64> {
    match value {
        Value::IntValue(n) => Some(*n),
        #[expect(clippy::cast_possible_truncation, reason = "towards zero, and to the nearest that fits")]
        Value::DoubleValue(v) => Some(*v as i64),
        Value::BoolValue(flag) => Some((*flag).into()),
        Value::StringValue(text) => text.parse().ok(),
        _ => None,
    }
}

fn double(value: &Value) -> Option<f64> {
    match value {
        Value::IntValue(n) => Some(*n as f64),
        Value::DoubleValue(v) => Some(*v),
        Value::BoolValue(flag) => Some(f64::from(*flag)),
        Value::StringValue(text) => text.parse().ok(),
        _ => None,
    }
}
