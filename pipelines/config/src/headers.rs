//! Headers, as a map or as a list of `{name, value}`, and secrets.

use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, Error, MapAccess, SeqAccess, Visitor};

/// A string that is not printed in logs and configurations.
#[derive(Clone, Default, Eq, PartialEq)]
pub struct Secret(String);

impl Secret {
    /// Wraps a string.
    pub fn new(text: impl Into<String>) -> Self {
        Secret(text.into())
    }

    /// Returns the string.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[REDACTED]")
    }
}

/// The newtype name by which this crate's decoder recognizes a secret.
pub(super) const SECRET_MARK: &str = "$secret";

impl<'de> Deserialize<'de> for Secret {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_newtype_struct(SECRET_MARK, SecretVisitor)
    }
}

struct SecretVisitor;

impl<'de> Visitor<'de> for SecretVisitor {
    type Value = Secret;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a text")
    }

    fn visit_newtype_struct<D: Deserializer<'de>>(self, deserializer: D) -> Result<Secret, D::Error> {
        String::deserialize(deserializer).map(Secret)
    }
}

/// Header names and values, in the order of the file, each name once (names differ in more than case).
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Headers(Vec<(String, Secret)>);

impl Headers {
    /// Names and values.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value.reveal()))
    }

    /// Returns whether there are no headers.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn push<E: Error>(&mut self, name: String, value: Secret) -> Result<(), E> {
        if self.0.iter().any(|(earlier, _)| earlier.eq_ignore_ascii_case(&name)) {
            return Err(E::custom(format_args!("duplicate name {name:?}: each header may be set once")));
        }
        self.0.push((name, value));
        Ok(())
    }
}

impl<'de> Deserialize<'de> for Headers {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(HeadersVisitor)
    }
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Pair {
    name: String,
    value: Secret,
}

struct HeadersVisitor;

impl<'de> Visitor<'de> for HeadersVisitor {
    type Value = Headers;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("headers: a map or a list of {name, value}")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Headers, A::Error> {
        let mut headers = Headers::default();
        while let Some((name, value)) = map.next_entry()? {
            headers.push(name, value)?;
        }
        Ok(headers)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Headers, A::Error> {
        let mut headers = Headers::default();
        while let Some(Pair { name, value }) = list.next_element()? {
            headers.push(name, value)?;
        }
        Ok(headers)
    }
}
