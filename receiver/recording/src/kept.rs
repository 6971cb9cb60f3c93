//! Records that are kept as bytes across restarts: what every kind of them shares.
//!
//! The one idea: a record is small, whole and checked, so that whoever keeps it can replace it often and read it
//! after anything. What is wrong with bytes is a typed error: whoever reads them starts fresh, and says why.
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
//! Little endian; a list is a u16 count and its items. The order of a struct's fields in [`kept_fields!`] is the
//! format: append, never insert, and give a reader of the older version the version it refuses. What is in a record
//! is its owner's; where it is kept is others'.
//!
//! [`kept_fields!`]: crate::kept_fields

use event::ProcessId;

/// Longer lists are cut.
pub const LIST_MAX: usize = 1024;
/// Bytes before the fields.
const HEAD: usize = 10;

/// A kind of record.
#[derive(Clone, Copy, Debug)]
pub struct Format {
    /// What errors call it.
    pub name: &'static str,
    /// Its first bytes.
    pub magic: [u8; 4],
    /// The version that is written. A reader refuses others.
    pub version: u16,
}

/// Why bytes are no record.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum RecordError {
    /// They begin with something else.
    #[error("not a {name}: it begins with {found:02x?}, expected {expected:02x?}")]
    NotARecord {
        /// What was expected.
        name: &'static str,
        /// The first bytes there are.
        found: Vec<u8>,
        /// What such a record begins with.
        expected: [u8; 4],
    },
    /// They are of another version.
    #[error("a {name} of version {found}, expected {expected}")]
    Version {
        /// What was expected.
        name: &'static str,
        /// The version it says.
        found: u16,
        /// The version that is read.
        expected: u16,
    },
    /// There are too few or too many.
    #[error("a {name} of {found} bytes, expected {expected}")]
    Length {
        /// What was expected.
        name: &'static str,
        /// Bytes there are.
        found: usize,
        /// Bytes it says.
        expected: usize,
    },
    /// They changed since they were written.
    #[error("a damaged {name}: checksum {found:08x}, expected {expected:08x}")]
    Checksum {
        /// What was expected.
        name: &'static str,
        /// Of the bytes there are.
        found: u32,
        /// Of the bytes that were written.
        expected: u32,
    },
    /// They are whole and make no sense.
    #[error("a {0} whose fields make no sense")]
    Malformed(&'static str),
}

impl Format {
    /// A record as bytes.
    pub fn encode(&self, record: &impl Field) -> Vec<u8> {
        let mut fields = Vec::new();
        record.put(&mut fields);
        self.seal(&fields)
    }

    /// The bytes of fields as those of a record.
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

    /// The record of bytes that somebody kept.
    pub fn decode<R: Field>(&self, bytes: &[u8]) -> Result<R, RecordError> {
        let mut fields = self.checked(bytes)?;
        let record = R::take(&mut fields).filter(|_| fields.is_empty());
        record.ok_or(RecordError::Malformed(self.name))
    }

    /// The fields, if the bytes around them are right.
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

/// Something that can be written and read back. `take` gives `None` where the bytes end too early or mean nothing.
pub trait Field: Sized {
    /// Appends it.
    fn put(&self, out: &mut Vec<u8>);
    /// Reads it from the front.
    fn take(from: &mut &[u8]) -> Option<Self>;
}

macro_rules! numbers {
    ($($number:ty),*) => {$(
        impl Field for $number {
            fn put(&self, out: &mut Vec<u8>) {
                out.extend_from_slice(&self.to_le_bytes());
            }

            fn take(from: &mut &[u8]) -> Option<Self> {
                let (first, rest) = from.split_first_chunk()?;
                *from = rest;
                Some(<$number>::from_le_bytes(*first))
            }
        }
    )*};
}

numbers!(u8, u16, u32, u64, i32, f32, f64);

/// Makes structs [`Field`]s: `kept_fields! { Name { field, field } }`. The order of the fields is the format.
///
/// [`Field`]: crate::kept::Field
#[macro_export]
macro_rules! kept_fields {
    ($($name:ident { $($field:tt),* $(,)? })*) => {$(
        impl $crate::kept::Field for $name {
            fn put(&self, out: &mut Vec<u8>) {
                $($crate::kept::Field::put(&self.$field, out);)*
            }

            fn take(from: &mut &[u8]) -> Option<Self> {
                Some($name { $($field: $crate::kept::Field::take(from)?),* })
            }
        }
    )*};
}

kept_fields! {
    ProcessId { pid, start_ns }
}

/// As many as there are, without a count.
impl<T: Field, const N: usize> Field for [T; N] {
    fn put(&self, out: &mut Vec<u8>) {
        self.iter().for_each(|item| item.put(out));
    }

    fn take(from: &mut &[u8]) -> Option<Self> {
        let items: Option<Vec<T>> = (0..N).map(|_| T::take(from)).collect();
        items?.try_into().ok()
    }
}

impl Field for bool {
    fn put(&self, out: &mut Vec<u8>) {
        u8::from(*self).put(out);
    }

    fn take(from: &mut &[u8]) -> Option<Self> {
        match u8::take(from)? {
            0 => Some(false),
            1 => Some(true),
            _ => None,
        }
    }
}

/// A byte that says whether there is one.
impl<T: Field> Field for Option<T> {
    fn put(&self, out: &mut Vec<u8>) {
        self.is_some().put(out);
        self.iter().for_each(|value| value.put(out));
    }

    fn take(from: &mut &[u8]) -> Option<Self> {
        match bool::take(from)? {
            true => Some(Some(T::take(from)?)),
            false => Some(None),
        }
    }
}

impl<T: Field> Field for Vec<T> {
    fn put(&self, out: &mut Vec<u8>) {
        let items = &self[..self.len().min(LIST_MAX)];
        (items.len() as u16).put(out);
        items.iter().for_each(|item| item.put(out));
    }

    fn take(from: &mut &[u8]) -> Option<Self> {
        let count = u16::take(from)?;
        (0..count).map(|_| T::take(from)).collect()
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

    kept_fields! {
        Thing { number, list, maybe }
    }

    fn thing() -> Thing {
        Thing { number: -0.5, list: vec![7, 8], maybe: Some(true) }
    }

    #[test]
    fn what_is_read_is_what_was_written() {
        assert_eq!(FORMAT.decode(&FORMAT.encode(&thing())), Ok(thing()));
    }

    #[test]
    fn the_bytes_are_those_of_the_picture() {
        let bytes = FORMAT.encode(&7u16);
        assert_eq!(bytes[..12], *b"WTtt\x03\x00\x02\x00\x00\x00\x07\x00");
        assert_eq!(bytes[12..], crc32fast::hash(&bytes[..12]).to_le_bytes());
    }

    #[track_caller]
    fn check(change: impl FnOnce(&mut Vec<u8>), expected: &str) {
        let mut bytes = FORMAT.encode(&thing());
        change(&mut bytes);
        let told = FORMAT.decode::<Thing>(&bytes).unwrap_err().to_string();
        assert!(told.starts_with(expected), "{told}");
    }

    #[test]
    fn every_way_of_being_wrong_is_told() {
        check(Vec::clear, "not a test record: it begins with [], expected [57, 54, 74, 74]");
        check(|b| b[0] = 0, "not a test record: it begins with [00, 54, 74, 74]");
        check(|b| b[4] = 9, "a test record of version 9, expected 3");
        check(|b| b.truncate(5), "a test record of 5 bytes, expected 14");
        check(|b| b.truncate(20), "a test record of 20 bytes, expected 34");
        check(|b| b.push(0), "a test record of 35 bytes, expected 34");
        check(|b| b[15] ^= 1, "a damaged test record: checksum ");
        let error = FORMAT.decode::<u16>(&FORMAT.encode(&thing())).unwrap_err();
        assert_eq!(error.to_string(), "a test record whose fields make no sense");
    }

    #[test]
    fn lists_are_cut_and_hold_no_more_than_they_say() {
        let long = FORMAT.encode(&vec![1u8; 2_000]);
        assert_eq!(FORMAT.decode::<Vec<u8>>(&long).map(|list| list.len()), Ok(LIST_MAX));
        assert_eq!(<Vec<u64>>::take(&mut &[255u8, 255, 0][..]), None);
    }
}
