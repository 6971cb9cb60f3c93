//! The tree that a configuration is read into: plain values, each with the place it was written at.
//!
//! Mappings keep the order of the file, so that problems are reported in reading order.

use std::fmt;
use std::sync::Arc;

use serde::Deserialize;
use serde::de::{Deserializer, Error, MapAccess, SeqAccess, Visitor};

/// Where something was written.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Position {
    /// The file, or the name of another source such as `env:NAME`.
    pub source: Arc<str>,
    /// Line, from 1; 0 where the source has no lines.
    pub line: u32,
    /// Column in characters, from 1; 0 where the source has no lines.
    pub column: u32,
}

impl Position {
    /// A place that is nowhere: for trees that were not read from a text.
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

/// A value and its place.
#[derive(Clone, Debug, PartialEq)]
pub struct Node {
    /// The value.
    pub value: Value,
    /// The text it had before it was read as a value, where it came in through an expansion such as
    /// `${env:NAME}`: a string field takes this text, every other type takes the value.
    pub text: Option<String>,
    /// Where it begins.
    pub position: Position,
}

/// A value of the tree.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// Nothing: the zero of a plain value; keeps the default of anything else.
    Null,
    /// `true` or `false`.
    Bool(bool),
    /// A whole number, wide enough for both of Go's 64-bit integers.
    Int(i128),
    /// A number with a fraction, an infinity or not a number.
    Float(f64),
    /// A text.
    String(String),
    /// A list.
    Sequence(Vec<Node>),
    /// Keys and values, in the order of the file, each key once.
    Mapping(Vec<Entry>),
}

/// One key of a mapping and its value.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    /// The key.
    pub key: String,
    /// Where the key was written.
    pub position: Position,
    /// The value.
    pub value: Node,
}

impl Node {
    /// A node that was written as it is.
    pub fn new(value: Value, position: Position) -> Self {
        Node { value, text: None, position }
    }

    /// The value of `key`, where this is a mapping that has it.
    pub fn get(&self, key: &str) -> Option<&Node> {
        self.entries().iter().find(|e| e.key == key).map(|e| &e.value)
    }

    /// The keys and values of a mapping; none of anything else.
    pub fn entries(&self) -> &[Entry] {
        match &self.value {
            Value::Mapping(entries) => entries,
            _ => &[],
        }
    }

    /// True for [`Value::Null`].
    pub fn is_null(&self) -> bool {
        matches!(self.value, Value::Null)
    }

    /// True where the other one holds the same, wherever both were written, and in whatever order its keys are.
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

    /// True where one of the texts in it is `text`.
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
    /// What Go's decoder calls a value like this.
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

/// Reads a tree from any self-describing format; places are then unknown. For tests and for defaults.
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
