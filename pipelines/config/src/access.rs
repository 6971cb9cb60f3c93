//! Access to the parts of a value for the decoder: entries of mappings, items of sequences, the two parts of an
//! optional section, and the parts of a comma-separated list.

use serde::de::value::{BoolDeserializer, BorrowedStrDeserializer};
use serde::de::{DeserializeSeed, Deserializer, IntoDeserializer, MapAccess, SeqAccess, Visitor};

use super::decoder::{Decoder, Path};
use super::failure::Failure;
use super::{Entry, Node, Reading, headers};

/// The entries of a mapping, except those that failed in an earlier pass.
pub(super) struct Entries<'de, 'p> {
    above: Decoder<'de, 'p>,
    entries: std::vec::IntoIter<&'de Entry>,
    current: Option<&'de Entry>,
}

impl<'de, 'p> Entries<'de, 'p> {
    /// Returns the entries of a mapping with arbitrary keys.
    pub(super) fn all(above: Decoder<'de, 'p>) -> Self {
        let hidden = |e: &Entry| above.hides_enabled && e.key == ENABLED;
        Self::of(above, above.node.entries().iter().filter(|e| !hidden(e)).collect())
    }

    /// Returns the entries whose keys the struct has; other keys are problems.
    pub(super) fn of_struct(above: Decoder<'de, 'p>, fields: &'static [&'static str]) -> Self {
        let (known, unknown): (Vec<&Entry>, Vec<&Entry>) =
            above.node.entries().iter().partition(|e| fields.contains(&e.key.as_str()));
        let is_foreign = |e: &&Entry| !(above.hides_enabled && e.key == ENABLED);
        let foreign: Vec<&Entry> = unknown.into_iter().filter(is_foreign).collect();
        above.pass.unknown_keys(above.node, &above.path, &foreign, fields);
        Self::of(above, known)
    }

    fn of(above: Decoder<'de, 'p>, mut entries: Vec<&'de Entry>) -> Self {
        entries.retain(|e| !above.pass.skips(&e.value));
        Entries { above, entries: entries.into_iter(), current: None }
    }
}

impl<'de> MapAccess<'de> for Entries<'de, '_> {
    type Error = Failure;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, Failure> {
        self.current = self.entries.next();
        let Some(entry) = self.current else { return Ok(None) };
        let key: BorrowedStrDeserializer<'_, Failure> = BorrowedStrDeserializer::new(&entry.key);
        let path = Path::Key(&self.above.path, &entry.key);
        seed.deserialize(key).map(Some).map_err(|f| self.above.below(path, &entry.value).blame(f))
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, Failure> {
        let entry = self.current.take().expect("serde asks for a value after its key");
        let decoder = self.above.below(Path::Key(&self.above.path, &entry.key), &entry.value);
        seed.deserialize(decoder).map_err(|f| decoder.blame(f))
    }

    fn size_hint(&self) -> Option<usize> {
        Some(self.entries.len())
    }
}

/// The items of a sequence, except those that failed in an earlier pass.
pub(super) struct Items<'de, 'p> {
    above: Decoder<'de, 'p>,
    items: std::iter::Enumerate<std::slice::Iter<'de, Node>>,
}

impl<'de, 'p> Items<'de, 'p> {
    pub(super) fn new(above: Decoder<'de, 'p>, items: &'de [Node]) -> Self {
        Items { above, items: items.iter().enumerate() }
    }
}

impl<'de> SeqAccess<'de> for Items<'de, '_> {
    type Error = Failure;

    fn next_element_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<Option<T::Value>, Failure> {
        let pass = self.above.pass;
        let Some((index, node)) = self.items.by_ref().find(|(_, node)| !pass.skips(node)) else {
            return Ok(None);
        };
        let decoder = self.above.below(Path::Item(&self.above.path, index), node);
        seed.deserialize(decoder).map(Some).map_err(|f| decoder.blame(f))
    }
}

const ENABLED: &str = "enabled";

/// The parts of an optional section: whether it is enabled, and its other keys.
pub(super) struct Parts<'de, 'p> {
    section: Decoder<'de, 'p>,
    given: usize,
}

impl<'de, 'p> Parts<'de, 'p> {
    pub(super) fn of(section: Decoder<'de, 'p>) -> Self {
        Parts { section: Decoder { hides_enabled: true, ..section }, given: 0 }
    }

    fn enabled<T: DeserializeSeed<'de>>(&self, seed: T) -> Result<T::Value, Failure> {
        let Some(node) = self.section.node.get(ENABLED) else {
            return seed.deserialize(on());
        };
        if node.is_null() || self.section.pass.skips(node) {
            return seed.deserialize(on());
        }
        let decoder = self.section.below(Path::Key(&self.section.path, ENABLED), node);
        seed.deserialize(decoder).map_err(|f| decoder.blame(f))
    }
}

fn on() -> BoolDeserializer<Failure> {
    true.into_deserializer()
}

impl<'de> SeqAccess<'de> for Parts<'de, '_> {
    type Error = Failure;

    fn next_element_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<Option<T::Value>, Failure> {
        self.given += 1;
        match self.given {
            1 => self.enabled(seed).map(Some),
            2 => seed.deserialize(self.section).map(Some).map_err(|f| self.section.blame(f)),
            _ => Ok(None),
        }
    }
}

/// The parts of a comma-separated text.
pub(super) struct Pieces<'de, 'p> {
    whole: Decoder<'de, 'p>,
    rest: Option<&'de str>,
}

impl<'de, 'p> Pieces<'de, 'p> {
    pub(super) fn new(whole: Decoder<'de, 'p>, text: &'de str) -> Self {
        Pieces { whole, rest: (!text.is_empty()).then_some(text) }
    }
}

impl<'de> SeqAccess<'de> for Pieces<'de, '_> {
    type Error = Failure;

    fn next_element_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<Option<T::Value>, Failure> {
        let Some(text) = self.rest else { return Ok(None) };
        let (piece, rest) = text.split_once(',').map_or((text, None), |(piece, rest)| (piece, Some(rest)));
        self.rest = rest;
        seed.deserialize(Piece { whole: self.whole, text: piece }).map(Some)
    }
}

/// A part of a comma-separated text, which can only be decoded as a string.
struct Piece<'de, 'p> {
    whole: Decoder<'de, 'p>,
    text: &'de str,
}

impl<'de> Deserializer<'de> for Piece<'de, '_> {
    type Error = Failure;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Failure> {
        visitor.visit_borrowed_str(self.text)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        visitor: V,
    ) -> Result<V::Value, Failure> {
        if name == headers::SECRET_MARK {
            self.whole.note(Reading::Secret);
        }
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        name: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Failure> {
        let text: BorrowedStrDeserializer<'_, Failure> = BorrowedStrDeserializer::new(self.text);
        text.deserialize_enum(name, variants, visitor)
    }

    serde::forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option unit
        unit_struct seq tuple tuple_struct map struct identifier ignored_any
    }
}
