//! Values in a readable form: strings without quotes, lists and maps as JSON with sorted keys. The Collector prints
//! and converts values in this form, which is that of Go's `encoding/json`. Unlike there, a list or map that
//! contains an infinity or a NaN is not lost as a whole: the number is written as a string.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::common::v1::{AnyValue, KeyValue};

/// Returns the name of a value's type.
pub fn type_name(value: Option<&AnyValue>) -> &'static str {
    match value.and_then(|v| v.value.as_ref()) {
        None | Some(Value::StringValueStrindex(_)) => "Empty",
        Some(Value::StringValue(_)) => "Str",
        Some(Value::BoolValue(_)) => "Bool",
        Some(Value::IntValue(_)) => "Int",
        Some(Value::DoubleValue(_)) => "Double",
        Some(Value::ArrayValue(_)) => "Slice",
        Some(Value::KvlistValue(_)) => "Map",
        Some(Value::BytesValue(_)) => "Bytes",
    }
}

/// Returns the text of a value; empty if it is not set.
pub fn text(value: Option<&AnyValue>) -> String {
    match value.and_then(|v| v.value.as_ref()) {
        None | Some(Value::StringValueStrindex(_)) => String::new(),
        Some(Value::StringValue(text)) => text.clone(),
        Some(Value::DoubleValue(v)) => go_format::json(*v),
        Some(Value::BytesValue(bytes)) => STANDARD.encode(bytes),
        Some(other) => {
            let mut out = String::new();
            json(Some(other), &mut out);
            out
        }
    }
}

fn json(value: Option<&Value>, out: &mut String) {
    match value {
        None | Some(Value::StringValueStrindex(_)) => out.push_str("null"),
        Some(Value::StringValue(text)) => quoted(text, out),
        Some(Value::BoolValue(flag)) => out.push_str(if *flag { "true" } else { "false" }),
        Some(Value::IntValue(n)) => out.push_str(&n.to_string()),
        Some(Value::DoubleValue(v)) if v.is_finite() => out.push_str(&go_format::json(*v)),
        Some(Value::DoubleValue(v)) => quoted(&go_format::json(*v), out),
        Some(Value::BytesValue(bytes)) if bytes.is_empty() => out.push_str("null"),
        Some(Value::BytesValue(bytes)) => quoted(&STANDARD.encode(bytes), out),
        Some(Value::ArrayValue(list)) => {
            out.push('[');
            separated(list.values.iter(), out, |item, out| json(item.value.as_ref(), out));
            out.push(']');
        }
        Some(Value::KvlistValue(map)) => {
            out.push('{');
            separated(sorted(&map.values).into_iter(), out, |pair, out| {
                quoted(&pair.key, out);
                out.push(':');
                json(pair.value.as_ref().and_then(|v| v.value.as_ref()), out);
            });
            out.push('}');
        }
    }
}

/// Returns the pairs of a map sorted by key; the last of duplicates.
fn sorted(pairs: &[KeyValue]) -> Vec<&KeyValue> {
    let by_key: BTreeMap<&str, &KeyValue> = pairs.iter().map(|pair| (pair.key.as_str(), pair)).collect();
    by_key.into_values().collect()
}

fn separated<T>(items: impl Iterator<Item = T>, out: &mut String, write: impl Fn(T, &mut String)) {
    for (index, item) in items.enumerate() {
        if index > 0 {
            out.push(',');
        }
        write(item, out);
    }
}

fn quoted(text: &str, out: &mut String) {
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            '\0'..='\u{1f}' | '\u{2028}' | '\u{2029}' => {
                let _ = write!(out, "\\u{:04x}", u32::from(c));
            }
            c => out.push(c),
        }
    }
    out.push('"');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_have_the_text_of_the_collector() {
        let json = br#"{"attributes":[
            {"key":"a","value":{"stringValue":"<x> \"q\""}},
            {"key":"b","value":{"kvlistValue":{"values":[
                {"key":"z","value":{"stringValue":"<\n\u0001>"}},
                {"key":"d","value":{"doubleValue":34.22}},
                {"key":"n","value":{}},
                {"key":"l","value":{"arrayValue":{"values":[{"intValue":"1"},{"boolValue":true},{"bytesValue":"AQI="}]}}},
                {"key":"z","value":{"stringValue":"last"}}]}}},
            {"key":"c","value":{"bytesValue":"AQI="}},
            {"key":"d","value":{}},
            {"key":"e","value":{"doubleValue":1e6}}]}"#;
        let span: opentelemetry_proto::tonic::trace::v1::Span = crate::json::from_slice(json).unwrap();
        let shown: Vec<String> = span
            .attributes
            .iter()
            .map(|a| format!("{}({})", type_name(a.value.as_ref()), text(a.value.as_ref())))
            .collect();
        let want = [
            r#"Str(<x> "q")"#,
            r#"Map({"d":34.22,"l":[1,true,"AQI="],"n":null,"z":"last"})"#,
            "Bytes(AQI=)",
            "Empty()",
            "Double(1000000)",
        ];
        assert_eq!(shown, want);
    }
}
