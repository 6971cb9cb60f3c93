//! The frame of persisted records: small, checksummed, and replaced as a whole.
//!
//! Invalid bytes are a typed error, after which the reader starts without the record and logs the reason.
//!
//! ```text
//!  0         4         6         10                    10 + length   14 + length
//!  +---------+---------+---------+---------------------+-------------+
//!  | magic 4 | version | length  | fields              | CRC-32      |
//!  |         | u16     | u32     | `length` bytes      | u32         |
//!  +---------+---------+---------+---------------------+-------------+
//!  \_________________ covered by the checksum _________/
//! ```
//!
//! Little endian; a list is a u16 count and its items. The order of a struct's fields in [`fields!`] is the format: a
//! change of it needs a new version, which older readers refuse.
//!
//! [`fields!`]: crate::fields

use crate::codec::{Encoder, Field};

/// Maximum length of a list; longer ones are cut.
pub const LIST_MAX: usize = 1024;
/// Bytes before the fields.
const HEAD: usize = 10;

/// A kind of persisted record.
#[derive(Clone, Copy, Debug)]
pub struct Format {
    /// Name of the record in errors.
    pub name: &'static str,
    /// First bytes of the record.
    pub magic: [u8; 4],
    /// Version that is written; a reader refuses others.
    pub version: u16,
}

/// An error in decoding a persisted record.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum RecordError {
    /// The bytes begin differently.
    #[error("not a {name}: it begins with {found:02x?}, expected {expected:02x?}")]
    NotARecord {
        /// Name of the expected record.
        name: &'static str,
        /// First bytes found.
        found: Vec<u8>,
        /// First bytes of such a record.
        expected: [u8; 4],
    },
    /// The record has another version.
    #[error("a {name} of version {found}, expected {expected}")]
    Version {
        /// Name of the expected record.
        name: &'static str,
        /// Version of the record.
        found: u16,
        /// Version that is supported.
        expected: u16,
    },
    /// There are too few or too many bytes.
    #[error("a {name} of {found} bytes, expected {expected}")]
    Length {
        /// Name of the expected record.
        name: &'static str,
        /// Number of bytes found.
        found: usize,
        /// Length in the record.
        expected: usize,
    },
    /// The record was changed after it was written.
    #[error("a damaged {name}: checksum {found:08x}, expected {expected:08x}")]
    Checksum {
        /// Name of the expected record.
        name: &'static str,
        /// Checksum of the bytes.
        found: u32,
        /// Checksum in the record.
        expected: u32,
    },
    /// The fields are invalid.
    #[error("a {0} with invalid fields")]
    Malformed(&'static str),
}

impl Format {
    /// Encodes a record.
    pub fn encode(&self, record: &impl Field) -> Vec<u8> {
        let mut fields = Encoder::new(LIST_MAX);
        record.put(&mut fields);
        self.seal(&fields.bytes)
    }

    /// Returns a record with the given bytes as fields.
    pub fn seal(&self, fields: &[u8]) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(HEAD + fields.len() + 4);
        bytes.extend(self.magic);
        bytes.extend(self.version.to_le_bytes());
        bytes.extend((fields.len() as u32).to_le_bytes());
        bytes.extend(fields);
        let checksum = crc32fast::hash(&bytes);
        bytes.extend(checksum.to_le_bytes());
        bytes
    }

    /// Decodes a record. Fails if the bytes are not a valid record of this kind and version.
    pub fn decode<R: Field>(&self, bytes: &[u8]) -> Result<R, RecordError> {
        let mut fields = self.checked(bytes)?;
        let record = R::take(&mut fields).filter(|_| fields.is_empty());
        record.ok_or(RecordError::Malformed(self.name))
    }

    /// Checks the frame and returns the bytes of the fields.
    fn checked<'a>(&self, bytes: &'a [u8]) -> Result<&'a [u8], RecordError> {
        let Format { name, magic, version } = *self;
        let mut rest = bytes;
        if <[u8; 4]>::take(&mut rest) != Some(magic) {
            let found = bytes[..bytes.len().min(magic.len())].to_vec();
            return Err(RecordError::NotARecord { name, found, expected: magic });
        }
        let wrong = |expected| RecordError::Length { name, found: bytes.len(), expected };
        let found = u16::take(&mut rest).ok_or_else(|| wrong(HEAD + 4))?;
        if found != version {
            return Err(RecordError::Version { name, found, expected: version });
        }
        let length = u32::take(&mut rest).ok_or_else(|| wrong(HEAD + 4))? as usize;
        if rest.len() != length.saturating_add(4) {
            return Err(wrong(length.saturating_add(HEAD + 4)));
        }
        let (covered, mut checksum) = bytes.split_at(HEAD + length);
        let (found, expected) = (crc32fast::hash(covered), u32::take(&mut checksum).unwrap_or_default());
        match found == expected {
            true => Ok(&covered[HEAD..]),
            false => Err(RecordError::Checksum { name, found, expected }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FORMAT: Format = Format { name: "test record", magic: *b"WTtt", version: 3 };

    #[derive(Debug, PartialEq)]
    struct Thing {
        number: f64,
        list: Vec<u32>,
        maybe: Option<bool>,
    }

    crate::fields! {
        Thing { number, list, maybe }
    }

    fn thing() -> Thing {
        Thing { number: -0.5, list: vec![7, 8], maybe: Some(true) }
    }

    #[test]
    fn records_are_read_as_written() {
        assert_eq!(FORMAT.decode(&FORMAT.encode(&thing())), Ok(thing()));
    }

    #[test]
    fn bytes_match_the_documented_layout() {
        let bytes = FORMAT.encode(&7u16);
        assert_eq!(bytes[..12], *b"WTtt\x03\x00\x02\x00\x00\x00\x07\x00");
        assert_eq!(bytes[12..], crc32fast::hash(&bytes[..12]).to_le_bytes());
    }

    #[track_caller]
    fn check(change: impl FnOnce(&mut Vec<u8>), expected: &str) {
        let mut bytes = FORMAT.encode(&thing());
        change(&mut bytes);
        let message = FORMAT.decode::<Thing>(&bytes).unwrap_err().to_string();
        assert!(message.starts_with(expected), "{message}");
    }

    #[test]
    fn every_error_is_reported() {
        check(Vec::clear, "not a test record: it begins with [], expected [57, 54, 74, 74]");
        check(|b| b[0] = 0, "not a test record: it begins with [00, 54, 74, 74]");
        check(|b| b[4] = 9, "a test record of version 9, expected 3");
        check(|b| b.truncate(5), "a test record of 5 bytes, expected 14");
        check(|b| b.truncate(20), "a test record of 20 bytes, expected 34");
        check(|b| b.push(0), "a test record of 35 bytes, expected 34");
        check(|b| b[15] ^= 1, "a damaged test record: checksum ");
        let error = FORMAT.decode::<u16>(&FORMAT.encode(&thing())).unwrap_err();
        assert_eq!(error.to_string(), "a test record with invalid fields");
    }

    #[test]
    fn lists_are_cut_at_their_bound() {
        let long = FORMAT.encode(&vec![1u8; 2_000]);
        assert_eq!(FORMAT.decode::<Vec<u8>>(&long).map(|list| list.len()), Ok(LIST_MAX));
        assert_eq!(<Vec<u64>>::take(&mut &[255u8, 255, 0][..]), None);
    }
}
