//! Pinned links of library files: a directory for each file, whose name says what a later agent must know of it.
//!
//! A link holds the file open, so that its inode is not reused while the directory exists. A file that was overwritten
//! has another size or time, and is attached again.

use std::fmt::{Display, Formatter};
use std::io;
use std::os::linux::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use probe_abi::Library;

use super::NEW;
use super::root::{make_dir, names, remove};
use crate::attach::Attached;
use crate::maps::FileKey;

const LIBRARIES: [(Library, &str); 4] = [
    (Library::Amdhip, "amdhip"),
    (Library::Cuda, "cuda"),
    (Library::Cudart, "cudart"),
    (Library::Nccl, "nccl"),
];

/// What changes when a file is overwritten.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) struct Stamp {
    bytes: u64,
    modified_s: i64,
    modified_ns: i64,
}

impl Stamp {
    /// Returns the stamp of a file.
    pub(crate) fn of(file: &std::fs::File) -> io::Result<Stamp> {
        let found = file.metadata()?;
        Ok(Stamp { bytes: found.st_size(), modified_s: found.st_mtime(), modified_ns: found.st_mtime_nsec() })
    }
}

/// An attached file of an earlier agent.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct AdoptedFile {
    pub(crate) file: FileKey,
    pub(crate) library: Library,
    pub(crate) functions: usize,
    pub(crate) missing: usize,
    /// When all functions were probed, CLOCK_MONOTONIC ns.
    pub(crate) armed_ns: u64,
    pub(crate) stamp: Stamp,
}

impl Display for AdoptedFile {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        let AdoptedFile { file, library, functions, missing, armed_ns, stamp } = self;
        let (major, minor) = file.device;
        let name = LIBRARIES.iter().find(|(of, _)| of == library).map_or("", |(_, name)| name);
        write!(f, "{name}_{major}_{minor}_{}_{functions}_{missing}_{armed_ns}", file.inode)?;
        write!(f, "_{}_{}_{}", stamp.bytes, stamp.modified_s, stamp.modified_ns)
    }
}

impl FromStr for AdoptedFile {
    type Err = ();

    fn from_str(name: &str) -> Result<AdoptedFile, ()> {
        let (library, numbers) = name.split_once('_').ok_or(())?;
        let (library, _) = LIBRARIES.iter().find(|(_, name)| *name == library).ok_or(())?;
        let numbers: Vec<i128> =
            numbers.split('_').map(|n| n.parse().map_err(drop)).collect::<Result<_, _>>()?;
        let [major, minor, inode, functions, missing, armed_ns, bytes, modified_s, modified_ns] = numbers[..]
        else {
            return Err(());
        };
        Ok(AdoptedFile {
            file: FileKey { device: (major as u32, minor as u32), inode: inode as u64 },
            library: *library,
            functions: functions as usize,
            missing: missing as usize,
            armed_ns: armed_ns as u64,
            stamp: Stamp {
                bytes: bytes as u64,
                modified_s: modified_s as i64,
                modified_ns: modified_ns as i64,
            },
        })
    }
}

/// The directory of the files.
#[derive(Debug)]
pub(crate) struct PinnedFiles {
    dir: PathBuf,
}

impl PinnedFiles {
    pub(super) fn new(dir: PathBuf) -> PinnedFiles {
        PinnedFiles { dir }
    }

    /// Returns the files that an earlier agent attached, each with the directory of its links. What it did not complete
    /// is removed.
    pub(crate) fn adopt(&self) -> Vec<(AdoptedFile, PathBuf)> {
        let known = |name: String| match name.parse() {
            Ok(file) => Some((file, self.dir.join(name))),
            Err(()) => {
                let _ = remove(&self.dir.join(name));
                None
            }
        };
        names(&self.dir).into_iter().filter_map(known).collect()
    }

    /// Pins the links of a file. Returns their directory.
    pub(crate) fn pin(&self, file: &AdoptedFile, probes: &Attached) -> io::Result<PathBuf> {
        let (new, dir) = (self.dir.join(NEW), self.dir.join(file.to_string()));
        remove(&new)?;
        make_dir(&new)?;
        probes.pin(&new)?;
        std::fs::rename(&new, &dir)?;
        Ok(dir)
    }

    /// Renames the directory of a file so that a later agent removes it instead of adopting the file. Returns its new name.
    pub(crate) fn suspend(dir: &Path) -> PathBuf {
        renamed(dir, |name| format!("{SUSPENDED}{name}"))
    }

    /// Lets a later agent adopt a file again.
    pub(crate) fn resume(dir: &Path) -> PathBuf {
        renamed(dir, |name| name.strip_prefix(SUSPENDED).unwrap_or(name).to_owned())
    }

    /// Removes the pins of a file, whose probes are then detached unless this process holds them.
    pub(crate) fn release(dir: &Path) {
        if let Err(e) = remove(dir) {
            tracing::warn!(dir = %dir.display(), %e, "pinned probes cannot be removed");
        }
    }
}

/// Beginning of the names of directories that a later agent removes.
const SUSPENDED: &str = "suspended_";

/// Renames a directory. Returns the old name if that fails.
fn renamed(dir: &Path, name: impl Fn(&str) -> String) -> PathBuf {
    let Some(old) = dir.file_name().and_then(|name| name.to_str()) else { return dir.to_owned() };
    let new = dir.with_file_name(name(old));
    match std::fs::rename(dir, &new) {
        Ok(()) => new,
        Err(e) => {
            tracing::warn!(dir = %dir.display(), %e, "pinned probes cannot be renamed");
            dir.to_owned()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn name_of_a_file_is_read_back() {
        let stamp = Stamp { bytes: 5, modified_s: -6, modified_ns: 7 };
        for (library, _) in LIBRARIES {
            let file = FileKey { device: (8, 1), inode: u64::MAX };
            let file = AdoptedFile { file, library, functions: 2, missing: 3, armed_ns: 4, stamp };
            let name = file.to_string();
            assert_eq!(name.parse(), Ok(file));
            assert!(!name.contains('.') && name.len() < 255, "bpffs reserves names with dots: {name}");
        }
        for wrong in [
            "new",
            "cuda_1_2",
            "cublas_1_2_3_4_5_6_7_8_9",
            "cuda_1_2_x_4_5_6_7_8_9",
            "suspended_cuda_1_2_3_4_5_6_7_8_9",
        ] {
            assert_eq!(wrong.parse::<AdoptedFile>(), Err(()), "{wrong}");
        }
    }
}
