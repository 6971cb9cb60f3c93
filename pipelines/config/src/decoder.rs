//! A serde deserializer of a node, as strict as the Collector's decoder: types are not converted, and messages are
//! those of that decoder.
//!
//! There are four exceptions, which Go's decoder has, too: a float without a fraction is an integer, a
//! comma-separated text is a list, an expanded scalar is its original text for a string field, and null is the zero
//! value of a plain type: an empty string, 0, false. For lists, maps, sections and choices null keeps the default.

use std::fmt;
use std::time::Duration;

use serde::de::value::{BorrowedStrDeserializer, MapAccessDeserializer};
use serde::de::{Deserializer, Visitor};

use super::access::{Entries, Items, Parts, Pieces};
use super::decode::Pass;
use super::failure::{Failure, Place};
use super::{GoDuration, Node, Reading, Value, duration, headers, optional};

/// The path of a value in the tree.
#[derive(Clone, Copy)]
pub(super) enum Path<'a> {
    /// The section itself.
    Root(&'a str),
    /// A key of a mapping.
    Key(&'a Path<'a>, &'a str),
    /// An item of a sequence.
    Item(&'a Path<'a>, usize),
}

impl fmt::Display for Path<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Path::Root(path) => f.write_str(path),
            Path::Key(Path::Root(""), key) => f.write_str(key),
            Path::Key(above, key) => write!(f, "{above}::{key}"),
            Path::Item(above, index) => write!(f, "{above}[{index}]"),
        }
    }
}

/// A node to decode.
#[derive(Clone, Copy)]
pub(super) struct Decoder<'de, 'p> {
    pub(super) node: &'de Node,
    pub(super) path: Path<'p>,
    pub(super) pass: &'p Pass,
    /// Whether it is an optional section, in which `enabled` is not a key of the struct.
    pub(super) hides_enabled: bool,
}

impl<'de, 'p> Decoder<'de, 'p> {
    /// Returns a decoder of the section at `path`.
    pub(super) fn root(path: &'p str, node: &'de Node, pass: &'p Pass) -> Self {
        Decoder { node, path: Path::Root(path), pass, hides_enabled: false }
    }

    /// Returns the decoder of a value below this one.
    pub(super) fn below(&self, path: Path<'p>, node: &'de Node) -> Self {
        Decoder { node, path, pass: self.pass, hides_enabled: false }
    }

    /// Attributes a failure without a position to this value.
    pub(super) fn blame(&self, mut failure: Failure) -> Failure {
        if failure.place().is_none() {
            let is_root = matches!(self.path, Path::Root(_));
            let problem = (!self.follows(&failure)).then(|| failure.problem(self.node, &self.path));
            failure.put(Place { node: self.node, is_root, problem });
        }
        failure
    }

    /// Returns whether the failure is not reported: a null keeps the default, and a field may be absent because its
    /// value was skipped for a reported problem.
    fn follows(&self, failure: &Failure) -> bool {
        let written = failure.missing().and_then(|field| self.node.get(field));
        match self.path {
            Path::Root(_) => written.is_some_and(|node| !node.is_null()),
            _ => self.node.is_null() || written.is_some_and(|node| !node.is_null()),
        }
    }

    /// Returns whether this is the null of a section without a body.
    fn is_empty_root(&self) -> bool {
        matches!(self.path, Path::Root(_)) && self.node.is_null()
    }

    fn unconvertible<T>(&self, expected: &str) -> Result<T, Failure> {
        let actual = self.node.value.go_type();
        Err(Failure::new(format!("expected type '{expected}', got unconvertible type '{actual}'")))
    }

    /// Returns the text of a string field; null is empty.
    fn text_or_zero(&self) -> Result<&'de str, Failure> {
        match (&self.node.value, &self.node.text) {
            (Value::Null, None) => {
                self.note(Reading::Text);
                Ok("")
            }
            _ => self.text(),
        }
    }

    fn text(&self) -> Result<&'de str, Failure> {
        match (&self.node.text, &self.node.value) {
            (Some(text), _) | (None, Value::String(text)) => {
                self.note(Reading::Text);
                Ok(text)
            }
            _ => self.unconvertible("string"),
        }
    }

    pub(super) fn note(&self, reading: Reading) {
        self.pass.note(self.node, reading);
    }

    /// Records the value of a duration.
    fn note_duration(&self) {
        let duration = match &self.node.value {
            Value::String(text) => GoDuration::parse(text).ok(),
            Value::Int(nanos) => u64::try_from(*nanos).ok().map(|n| Duration::from_nanos(n).into()),
            Value::Float(nanos) => whole(*nanos).map(|n| Duration::from_nanos(n).into()),
            Value::Null => Some(GoDuration::default()),
            _ => None,
        };
        if let Some(GoDuration(duration)) = duration {
            self.note(Reading::Duration(duration));
        }
    }

    /// Returns whether this is a null from an expansion, such as an unset variable. Unlike a literal null it does
    /// not keep the default of a list or a map; it is empty.
    fn is_empty(&self) -> bool {
        self.node.is_null() && self.node.text.is_some()
    }

    fn integer<T: TryFrom<i128>>(&self, expected: &str) -> Result<T, Failure> {
        let integer = match self.node.value {
            Value::Int(i) => i,
            Value::Null => 0,
            Value::Float(f) if f.fract() == 0.0 && f.abs() < 1e30 => f as i128,
            Value::Float(f) => {
                return Err(Failure::new(format!("expected type '{expected}', got the fraction {f}")));
            }
            _ => return self.unconvertible(expected),
        };
        self.note(Reading::Number);
        let is_unsigned = expected.starts_with('u');
        integer.try_into().map_err(|_| match integer < 0 && is_unsigned {
            true => Failure::new(format!("{integer} is negative: expected 0 or more")),
            false => Failure::new(format!("{integer} overflows {expected}")),
        })
    }

    fn float(&self) -> Result<f64, Failure> {
        let float = match self.node.value {
            Value::Float(f) => f,
            Value::Int(i) => i as f64,
            Value::Null => 0.0,
            _ => return self.unconvertible("float64"),
        };
        self.note(Reading::Number);
        Ok(float)
    }

    fn boolean(&self) -> Result<bool, Failure> {
        let boolean = match &self.node.value {
            Value::Bool(b) => *b,
            Value::Null => false,
            Value::String(text) => return self.unconvertible("bool").map_err(|f| hint_bool(f, text)),
            _ => return self.unconvertible("bool"),
        };
        self.note(Reading::Bool);
        Ok(boolean)
    }

    fn keys<V: Visitor<'de>>(self, keys: Entries<'de, 'p>, visitor: V) -> Result<V::Value, Failure> {
        visitor.visit_map(keys).map_err(|f| self.blame(f))
    }
}

/// Suggests a bool for a text that is a bool in YAML 1.1, or a quoted one.
fn hint_bool(failure: Failure, text: &str) -> Failure {
    let meant = match text.to_ascii_lowercase().as_str() {
        "true" | "yes" | "on" | "y" | "1" => "true",
        "false" | "no" | "off" | "n" | "0" => "false",
        _ => return failure,
    };
    Failure::new(format!("{failure}: write {meant} without quotes"))
}

macro_rules! integers {
    ($($method:ident $visit:ident $expected:literal)*) => {$(
        fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Failure> {
            self.integer($expected).and_then(|i| visitor.$visit(i)).map_err(|f| self.blame(f))
        }
    )*};
}

impl<'de> Deserializer<'de> for Decoder<'de, '_> {
    type Error = Failure;

    integers! {
        deserialize_i8 visit_i8 "int8"
        deserialize_i16 visit_i16 "int16"
        deserialize_i32 visit_i32 "int32"
        deserialize_i64 visit_i64 "int64"
        deserialize_i128 visit_i128 "int128"
        deserialize_u8 visit_u8 "uint8"
        deserialize_u16 visit_u16 "uint16"
        deserialize_u32 visit_u32 "uint32"
        deserialize_u64 visit_u64 "uint64"
        deserialize_u128 visit_u128 "uint128"
    }

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Failure> {
        let visited = match &self.node.value {
            Value::Null => visitor.visit_unit(),
            Value::Bool(b) => visitor.visit_bool(*b),
            Value::Int(i) => visit_int(*i, visitor),
            Value::Float(f) => visitor.visit_f64(*f),
            Value::String(s) => visitor.visit_borrowed_str(s),
            Value::Sequence(items) => visitor.visit_seq(Items::new(self, items)),
            Value::Mapping(_) => visitor.visit_map(Entries::all(self)),
        };
        if visited.is_ok() {
            self.note(Reading::Value);
        }
        visited.map_err(|f| self.blame(f))
    }

    fn deserialize_bool<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Failure> {
        self.boolean().and_then(|b| visitor.visit_bool(b)).map_err(|f| self.blame(f))
    }

    fn deserialize_f32<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Failure> {
        self.deserialize_f64(visitor)
    }

    fn deserialize_f64<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Failure> {
        self.float().and_then(|x| visitor.visit_f64(x)).map_err(|f| self.blame(f))
    }

    fn deserialize_str<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Failure> {
        self.text_or_zero().and_then(|s| visitor.visit_borrowed_str(s)).map_err(|f| self.blame(f))
    }

    fn deserialize_string<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Failure> {
        self.deserialize_str(visitor)
    }

    fn deserialize_char<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Failure> {
        self.deserialize_str(visitor)
    }

    fn deserialize_identifier<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Failure> {
        self.deserialize_str(visitor)
    }

    fn deserialize_bytes<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Failure> {
        self.deserialize_str(visitor)
    }

    fn deserialize_byte_buf<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Failure> {
        self.deserialize_str(visitor)
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Failure> {
        match self.node.value {
            Value::Null => Err(self.blame(Failure::new("null"))),
            _ => visitor.visit_some(self).map_err(|f| self.blame(f)),
        }
    }

    fn deserialize_unit<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Failure> {
        self.deserialize_any(visitor)
    }

    fn deserialize_unit_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        visitor: V,
    ) -> Result<V::Value, Failure> {
        self.deserialize_any(visitor)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        visitor: V,
    ) -> Result<V::Value, Failure> {
        match name {
            duration::MARK => self.note_duration(),
            headers::SECRET_MARK => self.note(Reading::Secret),
            _ => {}
        }
        let visited = match (name, &self.node.value) {
            (optional::MARK, Value::Null) => visitor.visit_unit(),
            (optional::MARK, Value::Mapping(_)) => visitor.visit_seq(Parts::of(self)),
            (optional::MARK, _) => expected_map(self),
            (duration::MARK, Value::Null) => visitor.visit_u64(0),
            (duration::MARK, Value::Float(nanos)) => match whole(*nanos) {
                Some(nanos) => visitor.visit_u64(nanos),
                None => Err(Failure::new(format!("expected whole nanoseconds, got {nanos}"))),
            },
            (duration::MARK, Value::Bool(_) | Value::Sequence(_) | Value::Mapping(_)) => {
                self.unconvertible("time.Duration")
            }
            _ => visitor.visit_newtype_struct(self),
        };
        visited.map_err(|f| self.blame(f))
    }

    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Failure> {
        let visited = match &self.node.value {
            Value::Sequence(items) => visitor.visit_seq(Items::new(self, items)),
            Value::String(text) => {
                self.note(Reading::Pieces);
                visitor.visit_seq(Pieces::new(self, text))
            }
            Value::Null if self.is_empty() => visitor.visit_seq(Items::new(self, &[])),
            other => {
                let actual = other.go_type();
                Err(Failure::new(format!("source data must be an array or slice, got {actual}")))
            }
        };
        visited.map_err(|f| self.blame(f))
    }

    fn deserialize_tuple<V: Visitor<'de>>(self, _len: usize, visitor: V) -> Result<V::Value, Failure> {
        self.deserialize_seq(visitor)
    }

    fn deserialize_tuple_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        _len: usize,
        visitor: V,
    ) -> Result<V::Value, Failure> {
        self.deserialize_seq(visitor)
    }

    fn deserialize_map<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Failure> {
        match self.node.value {
            Value::Mapping(_) => self.keys(Entries::all(self), visitor),
            _ if self.is_empty_root() || self.is_empty() => self.keys(Entries::all(self), visitor),
            _ => expected_map(self).map_err(|f| self.blame(f)),
        }
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Failure> {
        match self.node.value {
            Value::Mapping(_) => self.keys(Entries::of_struct(self, fields), visitor),
            _ if self.is_empty_root() => self.keys(Entries::all(self), visitor),
            _ => expected_map(self).map_err(|f| self.blame(f)),
        }
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _name: &'static str,
        _variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Failure> {
        let visited = match self.node.value {
            Value::Mapping(_) => visitor.visit_enum(MapAccessDeserializer::new(Entries::all(self))),
            _ => self.text().and_then(|text| {
                let variant: BorrowedStrDeserializer<'_, Failure> = BorrowedStrDeserializer::new(text);
                visitor.visit_enum(variant)
            }),
        };
        visited.map_err(|f| self.blame(f))
    }

    fn deserialize_ignored_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Failure> {
        visitor.visit_unit()
    }
}

/// Converts a float to whole nanoseconds, up to Go's limit of 292 years.
fn whole(nanos: f64) -> Option<u64> {
    let is_whole = nanos.fract() == 0.0 && (0.0..9.2e18).contains(&nanos);
    is_whole.then_some(nanos as u64)
}

fn expected_map<T>(decoder: Decoder<'_, '_>) -> Result<T, Failure> {
    let actual = decoder.node.value.go_type();
    Err(Failure::new(format!("expected a map or struct, got {actual:?}")))
}

fn visit_int<'de, V: Visitor<'de>>(i: i128, visitor: V) -> Result<V::Value, Failure> {
    match (i64::try_from(i), u64::try_from(i)) {
        (Ok(i), _) => visitor.visit_i64(i),
        (_, Ok(i)) => visitor.visit_u64(i),
        _ => visitor.visit_i128(i),
    }
}
