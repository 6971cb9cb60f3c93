//! The files that a process has mapped as code, from /proc/PID/maps (proc_pid_maps(5)).
//!
//! A file is identified by device and inode, not by its path: containers share paths, and upgrades replace inodes.

use std::ffi::OsStr;
use std::io::{self, BufRead};
use std::os::unix::ffi::OsStrExt as _;
use std::path::PathBuf;

use probe_abi::Library;

/// Code mappings of a process that are read. Programs have some hundred.
const MAPPINGS_MAX: usize = 16_384;
/// Bytes that are read of a maps file: a million mappings with the usual paths.
const BYTES_MAX: u64 = 128 << 20;

/// The identity of a file on this machine.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct FileKey {
    /// Major and minor number of the device.
    pub device: (u32, u32),
    /// Inode number.
    pub inode: u64,
}

/// A part of a file mapped as code.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Mapping {
    /// First address of the mapping.
    pub start: u64,
    /// One past its last address.
    pub end: u64,
    /// Offset of the mapping in the file.
    pub offset: u64,
    /// The mapped file.
    pub file: FileKey,
    /// Path of the file as the process sees it; it may have been replaced or removed.
    pub path: PathBuf,
}

impl Mapping {
    /// Returns the last part of the path, without the mark of a removed file.
    pub fn name(&self) -> &str {
        file_name(self.path.as_os_str().as_encoded_bytes())
    }

    /// Returns the probed library that the file is by its name.
    pub fn library(&self) -> Option<Library> {
        library_named(self.name())
    }

    /// Returns true for a library that may contain another one and usually does not.
    pub fn may_be_absent(&self) -> bool {
        self.name().starts_with("libtorch")
    }
}

const NAMES: [(&str, Library); 7] = [
    ("libamdhip64", Library::Amdhip),
    ("libcuda", Library::Cuda),
    ("libcudart", Library::Cudart),
    ("libnccl", Library::Nccl),
    ("librccl", Library::Nccl),
    ("libtorch_cuda", Library::Nccl),
    ("libtorch_hip", Library::Nccl),
];

/// Returns the last part of a path, without the mark of a removed file; empty if it is not valid UTF-8.
pub fn file_name(path: &[u8]) -> &str {
    let name = path.rsplit(|byte| *byte == b'/').next().unwrap_or_default();
    let name = std::str::from_utf8(name).unwrap_or_default();
    name.strip_suffix(" (deleted)").unwrap_or(name)
}

/// Returns the probed library that has this file name.
pub fn library_named(name: &str) -> Option<Library> {
    // `libcudart-<hash>.so.12` is how Python wheels rename a bundled library; `libnccl-net.so` is another.
    let is_hash = |r: &str| r.split('.').next().is_some_and(|h| h.bytes().all(|b| b.is_ascii_hexdigit()));
    let is_named = |prefix: &str| match name.strip_prefix(prefix) {
        Some(rest) => rest.starts_with(".so") || rest.strip_prefix('-').is_some_and(is_hash),
        None => false,
    };
    NAMES.iter().find(|(prefix, _)| is_named(prefix)).map(|(_, library)| *library)
}

/// The code mappings of files that a process has.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Mappings {
    /// In the order of their addresses.
    pub all: Vec<Mapping>,
    /// There are more, which were not read.
    pub has_more: bool,
}

/// Reads the code mappings of files from a maps file, without malformed lines; at most [`MAPPINGS_MAX`] of them, and
/// [`BYTES_MAX`] bytes.
pub fn read(from: impl BufRead) -> io::Result<Mappings> {
    read_where(is_code, from)
}

/// Reads the mappings of files from a maps file, of code and of data, with the same bounds.
pub fn read_files(from: impl BufRead) -> io::Result<Mappings> {
    read_where(|_| true, from)
}

fn is_code(permissions: &[u8]) -> bool {
    permissions.get(2) == Some(&b'x')
}

fn read_where(is_wanted: fn(&[u8]) -> bool, from: impl BufRead) -> io::Result<Mappings> {
    let (mut from, mut line, mut found) = (from.take(BYTES_MAX), Vec::new(), Mappings::default());
    while from.read_until(b'\n', &mut line)? > 0 {
        let mapping = parse_line(is_wanted, &line);
        if found.all.len() == MAPPINGS_MAX && mapping.is_some() {
            found.has_more = true;
            break;
        }
        found.all.extend(mapping);
        line.clear();
    }
    found.has_more |= from.limit() == 0;
    Ok(found)
}

/// Returns the code mappings of files in the text of a maps file, without malformed lines.
pub fn parse(text: &str) -> Vec<Mapping> {
    text.lines().filter_map(|line| parse_line(is_code, line.as_bytes())).collect()
}

/// Returns the file that is mapped at an address, as code or not; `None` if there is none.
pub fn file_at(text: &str, address: u64) -> Option<FileKey> {
    let starts_there = |line: &&str| {
        let start = line.split_once('-').and_then(|(start, _)| u64::from_str_radix(start, 16).ok());
        start == Some(address)
    };
    let mut fields = text.lines().find(starts_there)?.split_ascii_whitespace().skip(3);
    file_key(fields.next()?, fields.next()?)
}

fn file_key(device: &str, inode: &str) -> Option<FileKey> {
    let (major, minor) = device.split_once(':')?;
    let hex = |text: &str| u32::from_str_radix(text, 16).ok();
    Some(FileKey { device: (hex(major)?, hex(minor)?), inode: inode.parse().ok()? })
}

fn parse_line(is_wanted: fn(&[u8]) -> bool, line: &[u8]) -> Option<Mapping> {
    // Paths are bytes, and what precedes them is ASCII. The rest is padded.
    let mut fields = line.trim_ascii_end().splitn(6, |byte| *byte == b' ');
    let mut text = || std::str::from_utf8(fields.next()?).ok();
    let (range, permissions, offset, device, inode) = (text()?, text()?, text()?, text()?, text()?);
    let path = fields.next()?.trim_ascii_start();
    if !is_wanted(permissions.as_bytes()) || path.first() != Some(&b'/') {
        return None;
    }
    let (start, end) = range.split_once('-')?;
    Some(Mapping {
        start: u64::from_str_radix(start, 16).ok()?,
        end: u64::from_str_radix(end, 16).ok()?,
        offset: u64::from_str_radix(offset, 16).ok()?,
        file: file_key(device, inode)?,
        path: PathBuf::from(OsStr::from_bytes(path)),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "\
55d0-55e0 r-xp 00001000 fe:00 42                         /opt/my app/server
7f00-7f10 r--p 00000000 fe:00 43                         /usr/lib/libcudart.so.12
7f10-7f20 r-xp 00010000 fe:00 43                         /usr/lib/libcudart.so.12
7f30-7f40 r-xp 00010000 00:2a 44                         /venv/nvidia/lib/libcudart-abc123.so.12 (deleted)
7f50-7f60 r-xp 00000000 fe:00 45                         /usr/lib/libcuda.so.1
7f70-7f80 r-xp 00000000 fe:00 46                         /usr/lib/libcudadebugger.so.1
7f80-7f81 r-xp 00000000 fe:00 47                         /usr/lib/libnccl.so.2
7f82-7f83 r-xp 00000000 fe:00 48                         /usr/lib/libnccl-net.so
7f84-7f85 r-xp 00000000 fe:00 49                         /opt/rocm/lib/librccl.so.1
7f86-7f87 r-xp 00000000 fe:00 50                         /venv/torch/lib/libtorch_cuda.so
7f88-7f89 r-xp 00000000 fe:00 51                         /venv/torch/lib/libtorch_cuda_linalg.so
7f90-7fa0 rw-p 00000000 00:00 0                          [heap]
7fb0-7fc0 r-xp 00000000 00:00 0
nonsense";

    #[test]
    fn code_mappings_of_files_are_found_at_any_path() {
        let found = parse(TEXT);
        let names: Vec<_> = found.iter().map(|m| (m.name(), m.file.inode)).collect();
        assert_eq!(
            names,
            [
                ("server", 42),
                ("libcudart.so.12", 43),
                ("libcudart-abc123.so.12", 44),
                ("libcuda.so.1", 45),
                ("libcudadebugger.so.1", 46),
                ("libnccl.so.2", 47),
                ("libnccl-net.so", 48),
                ("librccl.so.1", 49),
                ("libtorch_cuda.so", 50),
                ("libtorch_cuda_linalg.so", 51),
            ]
        );
        assert_eq!((found[1].start, found[1].end, found[1].file.device), (0x7f10, 0x7f20, (0xfe, 0)));
    }

    #[test]
    fn maps_file_is_read_as_its_text() {
        let found = read(TEXT.as_bytes()).unwrap();
        assert_eq!(found, Mappings { all: parse(TEXT), has_more: false });
        let bytes = b"10-20 r-xp 00000000 fe:00 7    /opt/\xff\x01/libcudart.so.12\n";
        let found = read(&bytes[..]).unwrap().all;
        assert_eq!((found[0].library(), found[0].path.as_os_str().len()), (Some(Library::Cudart), 23));
    }

    #[test]
    fn mappings_beyond_the_limit_are_noted() {
        let line = "10-20 r-xp 00000000 fe:00 7 /lib\n";
        let limit = line.repeat(MAPPINGS_MAX) + "20-30 rw-p 00000000 00:00 0 [heap]\n";
        let found = read(limit.as_bytes()).unwrap();
        assert_eq!((found.all.len(), found.has_more), (MAPPINGS_MAX, false));
        let found = read((limit + line).as_bytes()).unwrap();
        assert_eq!((found.all.len(), found.has_more), (MAPPINGS_MAX, true));
    }

    #[test]
    fn libraries_are_recognised_by_name() {
        let found: Vec<_> = parse(TEXT).iter().map(Mapping::library).collect();
        let (cudart, cuda, nccl) = (Some(Library::Cudart), Some(Library::Cuda), Some(Library::Nccl));
        assert_eq!(found, [None, cudart, cudart, cuda, None, nccl, None, nccl, nccl, None]);
    }
}
