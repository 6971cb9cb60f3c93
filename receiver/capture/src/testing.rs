//! The readers of what a traced process maps, writes and names, for the fuzz targets. Every input is a result or an error.

use std::fs::File;

use probe_abi::context::SYMBOL;
use probe_abi::{Library, attach_points};

use crate::elf::addresses::NAME_BYTES_MAX;
use crate::elf::functions::{self, Listed};
use crate::elf::names_at::find_names;
use crate::libraries::served;
use crate::maps::{self, FileKey, Mapping};
use crate::{proc, publishers};

/// Functions whose names are looked for in a file.
const NAMES_MAX: u64 = 1_000;

/// Reads a file as a library, as a program that contains one, and as one that publishes trace contexts. Panics if a function is
/// found twice or is both found and missing.
pub fn read_elf(file: &File) {
    for listed in [Listed::Exported, Listed::Anywhere] {
        let wanted: Vec<_> = attach_points(Library::Nccl, false).collect();
        let count = wanted.len();
        let Ok(found) = functions::find(file, listed, wanted.into_iter()) else { continue };
        assert!(found.points.is_sorted_by(|a, b| a.offset < b.offset), "one function at each offset");
        assert!(found.points.len() + found.missing.len() <= count, "no more functions than wanted");
    }
    read_names(file);
    if let Ok(Some(exports)) = publishers::elf::find(file, SYMBOL) {
        let _ = exports.bias(0x7f00_0000_0000, 0x1000);
    }
}

/// Reads the names of functions. Panics if there is a name of a function that was not looked for, or an overlong one.
fn read_names(file: &File) {
    let offsets: Vec<u64> = (0..NAMES_MAX).map(|n| n * 4).collect();
    let Ok(names) = find_names(file, &offsets) else { return };
    assert_eq!(names.len(), offsets.len(), "one answer for each");
    // An invalid byte is replaced by a character of three.
    assert!(names.iter().flatten().all(|name| (1..=3 * NAME_BYTES_MAX).contains(&name.symbol.len())));
}

/// Reads a maps file. Panics if it does not read as its text.
pub fn read_maps(bytes: &[u8]) {
    let Ok(found) = maps::read(bytes) else { return };
    if let Ok(text) = std::str::from_utf8(bytes) {
        assert_eq!(found.all, maps::parse(text));
        let _ = maps::file_at(text, 0x7f00_0000_0000);
    }
    for mapping in &found.all {
        assert!(mapping.path.is_absolute());
        let _ = (mapping.library(), mapping.name());
    }
}

/// Reads an environment for the variables of launchers. Panics if there are more than are looked for.
pub fn read_environment(bytes: &[u8]) {
    assert!(proc::launchers(bytes).len() <= proc::LAUNCHERS.len());
}

/// Reads the cgroups, the status and the mounts of a process. Panics if a cgroup is listed twice.
pub fn read_process(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    assert!(proc::cgroups(&text).is_sorted_by(|a, b| a < b), "each path once");
    let _ = proc::users(&text, &text);
    let file = FileKey { device: (0, 41), inode: 1 };
    let _ = served::server(&text, &Mapping { start: 0, end: 1, offset: 0, file, path: "/home/lib".into() });
}
