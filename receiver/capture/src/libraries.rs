//! The attached library files: each is attached once, whatever the number of processes that map it.
//!
//! A file without mappings stays attached for `linger_ns`, so that a restarted server is traced from its first call.
//! A file that cannot be attached is tried once.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::os::fd::AsRawFd as _;
use std::os::linux::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use probe_abi::{Library, attach_points};

use crate::attach::{Attach, Attached, Point, ProbedFile};
use crate::clock;
use crate::elf::{self, FoundSymbols};
use crate::kernel::Kernel;
use crate::maps::{FileKey, Mapping};
use crate::multi::Links;
use crate::pins::{AdoptedFile, PinnedFiles, Stamp};

/// Files attached or refused. When full, a further file is a gap in the coverage of its process.
const FILES_MAX: usize = 1_024;

/// The result of attaching a file.
enum State {
    Attached {
        functions: usize,
        missing: usize,
        /// When all functions were probed, ns.
        armed_ns: u64,
        /// `None` if an earlier agent attached them.
        probes: Option<Attached>,
        /// Where the probes are pinned.
        pins: Option<PathBuf>,
        /// The file that an earlier agent attached, until a process is seen to map the same one.
        adopted: Option<Stamp>,
        /// The file, for links of single processes; `None` until a process is seen to map it.
        file: Option<Arc<File>>,
        /// The main program contains the library.
        is_embedded: bool,
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

/// A library in a file that a process has mapped.
#[derive(Clone, Copy, Debug)]
pub struct FoundLibrary<'a> {
    /// A mapping of the file.
    pub mapping: &'a Mapping,
    /// The library.
    pub library: Library,
    /// The main program contains the library: launches are timed too, to recognise nested calls.
    pub is_embedded: bool,
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
    pinned: Option<PinnedFiles>,
}

impl Libraries {
    /// Returns the files that an earlier agent attached. The probes of further ones are pinned as theirs are.
    pub(crate) fn adopted(pinned: PinnedFiles, now_ns: u64) -> Libraries {
        let entry = |(file, pins): (AdoptedFile, PathBuf)| {
            let AdoptedFile { file, library, functions, missing, armed_ns, stamp } = file;
            let (pins, adopted) = (Some(pins), Some(stamp));
            let (probes, file_handle, is_embedded) = (None, None, false);
            let state = State::Attached {
                functions,
                missing,
                armed_ns,
                probes,
                pins,
                adopted,
                file: file_handle,
                is_embedded,
            };
            (file, Entry { library, state, users: BTreeSet::new(), unused_since_ns: now_ns })
        };
        Libraries { entries: pinned.adopt().into_iter().map(entry).collect(), pinned: Some(pinned) }
    }

    /// Attaches the files of `found` that were not tried before, as one step, and adds `pid` to the users of all.
    /// Returns the coverage of each.
    pub fn attach_all(
        &mut self,
        kernel: &mut Kernel,
        attach: &dyn Attach,
        pid: u32,
        found: &[FoundLibrary<'_>],
    ) -> Vec<Coverage> {
        found.iter().for_each(|f| self.verify(pid, f));
        let is_new = |f: &&FoundLibrary<'_>| !self.entries.contains_key(&f.mapping.file);
        let free = FILES_MAX.saturating_sub(self.entries.len());
        let new: BTreeMap<FileKey, &FoundLibrary<'_>> =
            found.iter().filter(is_new).map(|f| (f.mapping.file, f)).take(free).collect();
        let opened: Vec<Result<Opened, String>> = new.values().map(|f| open_library(pid, f)).collect();
        let targets: Vec<ProbedFile<'_>> = opened.iter().flatten().map(Opened::target).collect();
        let mut attached = attach.attach_all(kernel, &targets).into_iter();
        let armed_ns = clock::now_ns();
        for ((key, f), opened) in new.into_iter().zip(opened) {
            let state = opened.and_then(|opened| {
                let probes = attached.next().ok_or_else(|| "not attached".to_owned())?;
                let probes = probes.map_err(|e| e.to_string())?;
                let (functions, missing) = (opened.symbols.points.len(), opened.symbols.missing.len());
                let (file, library, stamp) = (key, f.library, opened.stamp);
                let file = AdoptedFile { file, library, functions, missing, armed_ns, stamp };
                let pins = self.pin(&file, &probes);
                Ok(State::Attached {
                    functions,
                    missing,
                    armed_ns,
                    probes: Some(probes),
                    pins,
                    adopted: None,
                    file: Some(Arc::new(opened.file)),
                    is_embedded: f.is_embedded,
                })
            });
            let state = state.unwrap_or_else(State::Refused);
            let entry = Entry { library: f.library, state, users: BTreeSet::new(), unused_since_ns: 0 };
            self.entries.insert(key, entry);
        }
        found.iter().map(|f| self.used(pid, f.mapping)).collect()
    }

    /// Pins the probes of a file. Returns where; `None` if they are not pinned.
    fn pin(&self, file: &AdoptedFile, probes: &Attached) -> Option<PathBuf> {
        let pinned = self.pinned.as_ref()?.pin(file, probes);
        let unpinned =
            |e: &_| tracing::warn!(%file, %e, "probes are not pinned: a restart of the agent loses calls");
        pinned.inspect_err(unpinned).ok()
    }

    /// Detaches a file that was overwritten since an earlier agent attached it, so that it is attached again.
    fn verify(&mut self, pid: u32, found: &FoundLibrary<'_>) {
        let key = &found.mapping.file;
        let Some(Entry { state: State::Attached { adopted, file, is_embedded, .. }, .. }) =
            self.entries.get_mut(key)
        else {
            return;
        };
        let Some(before) = *adopted else { return };
        let opened = open(pid, found.mapping);
        match opened.and_then(|file| Ok((Stamp::of(&file).map_err(|e| e.to_string())?, file))) {
            Ok((now, _)) if now != before => drop(self.entries.remove(key).map(Entry::detach)),
            Ok((_, same)) => {
                (*adopted, *file, *is_embedded) = (None, Some(Arc::new(same)), found.is_embedded);
            }
            // The process has ended, or cannot be read: the next one that maps the file decides.
            Err(_) => {}
        }
    }

    /// Returns when all functions of a file were probed, ns; `None` if they are not.
    pub fn armed_ns(&self, file: &FileKey) -> Option<u64> {
        match self.entries.get(file)?.state {
            State::Attached { armed_ns, .. } => Some(armed_ns),
            State::Refused(_) => None,
        }
    }

    /// Returns the processes that map a file; `None` if it is not attached.
    pub fn users(&self, file: &FileKey) -> Option<&BTreeSet<u32>> {
        self.entries.get(file).map(|entry| &entry.users)
    }

    /// Returns the attached files that a process maps.
    pub fn files_of(&self, pid: u32) -> impl Iterator<Item = FileKey> + '_ {
        self.entries.iter().filter(move |(_, entry)| entry.users.contains(&pid)).map(|(key, _)| *key)
    }

    /// Takes the links of a file that can be replaced by those of single processes, if it has any, with the file and its
    /// functions. Until they are put back, a later agent does not adopt the file: it would miss its launches.
    pub fn take_thinnable(&mut self, key: &FileKey) -> Option<(Links, Arc<File>, Vec<Point>)> {
        let Entry { library, state, .. } = self.entries.get_mut(key)?;
        let State::Attached { probes, pins, file, is_embedded, .. } = state else { return None };
        let file = Arc::clone(file.as_ref()?);
        let mut links = match probes {
            Some(probes) => probes.take_thinnable()?,
            None => Links::pinned(pins.as_ref()?)?,
        };
        if let Some(pins) = pins {
            *pins = PinnedFiles::suspend(pins);
            links.set_pins(pins);
        }
        let functions = attach_points(*library, *is_embedded);
        let points =
            file.try_clone().ok().and_then(|read| elf::find(read, functions).ok()).unwrap_or_default();
        Some((links, file, points.points))
    }

    /// Puts links for every process back. Returns them if the file is no longer attached.
    pub fn put_thinnable(&mut self, file: &FileKey, links: Links) -> Option<Links> {
        let Some(State::Attached { probes, pins, .. }) =
            self.entries.get_mut(file).map(|entry| &mut entry.state)
        else {
            return Some(links);
        };
        if let Some(pins) = pins
            && links.pin_thinnable(pins).is_ok()
        {
            *pins = PinnedFiles::resume(pins);
        }
        match probes.get_or_insert_with(|| Attached::Multi(Box::default())) {
            Attached::Multi(all) => all.thinnable.replace(links),
            Attached::Other(_) => Some(links),
        }
    }

    /// Adds `pid` to the users of a file and returns its coverage.
    fn used(&mut self, pid: u32, mapping: &Mapping) -> Coverage {
        let Some(entry) = self.entries.get_mut(&mapping.file) else {
            let name = mapping.name();
            return Coverage::Gap(format!("{name}: {FILES_MAX} files are attached, which is the maximum"));
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
        let is_unused =
            |e: &Entry| e.users.is_empty() && now_ns.saturating_sub(e.unused_since_ns) >= linger_ns;
        self.entries.extract_if(.., |_, e| is_unused(e)).for_each(|(_, e)| e.detach());
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
    /// Detaches the file. Dropping the entry instead leaves pinned probes attached. This waits until no CPU runs a program:
    /// in another thread, the file could be attached again before, and its calls would be counted twice.
    fn detach(self) {
        if let State::Attached { pins: Some(pins), .. } = &self.state {
            PinnedFiles::release(pins);
        }
    }

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

/// Opens the file of a mapping: through the mapping itself or, where that is not allowed or the loader has changed the
/// mapping since, through the root directory of the process if the file there has the same inode.
pub fn open(pid: u32, mapping: &Mapping) -> Result<File, String> {
    if let Ok(file) = File::open(format!("/proc/{pid}/map_files/{:x}-{:x}", mapping.start, mapping.end)) {
        return Ok(file);
    }
    let below_root = mapping.path.strip_prefix("/").unwrap_or(&mapping.path);
    let path = Path::new("/proc").join(pid.to_string()).join("root").join(below_root);
    let file = File::open(&path).map_err(|e| format!("cannot open the file: {e}"))?;
    let inode = file.metadata().map_err(|e| e.to_string())?.st_ino();
    if inode != mapping.file.inode {
        return Err("the file was replaced after it was loaded: restart the process to trace it".to_owned());
    }
    Ok(file)
}

/// A library file and its functions.
struct Opened {
    file: File,
    /// Path of the open file: unlike one of the process, it leads to this file until it is closed.
    path: PathBuf,
    symbols: FoundSymbols,
    stamp: Stamp,
}

impl Opened {
    fn target(&self) -> ProbedFile<'_> {
        ProbedFile { path: &self.path, points: &self.symbols.points }
    }
}

fn open_library(pid: u32, found: &FoundLibrary<'_>) -> Result<Opened, String> {
    let file = open(pid, found.mapping)?;
    let stamp = Stamp::of(&file).map_err(|e| e.to_string())?;
    let wanted = attach_points(found.library, found.is_embedded);
    let read = file.try_clone().map_err(|e| e.to_string())?;
    let symbols = elf::find(read, wanted).map_err(|e| e.to_string())?;
    if symbols.points.is_empty() {
        return Err("the file exports none of the probed functions".to_owned());
    }
    let path = Path::new("/proc/self/fd").join(file.as_raw_fd().to_string());
    Ok(Opened { file, path, symbols, stamp })
}
