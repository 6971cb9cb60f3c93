//! Values as rows of one table, in pieces that fit redb's pages.
//!
//! redb stores a value that is larger than a page in a run of pages whose number is a power of two. A value of
//! just over 2^n bytes would waste half of its run, so values are split just below such sizes.
//!
//! ```text
//!  key             value
//!  ("7", 0)        first piece
//!  ("7", 1)        next piece          pieces are numbered without a gap
//!  ("qmv0", 0)     the whole value
//! ```

use redb::{ReadableTable, StorageError, Table, TableDefinition};

/// The table. Its name includes the version of the format.
pub(crate) const ROWS: TableDefinition<'static, Key<'static>, &'static [u8]> =
    TableDefinition::new("warptap rows v1");

/// The name of a value and the number of its piece.
pub(crate) type Key<'a> = (&'a str, u32);

/// Upper bound of redb's overhead per value in its pages, in bytes.
const PAGE_OVERHEAD_BYTES: usize = 200;

/// Size of the largest piece, in bytes.
const PIECE_BYTES_MAX: usize = 64 * 1024 - PAGE_OVERHEAD_BYTES;

/// Size of redb's pages, in bytes.
const PAGE_BYTES: usize = 4096;

/// Returns the size of the next piece of a value with `left` remaining bytes. At most a quarter of its pages is
/// unused.
fn piece_bytes(left: usize) -> usize {
    if left >= PIECE_BYTES_MAX {
        return PIECE_BYTES_MAX;
    }
    let pages = (left + PAGE_OVERHEAD_BYTES).next_power_of_two();
    let is_well_used = pages <= PAGE_BYTES || left * 4 >= pages * 3;
    if is_well_used { left } else { pages / 2 - PAGE_OVERHEAD_BYTES }
}

/// Returns the pieces of a value; an empty value is one empty piece.
fn pieces(mut value: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut is_first = true;
    std::iter::from_fn(move || {
        if value.is_empty() && !std::mem::take(&mut is_first) {
            return None;
        }
        is_first = false;
        let (piece, rest) = value.split_at(piece_bytes(value.len()));
        value = rest;
        Some(piece)
    })
}

/// Returns the bytes that a value counts for.
pub(crate) fn cost(name: &str, value: &[u8]) -> u64 {
    pieces(value).map(|piece| row_cost(name, piece)).sum()
}

fn row_cost(name: &str, piece: &[u8]) -> u64 {
    (name.len() + size_of::<u32>() + piece.len()) as u64
}

/// Reads a value.
pub(crate) fn get(
    table: &impl ReadableTable<Key<'static>, &'static [u8]>,
    name: &str,
) -> Result<Option<Vec<u8>>, StorageError> {
    let mut value: Option<Vec<u8>> = None;
    for number in 0.. {
        let Some(piece) = table.get((name, number))? else { break };
        value.get_or_insert_default().extend_from_slice(piece.value());
    }
    Ok(value)
}

/// Writes a value; returns by how many bytes the table grew or shrank.
pub(crate) fn set(table: &mut Rows<'_>, name: &str, value: &[u8]) -> Result<i64, StorageError> {
    let mut grown = 0;
    let mut number = 0;
    for piece in pieces(value) {
        let before = table.insert((name, number), piece)?;
        grown += row_cost(name, piece) as i64;
        grown -= before.map_or(0, |before| row_cost(name, before.value()) as i64);
        number += 1;
    }
    Ok(grown + delete_from(table, name, number)?)
}

/// Removes a value; returns the change of the table's size in bytes, zero or less.
pub(crate) fn delete(table: &mut Rows<'_>, name: &str) -> Result<i64, StorageError> {
    delete_from(table, name, 0)
}

fn delete_from(table: &mut Rows<'_>, name: &str, first: u32) -> Result<i64, StorageError> {
    let mut grown = 0;
    for number in first.. {
        let Some(before) = table.remove((name, number))? else { break };
        grown -= row_cost(name, before.value()) as i64;
    }
    Ok(grown)
}

pub(crate) type Rows<'txn> = Table<'txn, Key<'static>, &'static [u8]>;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_form_the_value_and_waste_at_most_a_quarter() {
        for length in (0..200_000).step_by(97).chain([PIECE_BYTES_MAX, PIECE_BYTES_MAX + 1]) {
            let value: Vec<u8> = (0..length).map(|i| i as u8).collect();
            let cut: Vec<&[u8]> = pieces(&value).collect();
            assert_eq!(cut.concat(), value);
            assert!(length == 0 || cut.iter().all(|piece| !piece.is_empty()), "{length}");
            for piece in cut.iter().filter(|piece| piece.len() > PAGE_BYTES) {
                let pages = (piece.len() + PAGE_OVERHEAD_BYTES).next_power_of_two();
                assert!(piece.len() * 4 >= pages * 3 - 4 * PAGE_OVERHEAD_BYTES, "{length}: {}", piece.len());
            }
        }
    }
}
