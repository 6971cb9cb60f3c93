//! One signal's OTLP message: as the bytes that arrived, decoded, or both.
//!
//! Most data passes a collector unread. Protobuf is checked once ([`crate::wire`]), stored as bytes, appended to a batch
//! as bytes (a batch is a repeated field, for which protobuf defines concatenation as appending), and sent as bytes. It
//! is decoded when first read, and its bytes are dropped when it is changed.

use std::fmt;
use std::ops::Deref;
use std::sync::{Arc, OnceLock};

use prost::Message;
use prost::bytes::{BufMut, Bytes};

use crate::shape::Group;

/// A shared message: cheap to clone, copied by a change while there are other references.
pub struct Payload<T>(Arc<Form<T>>);

/// The forms of a message; there is at least one.
struct Form<T> {
    wire: Option<Wire>,
    message: OnceLock<T>,
}

/// A message as protobuf: the concatenation of `parts`.
#[derive(Clone, Default)]
struct Wire {
    parts: Vec<Bytes>,
    bytes: usize,
    items: usize,
}

impl<T: Message + Default + Clone> Payload<T> {
    /// Wraps a decoded message.
    pub fn new(message: T) -> Self {
        Payload(Arc::new(Form { wire: None, message: OnceLock::from(message) }))
    }

    /// Wraps bytes that [`crate::wire::check`] accepted as a message of type `T` with `items` items.
    pub(crate) fn from_wire(part: Bytes, items: usize) -> Self {
        let wire = Wire { bytes: part.len(), parts: vec![part], items };
        Payload(Arc::new(Form { wire: Some(wire), message: OnceLock::new() }))
    }

    /// Returns the decoded message for changes. It is copied if there are other references; its bytes are dropped.
    pub fn make_mut(&mut self) -> &mut T {
        if Arc::get_mut(&mut self.0).is_none() {
            *self = Payload::new((**self).clone());
        }
        self.decoded();
        let form = Arc::get_mut(&mut self.0).expect("the form was just created");
        form.wire = None;
        form.message.get_mut().expect("the message was just decoded")
    }

    /// Returns the decoded message, copied if there are other references.
    pub fn into_inner(mut self) -> T {
        std::mem::take(self.make_mut())
    }

    /// Returns the number of references to this message, including this one.
    pub fn holders(&self) -> usize {
        Arc::strong_count(&self.0)
    }

    /// Appends the parts of another message, as bytes if both are available as bytes.
    pub(crate) fn append(&mut self, more: Self)
    where
        T: Group,
    {
        match (&self.0.wire, &more.0.wire) {
            (Some(_), Some(bytes)) => {
                let bytes = bytes.clone();
                self.wire_mut().append(bytes);
            }
            _ => self.make_mut().parts_mut().append(more.into_inner().parts_mut()),
        }
    }

    /// Returns unique access to the encoded form; drops the decoded message, which becomes stale.
    fn wire_mut(&mut self) -> &mut Wire {
        if Arc::get_mut(&mut self.0).is_none() {
            let wire = self.0.wire.clone();
            self.0 = Arc::new(Form { wire, message: OnceLock::new() });
        }
        let form = Arc::get_mut(&mut self.0).expect("the form was just created");
        form.message = OnceLock::new();
        form.wire.get_or_insert_default()
    }

    /// Returns the number of items if it is known without decoding.
    pub(crate) fn items(&self) -> Option<usize> {
        self.0.wire.as_ref().map(|wire| wire.items)
    }

    /// Returns the size as protobuf, in bytes.
    pub(crate) fn encoded_len(&self) -> usize {
        self.0.wire.as_ref().map_or_else(|| self.decoded().encoded_len(), |wire| wire.bytes)
    }

    /// Appends the protobuf encoding to a buffer that grows as needed.
    pub(crate) fn encode(&self, out: &mut impl BufMut) {
        match &self.0.wire {
            Some(wire) => wire.parts.iter().for_each(|part| out.put_slice(part)),
            None => self.decoded().encode(out).expect("the buffer grows as it is written"),
        }
    }

    /// Returns the protobuf encoding, in parts to be written in order.
    pub(crate) fn to_parts(&self) -> Vec<Bytes> {
        match &self.0.wire {
            Some(wire) if wire.bytes >= wire.parts.len() * PART_BYTES_MIN => wire.parts.clone(),
            _ => {
                let mut out = Vec::with_capacity(self.encoded_len());
                self.encode(&mut out);
                vec![out.into()]
            }
        }
    }

    fn decoded(&self) -> &T {
        self.0.message.get_or_init(|| self.0.wire.as_ref().map(Wire::decode).unwrap_or_default())
    }
}

/// Parts that are smaller than this on average are concatenated, since each part is written separately.
const PART_BYTES_MIN: usize = 4096;

impl Wire {
    fn append(&mut self, mut more: Wire) {
        self.parts.append(&mut more.parts);
        self.bytes += more.bytes;
        self.items += more.items;
    }

    /// Decodes the bytes. The check on arrival accepts what the decoder accepts, which a property test asserts; a part
    /// that cannot be decoded would be omitted.
    fn decode<T: Message + Default>(&self) -> T {
        let mut message = T::default();
        for part in &self.parts {
            let merged = message.merge(part.clone());
            debug_assert!(merged.is_ok(), "checked bytes are decoded: {merged:?}");
        }
        message
    }
}

impl<T: Message + Default + Clone> Deref for Payload<T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.decoded()
    }
}

impl<T> Clone for Payload<T> {
    fn clone(&self) -> Self {
        Payload(self.0.clone())
    }
}

impl<T: Message + Default + Clone> Default for Payload<T> {
    fn default() -> Self {
        Payload::new(T::default())
    }
}

impl<T: Message + Default + Clone> From<T> for Payload<T> {
    fn from(message: T) -> Self {
        Payload::new(message)
    }
}

impl<T: Message + Default + Clone + PartialEq> PartialEq for Payload<T> {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

impl<T: Message + Default + Clone + fmt::Debug> fmt::Debug for Payload<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&**self, f)
    }
}

#[cfg(test)]
mod tests;
