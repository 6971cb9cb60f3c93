//! Checks the protobuf encoding of an OTLP message without decoding it, and counts its items and the memory that it takes
//! decoded.
//!
//! The bytes are read once, by tables of the fields of each message ([`schema`]). The check accepts exactly what the
//! decoder accepts: the same nesting limit and the same rules for lengths, wire types and text. Checked bytes can
//! therefore be decoded later without an error. The encoding is protobuf.dev/programming-guides/encoding.

mod schema;

use crate::Signal;
use schema::{Kind, Schema};

/// The reason why bytes are not a valid message.
#[derive(Clone, Copy, Debug, thiserror::Error, Eq, PartialEq)]
pub enum WireError {
    /// A varint is incomplete or longer than 64 bits.
    #[error("invalid varint")]
    Varint,
    /// A field number is 0 or longer than 29 bits, or its wire type does not exist.
    #[error("invalid field key {0}")]
    Key(u64),
    /// A field has another wire type than the schema.
    #[error("field {0} has an unexpected wire type")]
    Kind(u64),
    /// A field is longer than the message that contains it.
    #[error("field {0} is truncated")]
    Truncated(u64),
    /// A text is not UTF-8.
    #[error("field {0} is not UTF-8")]
    Text(u64),
    /// Messages are nested too deeply, or groups do not match.
    #[error("nested too deeply")]
    Depth,
    /// The message would take too much memory decoded: it contains very many small messages.
    #[error("decoded, the message takes more than {decoded_bytes_max} bytes")]
    TooLarge {
        /// The limit, in bytes.
        decoded_bytes_max: usize,
    },
}

/// Maximum nesting of messages, as in the decoder.
const DEPTH_MAX: u32 = 100;

/// Checks the export request or the data of a signal, which may take `decoded_bytes_max` bytes of memory when it is decoded,
/// without its texts. Returns the number of its items. Of profiles, only the fields of which there may be many are
/// checked, and nothing is counted.
pub(crate) fn check(signal: Signal, bytes: &[u8], decoded_bytes_max: usize) -> Result<usize, WireError> {
    let schema = match signal {
        Signal::Logs => &schema::LOGS,
        Signal::Metrics => &schema::METRICS,
        Signal::Traces => &schema::TRACES,
        Signal::Profiles => &schema::PROFILES,
    };
    Check { decoded_bytes: 0, decoded_bytes_max }.message(schema, bytes, DEPTH_MAX)
}

/// A check under way.
struct Check {
    /// Memory for what was read so far, once decoded.
    decoded_bytes: usize,
    decoded_bytes_max: usize,
}

impl Check {
    /// Checks one message. Of a `oneof` only the items of the last kind count.
    fn message(&mut self, schema: &'static Schema, bytes: &[u8], depth: u32) -> Result<usize, WireError> {
        self.add(schema.bytes)?;
        let (mut rest, mut items, mut last) = (bytes, 0, 0);
        while !rest.is_empty() {
            let (field, wire) = key(&mut rest)?;
            let kind = schema.kind(field);
            let found = self.value(kind, field, wire, &mut rest, depth)?;
            if matches!(kind, Kind::Choice(_)) && field != last {
                (items, last) = (0, field);
            }
            items += found;
        }
        Ok(items)
    }

    /// Takes the value of a field off `rest`; returns the items in it.
    fn value(
        &mut self,
        kind: Kind,
        field: u64,
        wire: u64,
        rest: &mut &[u8],
        depth: u32,
    ) -> Result<usize, WireError> {
        match (kind, wire) {
            (Kind::Varint | Kind::Varints, VARINT) => varint(rest).map(|_| 0),
            (Kind::Fixed64 | Kind::Fixed64s, FIXED64) => fixed(rest, 8, field),
            (Kind::Fixed32, FIXED32) => fixed(rest, 4, field),
            (Kind::Unknown, _) => skip(field, wire, rest, depth),
            (Kind::Text, LENGTH) => text(rest, field),
            (Kind::Texts, LENGTH) => {
                self.add(size_of::<String>())?;
                text(rest, field)
            }
            (Kind::Bytes, LENGTH) => length(rest, field).map(|_| 0),
            (Kind::Varints, LENGTH) => {
                let packed = length(rest, field)?;
                self.add(packed.len() * size_of::<u64>())?;
                varints(packed)
            }
            (Kind::Fixed64s, LENGTH) => match length(rest, field)?.len() % 8 {
                0 => Ok(0),
                _ => Err(WireError::Truncated(field)),
            },
            (Kind::Part(schema) | Kind::Choice(schema), LENGTH) => {
                let part = length(rest, field)?;
                self.message(schema, part, depth.checked_sub(1).ok_or(WireError::Depth)?)
            }
            (Kind::Item(schema), LENGTH) => {
                let item = length(rest, field)?;
                self.message(schema, item, depth.checked_sub(1).ok_or(WireError::Depth)?).map(|_| 1)
            }
            _ => Err(WireError::Kind(field)),
        }
    }

    fn add(&mut self, bytes: usize) -> Result<(), WireError> {
        self.decoded_bytes = self.decoded_bytes.saturating_add(bytes);
        match self.decoded_bytes > self.decoded_bytes_max {
            true => Err(WireError::TooLarge { decoded_bytes_max: self.decoded_bytes_max }),
            false => Ok(()),
        }
    }
}

/// Reads a field number and its wire type.
fn key(rest: &mut &[u8]) -> Result<(u64, u64), WireError> {
    let key = varint(rest)?;
    match (key >> 3, key & 7) {
        (1.., 0..=5) if key <= u64::from(u32::MAX) => Ok((key >> 3, key & 7)),
        _ => Err(WireError::Key(key)),
    }
}

const VARINT: u64 = 0;
const FIXED64: u64 = 1;
const LENGTH: u64 = 2;
const GROUP: u64 = 3;
const GROUP_END: u64 = 4;
const FIXED32: u64 = 5;

/// Skips a text, which must be UTF-8.
fn text(rest: &mut &[u8], field: u64) -> Result<usize, WireError> {
    match str::from_utf8(length(rest, field)?) {
        Ok(_) => Ok(0),
        Err(_) => Err(WireError::Text(field)),
    }
}

/// Reads a varint of up to 64 bits: seven in each byte, the last of which has its high bit clear.
fn varint(rest: &mut &[u8]) -> Result<u64, WireError> {
    let mut number = 0;
    for (index, byte) in rest.iter().take(10).enumerate() {
        number |= u64::from(byte & 0x7f) << (7 * index);
        if byte & 0x80 == 0 {
            if index == 9 && *byte > 1 {
                return Err(WireError::Varint);
            }
            *rest = &rest[index + 1..];
            return Ok(number);
        }
    }
    Err(WireError::Varint)
}

fn varints(mut packed: &[u8]) -> Result<usize, WireError> {
    while !packed.is_empty() {
        varint(&mut packed)?;
    }
    Ok(0)
}

fn fixed(rest: &mut &[u8], bytes: usize, field: u64) -> Result<usize, WireError> {
    *rest = rest.get(bytes..).ok_or(WireError::Truncated(field))?;
    Ok(0)
}

fn length<'a>(rest: &mut &'a [u8], field: u64) -> Result<&'a [u8], WireError> {
    let length = varint(rest)?;
    let length = usize::try_from(length).map_err(|_| WireError::Truncated(field))?;
    let (inside, behind) = rest.split_at_checked(length).ok_or(WireError::Truncated(field))?;
    *rest = behind;
    Ok(inside)
}

/// Skips an unknown field.
fn skip(field: u64, wire: u64, rest: &mut &[u8], depth: u32) -> Result<usize, WireError> {
    let depth = depth.checked_sub(1).ok_or(WireError::Depth)?;
    match wire {
        VARINT => varint(rest).map(|_| 0),
        FIXED64 => fixed(rest, 8, field),
        LENGTH => length(rest, field).map(|_| 0),
        FIXED32 => fixed(rest, 4, field),
        GROUP => loop {
            match key(rest)? {
                (inner, GROUP_END) if inner == field => return Ok(0),
                (_, GROUP_END) => return Err(WireError::Kind(field)),
                (inner, wire) => skip(inner, wire, rest, depth)?,
            };
        },
        _ => Err(WireError::Kind(field)),
    }
}

#[cfg(test)]
mod tests;
