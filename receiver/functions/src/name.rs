//! Names of GPU functions in a short form, which is stable and bounded: for attributes of metrics and for people.
//!
//! The name of a kernel says what it computes, and how it was compiled: element types, vector widths, tile sizes, the numbers that
//! a compiler appends. [`short`] keeps the first and folds the second, so that one operation has one name whatever types and tiles
//! are chosen for a call, and so that the name from a profiler, a registration and a symbol table is the same. The rules, in order:
//!
//! 1. At most [`INPUT_BYTES_MAX`] bytes of a name are read. Control characters and other symbols outside of ASCII are dropped.
//! 2. What nvcc and hipcc add to the name of a kernel is removed: `__device_stub__`, `__nv_static_…`, `.kd`.
//! 3. A mangled C++ name is demangled. One that cannot be, such as a cut one, has its nested names only.
//! 4. Return type, parameters, anonymous namespaces, lambdas and versions among namespaces are dropped.
//! 5. Template arguments are replaced by at most [`LABELS_MAX`] **labels**: the last part of the names of types and functions that
//!    the arguments name, in their order. Data types, layouts and policies are no labels ([`labels::is_data`]);
//!    adapters are replaced by what they adapt ([`labels::WRAPPERS`]); a lambda is the function that contains it.
//! 6. Names that are generated have the rules of their generator ([`generated::RULES`]): tiles, stages, signatures, numbers and hashes are
//!    dropped.
//! 7. A name of more than [`LENGTH_MAX`] bytes is cut and ends with a hash of all of it, so that two long names stay apart.
//!
//! `short` of a short name is that name.

pub mod generated;
pub mod labels;

mod cplusplus;
mod demangle;
mod text;

#[cfg(test)]
mod tests;

use std::borrow::Cow;

/// Bytes of a name that are read.
pub const INPUT_BYTES_MAX: usize = 4_096;
/// Bytes of a short name.
pub const LENGTH_MAX: usize = 96;
/// Labels of a short name.
pub const LABELS_MAX: usize = 2;

/// The name of a function that has none.
pub const UNKNOWN: &str = "unknown";
/// Bytes of the hash at the end of a cut name, with the sign before it.
const HASH_BYTES: usize = 9;
/// How often the rules are applied to their result. The second time mostly changes nothing.
const PASSES_MAX: usize = 4;

/// Returns the short form of a symbol or of a demangled name. Any text has one.
pub fn short(name: &str) -> String {
    let mut name = pass(name);
    for _ in 1..PASSES_MAX {
        let next = pass(&name);
        if next == name {
            break;
        }
        name = next;
    }
    name
}

/// Returns the stable name of a function that has none, by the name of its file and its offset there.
pub fn unnamed(file: &str, offset: u64) -> String {
    let place = format!("+{offset:#x}");
    let file = printable(file);
    bounded(&format!("{}{place}", text::cut(&file, LENGTH_MAX - place.len())))
}

/// Demangles a C++ symbol; returns other names as they are, without what is not printable.
pub fn demangled(name: &str) -> Cow<'_, str> {
    let name = text::cut(name, INPUT_BYTES_MAX);
    match demangle::demangle(name) {
        Some(demangled) => Cow::Owned(printable(&demangled).into_owned()),
        None => printable(name),
    }
}

/// Applies the rules once.
fn pass(name: &str) -> String {
    let printed = printable(text::cut(name, INPUT_BYTES_MAX));
    let own = demangle::without_additions(printed.trim());
    let demangled = match demangle::demangle(&own) {
        Some(demangled) => Cow::Owned(printable(&demangled).into_owned()),
        None => own,
    };
    let short = cplusplus::short(&demangled).unwrap_or_else(|| generated::short(&demangled).into_owned());
    bounded(&short)
}

/// Removes control characters, and those outside of ASCII that are neither letters nor digits.
fn printable(name: &str) -> Cow<'_, str> {
    let is_printable = |c: char| matches!(c, ' '..='~') || (!c.is_ascii() && c.is_alphanumeric());
    match name.chars().all(is_printable) {
        true => Cow::Borrowed(name),
        false => Cow::Owned(name.chars().filter(|c| is_printable(*c)).collect()),
    }
}

/// Cuts a name to [`LENGTH_MAX`] bytes.
fn bounded(name: &str) -> String {
    let name = name.trim();
    match name.len() {
        0 => UNKNOWN.to_owned(),
        1..=LENGTH_MAX => name.to_owned(),
        _ => cut_with_hash(name, name),
    }
}

/// Cuts a name, and appends the hash of all of it.
fn cut_with_hash(name: &str, all: &str) -> String {
    let start = text::cut(name, LENGTH_MAX - HASH_BYTES);
    let start = start.trim_end_matches(|c: char| !c.is_alphanumeric());
    format!("{start}~{:08x}", hash(all))
}

/// FNV-1a of 32 bits: <https://datatracker.ietf.org/doc/html/draft-eastlake-fnv>.
fn hash(name: &str) -> u32 {
    name.bytes().fold(0x811c_9dc5, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193))
}
