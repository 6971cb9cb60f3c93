//! One signal's OTLP message: decoded, or still the bytes that it came as.
//!
//! The one idea: most data goes through a collector without anyone looking into it. What comes as protobuf is
//! checked once ([`crate::wire`]), kept as it is, put into a batch by putting bytes side by side (the messages
//! of a batch are repeated fields, for which protobuf promises that this is the same), and goes out as it
//! came. It is decoded when somebody reads it, and its bytes are dropped when somebody changes it.

use std::fmt;
use std::ops::Deref;
use std::sync::{Arc, OnceLock};

use prost::Message;
use prost::bytes::{BufMut, Bytes};

use crate::shape::Group;

/// A message, shared: cheap to clone, copied only by who changes it while others hold it.
pub struct Payload<T>(Arc<Form<T>>);

/// The forms that a message has: at least one of them.
struct Form<T> {
    wire: Option<Wire>,
    message: OnceLock<T>,
}

/// A message as protobuf, in parts that were put side by side.
#[derive(Clone, Default)]
struct Wire {
    parts: Vec<Bytes>,
    bytes: usize,
    items: usize,
}

impl<T: Message + Default + Clone> Payload<T> {
    /// A message.
    pub fn new(message: T) -> Self {
        Payload(Arc::new(Form { wire: None, message: OnceLock::from(message) }))
    }

    /// Bytes that [`crate::wire::check`] took for a message of type `T` with so many items.
    pub(crate) fn from_wire(part: Bytes, items: usize) -> Self {
        let wire = Wire { bytes: part.len(), parts: vec![part], items };
        Payload(Arc::new(Form { wire: Some(wire), message: OnceLock::new() }))
    }

    /// The message to be changed: this one's own from here on, and in no other form.
    pub fn make_mut(&mut self) -> &mut T {
        if Arc::get_mut(&mut self.0).is_none() {
            *self = Payload::new((**self).clone());
        }
        self.decoded();
        let form = Arc::get_mut(&mut self.0).expect("nobody else holds what was just made");
        form.wire = None;
        form.message.get_mut().expect("it was just decoded")
    }

    /// The message itself, copied where others hold it, too.
    pub fn into_inner(mut self) -> T {
        std::mem::take(self.make_mut())
    }

    /// How many hold the same message, this one among them.
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

    /// The bytes, which nobody else holds, and no message that they no longer say the same as.
    fn wire_mut(&mut self) -> &mut Wire {
        if Arc::get_mut(&mut self.0).is_none() {
            let wire = self.0.wire.clone();
            self.0 = Arc::new(Form { wire, message: OnceLock::new() });
        }
        let form = Arc::get_mut(&mut self.0).expect("nobody else holds what was just made");
        form.message = OnceLock::new();
        form.wire.get_or_insert_default()
    }

    /// The number of items, where it is known without looking.
    pub(crate) fn items(&self) -> Option<usize> {
        self.0.wire.as_ref().map(|wire| wire.items)
    }

    /// The size as protobuf, in bytes.
    pub(crate) fn encoded_len(&self) -> usize {
        self.0.wire.as_ref().map_or_else(|| self.decoded().encoded_len(), |wire| wire.bytes)
    }

    /// Appends it as protobuf.
    pub(crate) fn encode(&self, out: &mut impl BufMut) {
        match &self.0.wire {
            Some(wire) => wire.parts.iter().for_each(|part| out.put_slice(part)),
            None => self.decoded().encode(out).expect("the buffer grows as it is written"),
        }
    }

    /// It as protobuf, in parts to be written one behind the other.
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

/// Parts that are smaller than this on average are put together: each is written on its own.
const PART_BYTES_MIN: usize = 4096;

impl Wire {
    fn append(&mut self, mut more: Wire) {
        self.parts.append(&mut more.parts);
        self.bytes += more.bytes;
        self.items += more.items;
    }

    /// The checks on arrival are the decoder's own, as a property shows; should they ever differ, what cannot be
    /// decoded is left out rather than taking the process along.
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
