//! The tree of a configuration: plain values with their positions.
//!
//! Mappings have the order of the file, so that problems are reported in that order.

use std::fmt;
use std::sync::Arc;

use serde::Deserialize;
use serde::de::{Deserializer, Error, MapAccess, SeqAccess, Visitor};

/// The position of a value in its source.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Position {
    /// The file, or another source such as `env:NAME`.
    pub source: Arc<str>,
    /// Line, from 1; 0 if the source has no lines.
    pub line: u32,
    /// Column in characters, from 1; 0 if the source has no lines.
    pub column: u32,
}

impl Position {
    /// Returns the position of values that were not read from a text.
    pub fn unknown() -> Self {
        Position { source: Arc::from(""), line: 0, column: 0 }
    }
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&*self.source, self.line) {
            ("", _) => f.write_str("configuration"),
            (source, 0) => f.write_str(source),
            (source, line) => write!(f, "{source}:{line}:{}", self.column),
        }
    }
}

/// A value and its position.
#[derive(Clone, Debug, PartialEq)]
pub struct Node {
    /// The value itself.
    pub value: Value,
    /// The original text of a value that was expanded from a reference such as `${env:NAME}`: string fields use the
    /// text, other types the value.
    pub text: Option<String>,
    /// The position of its first character.
    pub position: Position,
}

/// A value of the tree.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// The zero of a plain type; other types keep their default.
    Null,
    /// `true` or `false`.
    Bool(bool),
    /// An integer, wide enough for both of Go's 64-bit types.
    Int(i128),
    /// A number with a fraction, an infinity, or not a number.
    Float(f64),
    /// A string.
    String(String),
    /// A list of values.
    Sequence(Vec<Node>),
    /// Keys and values in the order of the file, without duplicates.
    Mapping(Vec<Entry>),
}

/// A key of a mapping, and its value.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    /// The text of the key.
    pub key: String,
    /// The position of the key.
    pub position: Position,
    /// The value of the key.
    pub value: Node,
}

impl Node {
    /// Creates a node without an original text.
    pub fn new(value: Value, position: Position) -> Self {
        Node { value, text: None, position }
    }

    /// Returns the value of `key`, if this is a mapping with that key.
    pub fn get(&self, key: &str) -> Option<&Node> {
        self.entries().iter().find(|e| e.key == key).map(|e| &e.value)
    }

    /// Returns the entries of a mapping; none for other values.
    pub fn entries(&self) -> &[Entry] {
        match &self.value {
            Value::Mapping(entries) => entries,
            _ => &[],
        }
    }

    /// Returns whether the value is [`Value::Null`].
    pub fn is_null(&self) -> bool {
        matches!(self.value, Value::Null)
    }

    /// Returns whether the values are equal, regardless of their positions and the order of keys.
    pub fn is_same(&self, other: &Node) -> bool {
        self.text == other.text
            && match (&self.value, &other.value) {
                (Value::Sequence(a), Value::Sequence(b)) => {
                    a.len() == b.len() && a.iter().zip(b).all(|(a, b)| a.is_same(b))
                }
                (Value::Mapping(a), Value::Mapping(b)) => {
                    a.len() == b.len()
                        && a.iter().all(|e| other.get(&e.key).is_some_and(|v| e.value.is_same(v)))
                }
                (a, b) => a == b,
            }
    }

    /// Returns whether one of its strings is `text`.
    pub fn mentions(&self, text: &str) -> bool {
        match &self.value {
            Value::String(own) => own == text,
            Value::Sequence(items) => items.iter().any(|item| item.mentions(text)),
            Value::Mapping(entries) => entries.iter().any(|e| e.value.mentions(text)),
            _ => false,
        }
    }
}

impl Value {
    /// Returns the name of the value's type in messages of Go's decoder.
    pub fn go_type(&self) -> &'static str {
        match self {
            Value::Null => "nil",
            Value::Bool(_) => "bool",
            Value::Int(_) => "int",
            Value::Float(_) => "float64",
            Value::String(_) => "string",
            Value::Sequence(_) => "[]interface {}",
            Value::Mapping(_) => "map[string]interface {}",
        }
    }
}

/// Deserializes a tree without positions from any self-describing format, for tests and defaults.
impl<'de> Deserialize<'de> for Node {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ValueVisitor).map(|value| Node::new(value, Position::unknown()))
    }
}

struct ValueVisitor;

impl<'de> Visitor<'de> for ValueVisitor {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any value")
    }

    fn visit_unit<E: Error>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E: Error>(self, v: bool) -> Result<Value, E> {
        Ok(Value::Bool(v))
    }

    fn visit_i64<E: Error>(self, v: i64) -> Result<Value, E> {
        Ok(Value::Int(v.into()))
    }

    fn visit_u64<E: Error>(self, v: u64) -> Result<Value, E> {
        Ok(Value::Int(v.into()))
    }

    fn visit_f64<E: Error>(self, v: f64) -> Result<Value, E> {
        Ok(Value::Float(v))
    }

    fn visit_str<E: Error>(self, v: &str) -> Result<Value, E> {
        Ok(Value::String(v.to_owned()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Value, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = seq.next_element()? {
            items.push(item);
        }
        Ok(Value::Sequence(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Value, A::Error> {
        let mut entries: Vec<Entry> = Vec::new();
        while let Some((key, value)) = map.next_entry::<String, Node>()? {
            if entries.iter().any(|e| e.key == key) {
                return Err(A::Error::custom(format_args!("mapping key {key:?} already defined")));
            }
            entries.push(Entry { key, position: Position::unknown(), value });
        }
        Ok(Value::Mapping(entries))
    }
}
