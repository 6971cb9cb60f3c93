//! Strings in the memory of a process, by address: names that a process passes to a function.
//!
//! The process may change its memory meanwhile, or have given any address: it falsifies its own names only.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;

use crate::elf::addresses::NAME_BYTES_MAX;

/// Addresses that are read at a time; there is nothing at further ones.
const ADDRESSES_MAX: usize = 1_024;

/// Reads the strings that end with zero at the first [`ADDRESSES_MAX`] addresses. One of more than [`NAME_BYTES_MAX`] bytes is cut;
/// there is none where the memory cannot be read or ends before the string, or where the string is empty. Invalid UTF-8 is replaced.
/// Pages of a file whose file system does not answer make this wait, so that an inspector must call it.
pub fn read_strings(pid: u32, addresses: &[u64]) -> io::Result<Vec<Option<String>>> {
    let memory = File::open(format!("/proc/{pid}/mem"))?;
    let mut strings: Vec<_> =
        addresses.iter().take(ADDRESSES_MAX).map(|at| read_string(&memory, *at)).collect();
    strings.resize(addresses.len(), None);
    Ok(strings)
}

fn read_string(memory: &File, address: u64) -> Option<String> {
    let mut bytes = [0; NAME_BYTES_MAX];
    // What is before a page that cannot be read is read.
    let read = memory.read_at(&mut bytes, address).ok()?;
    let end = bytes[..read].iter().position(|byte| *byte == 0);
    let end = end.or_else(|| (read == NAME_BYTES_MAX).then_some(read))?;
    (end > 0).then(|| String::from_utf8_lossy(&bytes[..end]).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strings_of_a_process_are_read_up_to_a_limit() {
        let (name, long) = (c"_Z6kernelPf", vec![b'x'; 2 * NAME_BYTES_MAX]);
        let own = |bytes: &[u8]| bytes.as_ptr() as u64;
        let addresses =
            [own(name.to_bytes()), 0, own(&long), own(c"".to_bytes_with_nul()), u64::MAX, own(b"\xff\0")];
        let read = read_strings(std::process::id(), &addresses).unwrap();
        let long = "x".repeat(NAME_BYTES_MAX);
        assert_eq!(
            read.iter().map(Option::as_deref).collect::<Vec<_>>(),
            [Some("_Z6kernelPf"), None, Some(long.as_str()), None, None, Some("\u{fffd}")]
        );
        assert!(read_strings(u32::MAX, &addresses).is_err());
    }

    #[test]
    fn strings_beyond_the_limit_are_not_read() {
        let name = c"kernel".to_bytes().as_ptr() as u64;
        let read = read_strings(std::process::id(), &[name; ADDRESSES_MAX + 2]).unwrap();
        assert_eq!((read.len(), read.iter().flatten().count()), (ADDRESSES_MAX + 2, ADDRESSES_MAX));
    }
}
