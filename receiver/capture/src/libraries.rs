//! Which files are attached, and for whom: each file once, whatever the number of processes that map it.
//!
//! A file that nobody maps any more stays attached for a while (`linger_ns`), so that a server that is restarted
//! is seen from its first call; then its probes are taken away. A file that cannot be attached is tried once.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::os::linux::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use probe_abi::{Library, attach_points};

use crate::attach::{Attach, Attached};
use crate::elf;
use crate::kernel::Kernel;
use crate::maps::{FileKey, Mapping};

/// Files remembered, attached or refused. Full: a new one is refused, and said to be.
const FILES_MAX: usize = 1_024;

/// What became of a file.
enum State {
    Attached {
        functions: usize,
        missing: usize,
        _probes: Attached,
    },
    /// It has none of the functions, or could not be read or attached: why.
    Refused(String),
}

struct Entry {
    library: Library,
    state: State,
    users: BTreeSet<u32>,
    /// Since when nobody maps it.
    unused_since_ns: u64,
}

/// A process's view of one library.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Sight {
    /// Its functions are probed.
    Seen(String),
    /// They are not: why.
    Blind(String),
    /// It is no such library after all.
    Other,
}

/// The attached files.
#[derive(Default)]
pub struct Libraries {
    entries: BTreeMap<FileKey, Entry>,
}

impl Libraries {
    /// Makes sure that the file behind `mapping` is attached, as `library`, for process `pid`. `inside` says that
    /// the main program carries the library in itself: then launches are timed too, to know calls within calls.
    pub fn attach(
        &mut self,
        kernel: &mut Kernel,
        attach: &dyn Attach,
        pid: u32,
        mapping: &Mapping,
        library: Library,
        inside: bool,
    ) -> Sight {
        if !self.entries.contains_key(&mapping.file) {
            if self.entries.len() >= FILES_MAX {
                return Sight::Blind(format!("{}: {FILES_MAX} files are attached already", mapping.name()));
            }
            let state = open(pid, mapping)
                .and_then(|(file, path)| place(kernel, attach, file, &path, library, inside));
            let state = state.unwrap_or_else(State::Refused);
            self.entries
                .insert(mapping.file, Entry { library, state, users: BTreeSet::new(), unused_since_ns: 0 });
        }
        let Some(entry) = self.entries.get_mut(&mapping.file) else {
            return Sight::Blind(format!("{}: not attached", mapping.name()));
        };
        entry.users.insert(pid);
        match entry.state {
            State::Refused(_) if mapping.is_perhaps() => Sight::Other,
            _ => entry.sight(mapping.name()),
        }
    }

    /// The files that process `pid` is known to use, beyond those in `mapped`, are not its any more.
    pub fn retain(&mut self, pid: u32, mapped: &[FileKey], now_ns: u64) {
        for (_, entry) in self.entries.iter_mut().filter(|(key, _)| !mapped.contains(key)) {
            if entry.users.remove(&pid) && entry.users.is_empty() {
                entry.unused_since_ns = now_ns;
            }
        }
    }

    /// Takes away the probes of files that nobody has mapped for `linger_ns`.
    pub fn sweep(&mut self, now_ns: u64, linger_ns: u64) {
        self.entries
            .retain(|_, e| !e.users.is_empty() || now_ns.saturating_sub(e.unused_since_ns) < linger_ns);
    }

    /// Files attached, and functions in them.
    pub fn attached(&self) -> (u64, u64) {
        let functions = |e: &Entry| match e.state {
            State::Attached { functions, .. } => Some(functions as u64),
            State::Refused(_) => None,
        };
        self.entries.values().filter_map(functions).fold((0, 0), |(files, all), n| (files + 1, all + n))
    }
}

impl Entry {
    fn sight(&self, name: &str) -> Sight {
        match &self.state {
            State::Attached { functions, missing: 0, .. } => {
                Sight::Seen(format!("{name}: {functions} functions"))
            }
            State::Attached { functions, missing, .. } => {
                Sight::Seen(format!("{name}: {functions} functions, {missing} are not in this version"))
            }
            State::Refused(why) => Sight::Blind(format!("{name} ({:?}): {why}", self.library)),
        }
    }
}

/// Opens the very file that is mapped, wherever the process sees it: through the mapping itself, or through the
/// process's root where that is not allowed, if the file there is still the same.
pub fn open(pid: u32, mapping: &Mapping) -> Result<(File, PathBuf), String> {
    let mapped = PathBuf::from(format!("/proc/{pid}/map_files/{:x}-{:x}", mapping.start, mapping.end));
    if let Ok(file) = File::open(&mapped) {
        return Ok((file, mapped));
    }
    let below_root = mapping.path.strip_prefix("/").unwrap_or(&mapping.path);
    let path = Path::new("/proc").join(pid.to_string()).join("root").join(below_root);
    let file = File::open(&path).map_err(|e| format!("cannot open it: {e}"))?;
    let inode = file.metadata().map_err(|e| e.to_string())?.st_ino();
    if inode != mapping.file.inode {
        return Err("its file was replaced since it was loaded: restart the process to see it".to_owned());
    }
    Ok((file, path))
}

fn place(
    kernel: &mut Kernel,
    attach: &dyn Attach,
    file: File,
    path: &Path,
    library: Library,
    inside: bool,
) -> Result<State, String> {
    let found = elf::find(file, attach_points(library, inside)).map_err(|e| e.to_string())?;
    if found.points.is_empty() {
        return Err("it exports none of the probed functions".to_owned());
    }
    let probes = attach.attach(kernel, path, &found.points).map_err(|e| e.to_string())?;
    Ok(State::Attached { functions: found.points.len(), missing: found.missing.len(), _probes: probes })
}
