//! The detector `env`: the variable `OTEL_RESOURCE_ATTRIBUTES`, or `OTEL_RESOURCE`, as `key=value,key=value`
//! with values in percent encoding.

use std::borrow::Cow;

use component::BoxFuture;
use opentelemetry_proto::tonic::common::v1::KeyValue;
use percent_encoding::percent_decode_str;

use super::{Detector, Found};

const VARIABLES: [&str; 2] = ["OTEL_RESOURCE_ATTRIBUTES", "OTEL_RESOURCE"];
/// The maximum length of a key or a value in bytes.
const BYTES_MAX: usize = 256;

pub(super) struct Env;

impl Detector for Env {
    fn name(&self) -> &'static str {
        "env"
    }

    fn detect(&self) -> BoxFuture<'_, Result<Found, String>> {
        Box::pin(async {
            let set = VARIABLES.into_iter().filter_map(|name| std::env::var(name).ok());
            let text = set.map(|text| text.trim().to_owned()).find(|text| !text.is_empty());
            Ok(Found { attributes: parse(&text.unwrap_or_default())?, schema_url: "" })
        })
    }
}

fn parse(text: &str) -> Result<Vec<KeyValue>, String> {
    let pairs = text.strip_suffix(',').unwrap_or(text);
    if pairs.is_empty() {
        return Ok(Vec::new());
    }
    pairs.split(',').map(|pair| parse_pair(pair).ok_or_else(|| invalid(pair))).collect()
}

fn invalid(pair: &str) -> String {
    format!(
        "invalid resource format: {pair:?}: expected key=value, of {BYTES_MAX} ASCII characters each at most"
    )
}

fn parse_pair(pair: &str) -> Option<KeyValue> {
    let (key, value) = pair.split_once('=')?;
    let (key, value) = (key.trim(), value.trim());
    let fits = |text: &str| text.is_ascii() && text.len() <= BYTES_MAX;
    let is_pair = !key.is_empty() && fits(key) && fits(value);
    is_pair.then(|| unescape(value)).flatten().map(|value| super::text(key, value))
}

/// Decodes a value as in a query, where `+` and `%20` are spaces; returns `None` if it has invalid escapes.
fn unescape(value: &str) -> Option<String> {
    let is_escape = |rest: &str| rest.get(..2).is_some_and(|d| d.bytes().all(|b| b.is_ascii_hexdigit()));
    let spaced = value.split('%').skip(1).all(is_escape).then(|| value.replace('+', " "))?;
    percent_decode_str(&spaced).decode_utf8().ok().map(Cow::into_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, want: Result<&[(&str, &str)], &str>) {
        let want = want.map(|pairs| pairs.iter().map(|(k, v)| super::super::text(k, *v)).collect());
        assert_eq!(parse(text), want.map_err(invalid), "{text:?}");
    }

    #[test]
    fn pairs_are_read_and_values_decoded() {
        check("", Ok(&[]));
        check("a=b", Ok(&[("a", "b")]));
        check(" a = b , example.org/x= ,", Ok(&[("a", "b"), ("example.org/x", "")]));
        check("a=b%20c+d%3D,e=f=g", Ok(&[("a", "b c d="), ("e", "f=g")]));
    }

    #[test]
    fn invalid_pairs_are_errors() {
        check("a", Err("a"));
        check("a=b,,c=d", Err(""));
        check("=b", Err("=b"));
        check("a=%2", Err("a=%2"));
        check("a=%+1", Err("a=%+1"));
        check("a=\u{e9}", Err("a=\u{e9}"));
    }
}
