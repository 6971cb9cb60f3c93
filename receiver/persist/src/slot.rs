//! The bytes of a record in a slot of the storage.
//!
//! The frame is that of [`recording::persisted`]; its content is little endian:
//!
//! ```text
//!  0             16             24             32             34       34 + length
//!  +-------------+--------------+--------------+--------------+--------+-------+
//!  | boot id, 16 | to Unix, i64 | written, u64 | length, u16  | key    | bytes |
//!  +-------------+--------------+--------------+--------------+--------+-------+
//! ```
//!
//! `written` is in ns since 1970, the key is UTF-8. Each record carries its clock, because the times in it are
//! CLOCK_MONOTONIC, which restarts at boot.

use recording::codec::{Encoder, Field};
use recording::persisted::Format;

use super::{RecordChange, StoredRecord};

const FORMAT: Format = Format { name: "kept record", magic: *b"WTKR", version: 1 };

/// The clock at the time of writing.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct Clock {
    pub(super) boot: [u8; 16],
    pub(super) to_unix_ns: i64,
    pub(super) written_unix_ns: u64,
}

/// A record and its clock, as stored.
struct Slot {
    clock: Clock,
    key: String,
    bytes: Vec<u8>,
}

impl Field for Slot {
    fn put(&self, out: &mut Encoder) {
        self.clock.boot.put(out);
        self.clock.to_unix_ns.put(out);
        self.clock.written_unix_ns.put(out);
        (self.key.len() as u16).put(out);
        out.bytes.extend(self.key.as_bytes());
        out.bytes.extend(&self.bytes);
    }

    fn take(from: &mut &[u8]) -> Option<Slot> {
        let (boot, to_unix_ns, written_unix_ns) =
            (Field::take(from)?, Field::take(from)?, Field::take(from)?);
        let length = u16::take(from)?;
        let (key, bytes) = from.split_at_checked(length.into())?;
        *from = &[];
        let key = std::str::from_utf8(key).ok()?.to_owned();
        Some(Slot { clock: Clock { boot, to_unix_ns, written_unix_ns }, key, bytes: bytes.to_vec() })
    }
}

/// Encodes a record; `None` for a deletion and for a key that is too long.
pub(super) fn encode(change: &RecordChange, clock: Clock) -> Option<Vec<u8>> {
    let (key, bytes) = (change.key.clone(), change.bytes.clone()?);
    (key.len() <= usize::from(u16::MAX)).then(|| FORMAT.encode(&Slot { clock, key, bytes }))
}

/// Decodes a record; `None` for corrupted bytes. `boot` identifies the current boot.
pub(super) fn decode(bytes: &[u8], boot: [u8; 16]) -> Option<StoredRecord> {
    let Slot { clock, key, bytes } = FORMAT.decode(bytes).ok()?;
    let Clock { boot: then, to_unix_ns, written_unix_ns } = clock;
    Some(StoredRecord { key, bytes, is_this_boot: then == boot, to_unix_ns, written_unix_ns })
}

#[cfg(test)]
mod tests {
    use super::*;

    const CLOCK: Clock = Clock { boot: [3; 16], to_unix_ns: -5, written_unix_ns: 7 };

    fn slot() -> Vec<u8> {
        encode(&RecordChange { key: "kind/name".to_owned(), bytes: Some(vec![1, 2, 3]) }, CLOCK).unwrap()
    }

    #[test]
    fn decoded_record_equals_the_encoded_one_and_knows_its_boot() {
        let record = |is_this_boot| StoredRecord {
            key: "kind/name".to_owned(),
            bytes: vec![1, 2, 3],
            is_this_boot,
            to_unix_ns: -5,
            written_unix_ns: 7,
        };
        assert_eq!(decode(&slot(), [3; 16]), Some(record(true)));
        assert_eq!(decode(&slot(), [4; 16]), Some(record(false)));
    }

    #[test]
    fn truncated_or_changed_bytes_are_rejected() {
        let slot = slot();
        (0..slot.len()).for_each(|length| assert_eq!(decode(&slot[..length], [3; 16]), None, "{length}"));
        for at in 0..slot.len() {
            let mut other = slot.clone();
            other[at] ^= 1;
            assert_eq!(decode(&other, [3; 16]), None, "byte {at}");
        }
    }

    #[test]
    fn deletion_has_no_encoding() {
        assert_eq!(encode(&RecordChange { key: "a".to_owned(), bytes: None }, CLOCK), None);
    }
}
