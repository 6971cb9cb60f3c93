//! Appends JSON to bytes. There is no state: whether a comma is required before a field follows from the last byte,
//! since no value ends in `{`.

use std::io::Write as _;

use crate::json::Message;

/// Appends `{...}`.
pub(crate) fn message<M: Message>(message: &M, out: &mut Vec<u8>) {
    out.push(b'{');
    message.write_fields(out);
    out.push(b'}');
}

/// Appends `[...]`; `write` appends each item.
pub(crate) fn list<T>(items: &[T], out: &mut Vec<u8>, write: impl Fn(&T, &mut Vec<u8>)) {
    out.push(b'[');
    for (index, item) in items.iter().enumerate() {
        if index > 0 {
            out.push(b',');
        }
        write(item, out);
    }
    out.push(b']');
}

/// Appends `"name":`, after a comma unless it is the first in its object. Names need no escapes.
pub(crate) fn key(name: &str, out: &mut Vec<u8>) {
    if out.last() != Some(&b'{') {
        out.push(b',');
    }
    quoted(name, out);
    out.push(b':');
}

/// Appends a quoted text without escaping.
pub(crate) fn quoted(text: &str, out: &mut Vec<u8>) {
    out.push(b'"');
    out.extend_from_slice(text.as_bytes());
    out.push(b'"');
}

/// Appends a quoted text and escapes it.
pub(crate) fn text(text: &str, out: &mut Vec<u8>) {
    out.push(b'"');
    let mut rest = text.as_bytes();
    while let Some(at) = rest.iter().position(|&b| b < 0x20 || b == b'"' || b == b'\\') {
        out.extend_from_slice(&rest[..at]);
        escape(rest[at], out);
        rest = &rest[at + 1..];
    }
    out.extend_from_slice(rest);
    out.push(b'"');
}

fn escape(byte: u8, out: &mut Vec<u8>) {
    match byte {
        b'"' => out.extend_from_slice(b"\\\""),
        b'\\' => out.extend_from_slice(b"\\\\"),
        b'\n' => out.extend_from_slice(b"\\n"),
        b'\r' => out.extend_from_slice(b"\\r"),
        b'\t' => out.extend_from_slice(b"\\t"),
        control => print(format_args!("\\u{control:04x}"), out),
    }
}

/// Appends formatted text, which must be ASCII: numbers, escapes.
pub(crate) fn print(what: std::fmt::Arguments<'_>, out: &mut Vec<u8>) {
    out.write_fmt(what).expect("writing to a vector does not fail");
}

/// Appends a double: the shortest digits that are parsed as the same value, or a string for the three values
/// without a JSON number.
pub(crate) fn double(value: f64, out: &mut Vec<u8>) {
    match value {
        v if v.is_nan() => quoted("NaN", out),
        f64::INFINITY => quoted("Infinity", out),
        f64::NEG_INFINITY => quoted("-Infinity", out),
        v => print(format_args!("{v:?}"), out),
    }
}
