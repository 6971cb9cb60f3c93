//! Writes YAML in block style, and quotes every string that any YAML parser could read as another type.
//! `serde_yaml` quotes for itself only; it treats `1_000` and `0123` as strings.

use std::fmt::Write as _;

use config::Value;
use serde::Serialize;
use serde_yaml::Value as Plain;

use super::scalar;

/// Serializes a value as YAML that every YAML parser reads as the same values.
pub fn to_yaml(value: &impl Serialize) -> Result<String, serde_yaml::Error> {
    Ok(to_text(&serde_yaml::to_value(value)?))
}

/// Returns the text of a tree.
pub(super) fn to_text(value: &Plain) -> String {
    let mut out = String::new();
    match value {
        Plain::Mapping(map) if !map.is_empty() => block(&mut out, value, 0),
        Plain::Sequence(items) if !items.is_empty() => block(&mut out, value, 0),
        _ => out = format!("{}\n", inline(value)),
    }
    out
}

/// Writes a value that does not fit on the line of its key, with at least one line per entry.
fn block(out: &mut String, value: &Plain, indent: usize) {
    let pad = " ".repeat(indent);
    match value {
        Plain::Mapping(map) => {
            for (key, value) in map {
                out.push_str(&pad);
                out.push_str(&inline(key));
                out.push(':');
                write_after(out, value, indent + 4);
            }
        }
        Plain::Sequence(items) => {
            for item in items {
                out.push_str(&pad);
                out.push('-');
                write_after(out, item, indent + 4);
            }
        }
        _ => {}
    }
}

/// Writes a value after its key or dash.
fn write_after(out: &mut String, value: &Plain, indent: usize) {
    let is_block = match value {
        Plain::Mapping(map) => !map.is_empty(),
        Plain::Sequence(items) => !items.is_empty(),
        _ => false,
    };
    if is_block {
        out.push('\n');
        block(out, value, indent);
    } else {
        // Writing to a string cannot fail.
        let _ = writeln!(out, " {}", inline(value));
    }
}

fn inline(value: &Plain) -> String {
    match value {
        Plain::Null | Plain::Tagged(_) => "null".to_owned(),
        Plain::Bool(b) => b.to_string(),
        Plain::Number(number) => number.to_string(),
        Plain::String(text) if is_plain(text) => text.clone(),
        Plain::String(text) => quoted(text),
        Plain::Sequence(_) => "[]".to_owned(),
        Plain::Mapping(_) => "{}".to_owned(),
    }
}

/// Returns whether every parser reads a text as a string without quotes. YAML 1.1 has more words and number formats
/// than the Collector's parser; they are quoted, too.
fn is_plain(text: &str) -> bool {
    let is_inner = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '/' | '-' | ':');
    let starts_well = text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_' || c == '/');
    let is_word = ["y", "n", "yes", "no", "on", "off"].contains(&text.to_ascii_lowercase().as_str());
    starts_well
        && !is_word
        && !text.ends_with(':')
        && text.chars().all(is_inner)
        && scalar::resolve(text) == Value::String(text.to_owned())
}

fn quoted(text: &str) -> String {
    let mut out = String::from("\"");
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\t' => out.push_str("\\t"),
            '\r' => out.push_str("\\r"),
            // Control characters, and the ends of a line or of a text in YAML 1.1.
            c if c.is_control() || matches!(c, '\u{2028}' | '\u{2029}' | '\u{feff}') => {
                let _ = write!(out, "\\u{:04x}", u32::from(c));
            }
            c => out.push(c),
        }
    }
    out.push('"');
    out
}
