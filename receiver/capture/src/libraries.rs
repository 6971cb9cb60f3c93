//! The attached library files: each is attached once, whatever the number of processes that map it.
//!
//! A file without mappings stays attached for `linger_ns`, so that a restarted server is traced from its first call.
//! A file that cannot be attached is tried once.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::os::linux::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use probe_abi::{Library, attach_points};

use crate::attach::{Attach, Attached};
use crate::elf;
use crate::kernel::Kernel;
use crate::maps::{FileKey, Mapping};

/// Files attached or refused. When full, a further file is a gap in the coverage of its process.
const FILES_MAX: usize = 1_024;

/// The result of attaching a file.
enum State {
    Attached {
        functions: usize,
        missing: usize,
        _probes: Attached,
    },
    /// The file has none of the functions, or cannot be read or attached, with the reason.
    Refused(String),
}

struct Entry {
    library: Library,
    state: State,
    users: BTreeSet<u32>,
    /// When its last mapping went away, ns.
    unused_since_ns: u64,
}

/// How a process is observed in one library.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Coverage {
    /// The functions are probed.
    Observed(String),
    /// The functions are not probed, with the reason.
    Gap(String),
    /// The file does not contain the library.
    Absent,
}

/// The attached files.
#[derive(Default)]
pub struct Libraries {
    entries: BTreeMap<FileKey, Entry>,
}

impl Libraries {
    /// Attaches the file of `mapping` as `library` unless that was tried before, and adds `pid` to its users. With
    /// `is_embedded`, the main program contains the library: launches are timed too, to recognise nested calls.
    pub fn attach(
        &mut self,
        kernel: &mut Kernel,
        attach: &dyn Attach,
        pid: u32,
        mapping: &Mapping,
        library: Library,
        is_embedded: bool,
    ) -> Coverage {
        if !self.entries.contains_key(&mapping.file) {
            if self.entries.len() >= FILES_MAX {
                return Coverage::Gap(format!(
                    "{}: {FILES_MAX} files are attached, which is the maximum",
                    mapping.name()
                ));
            }
            let state = open(pid, mapping)
                .and_then(|(file, path)| attach_file(kernel, attach, file, &path, library, is_embedded));
            let state = state.unwrap_or_else(State::Refused);
            self.entries
                .insert(mapping.file, Entry { library, state, users: BTreeSet::new(), unused_since_ns: 0 });
        }
        let Some(entry) = self.entries.get_mut(&mapping.file) else {
            return Coverage::Gap(format!("{}: not attached", mapping.name()));
        };
        entry.users.insert(pid);
        match entry.state {
            State::Refused(_) if mapping.may_be_absent() => Coverage::Absent,
            _ => entry.coverage(mapping.name()),
        }
    }

    /// Removes `pid` from the users of all files that are not in `mapped`.
    pub fn retain(&mut self, pid: u32, mapped: &[FileKey], now_ns: u64) {
        for (_, entry) in self.entries.iter_mut().filter(|(key, _)| !mapped.contains(key)) {
            if entry.users.remove(&pid) && entry.users.is_empty() {
                entry.unused_since_ns = now_ns;
            }
        }
    }

    /// Detaches files that have had no users for `linger_ns`.
    pub fn sweep(&mut self, now_ns: u64, linger_ns: u64) {
        self.entries
            .retain(|_, e| !e.users.is_empty() || now_ns.saturating_sub(e.unused_since_ns) < linger_ns);
    }

    /// Returns the number of attached files, and of functions in them.
    pub fn attached(&self) -> (u64, u64) {
        let functions = |e: &Entry| match e.state {
            State::Attached { functions, .. } => Some(functions as u64),
            State::Refused(_) => None,
        };
        self.entries.values().filter_map(functions).fold((0, 0), |(files, all), n| (files + 1, all + n))
    }
}

impl Entry {
    fn coverage(&self, name: &str) -> Coverage {
        match &self.state {
            State::Attached { functions, missing: 0, .. } => {
                Coverage::Observed(format!("{name}: {functions} functions"))
            }
            State::Attached { functions, missing, .. } => Coverage::Observed(format!(
                "{name}: {functions} functions, {missing} are not in this version"
            )),
            State::Refused(why) => Coverage::Gap(format!("{name} ({:?}): {why}", self.library)),
        }
    }
}

/// Opens the file of a mapping: through the mapping itself or, where that is not allowed, through the root directory of
/// the process if the file there has the same inode.
pub fn open(pid: u32, mapping: &Mapping) -> Result<(File, PathBuf), String> {
    let mapped = PathBuf::from(format!("/proc/{pid}/map_files/{:x}-{:x}", mapping.start, mapping.end));
    if let Ok(file) = File::open(&mapped) {
        return Ok((file, mapped));
    }
    let below_root = mapping.path.strip_prefix("/").unwrap_or(&mapping.path);
    let path = Path::new("/proc").join(pid.to_string()).join("root").join(below_root);
    let file = File::open(&path).map_err(|e| format!("cannot open the file: {e}"))?;
    let inode = file.metadata().map_err(|e| e.to_string())?.st_ino();
    if inode != mapping.file.inode {
        return Err("the file was replaced after it was loaded: restart the process to trace it".to_owned());
    }
    Ok((file, path))
}

fn attach_file(
    kernel: &mut Kernel,
    attach: &dyn Attach,
    file: File,
    path: &Path,
    library: Library,
    is_embedded: bool,
) -> Result<State, String> {
    let found = elf::find(file, attach_points(library, is_embedded)).map_err(|e| e.to_string())?;
    if found.points.is_empty() {
        return Err("the file exports none of the probed functions".to_owned());
    }
    let probes = attach.attach(kernel, path, &found.points).map_err(|e| e.to_string())?;
    Ok(State::Attached { functions: found.points.len(), missing: found.missing.len(), _probes: probes })
}
