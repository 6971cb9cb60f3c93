//! The attached library files: each is attached once, whatever the number of processes that map it.
//!
//! A file without mappings stays attached for `linger_ns`, so that a restarted server is traced from its first call.
//! What the processes of one user map uses up neither the number of files ([`slots`]) nor the time ([`shares`]) for those
//! of others.

mod attached;
mod examine;
mod held;
mod open;
mod refused;
pub(crate) mod served;
mod shares;
mod slots;

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use event::{EvictionReason, FileCounts, RefusalReason};
use probe_abi::Library;

use crate::attach::{Attach, AttachError, Attached, Point, ProbedFile};
use crate::clock;
use crate::inspect::ProcessInspector;
use crate::interval::Interval;
use crate::kernel::Kernel;
use crate::maps::{FileKey, Mapping};
use crate::multi::Links;
use crate::pins::{AdoptedFile, PinnedFiles};
use crate::user::ROOT;

use self::attached::AttachedFile;
use self::examine::{Fruitless, Opened, Rejection, examine};
pub use self::held::HeldFile;
pub use self::open::open_mapped;
use self::refused::{Refusal, RefusedFiles};
use self::shares::Shares;

/// Files attached. When full, one is evicted, or a further one is a gap in the coverage of its process.
const FILES_MAX: usize = 512;
/// Files attached for the processes of a user other than root, who has those of most containers. The kernel detaches some tens in
/// a second, all of them when the agent ends.
const USER_FILES_MAX: usize = 64;
/// Files of a process that are examined or attached. Further ones are gaps in its coverage.
const PROCESS_FILES_MAX: usize = 64;
/// Files that are examined in one scan of a process, and for how long further ones are, ns. The others wait for the next.
const EXAMINED_AT_ONCE: usize = 8;
const EXAMINED_FOR_NS: u64 = 50_000_000;
/// For how long files without users are detached at once, ns, and the share of time: one part in this number.
const SWEPT_FOR_NS: u64 = 20_000_000;
const SWEEP_SHARE: u64 = 20;
/// Files that are detached at once when tracing ends, each by a thread for each of its programs.
const DETACHED_AT_ONCE: usize = 128;
/// Shorter scans are not charged to a user, ns.
const CHARGED_FROM_NS: u64 = 100_000;
/// Time between two log records of evictions.
const LOG_EVERY_NS: u64 = 10_000_000_000;

/// The functions of a library in a file.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub struct LibraryKey {
    /// The file.
    pub file: FileKey,
    /// The library.
    pub library: Library,
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

impl FoundLibrary<'_> {
    /// Returns the file and the library.
    pub fn key(&self) -> LibraryKey {
        LibraryKey { file: self.mapping.file, library: self.library }
    }
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

/// The attached files, and the refused ones.
pub struct Libraries {
    entries: BTreeMap<LibraryKey, AttachedFile>,
    pinned: Option<PinnedFiles>,
    refused: RefusedFiles,
    shares: Shares,
    /// Processes that are to be scanned again, and when, ns.
    rescans: BTreeMap<u32, u64>,
    /// When unused files are detached again, ns.
    sweep_from_ns: u64,
    counts: FileCounts,
    log: Interval,
}

/// Detaches the files that are not pinned, many at once: one after another, a thousand files would take minutes.
impl Drop for Libraries {
    fn drop(&mut self) {
        let probes = self.entries.values_mut().filter_map(|entry| entry.probes.take()).collect::<Vec<_>>();
        let (threads, left) = (DETACHED_AT_ONCE.min(probes.len()), Mutex::new(probes));
        let next = || left.lock().unwrap_or_else(PoisonError::into_inner).pop();
        std::thread::scope(|scope| {
            for _ in 0..threads {
                // If no thread can be started, the others detach the files, or the end of `left` does.
                let _ = std::thread::Builder::new().spawn_scoped(scope, || while next().is_some() {});
            }
        });
    }
}

impl Default for Libraries {
    fn default() -> Libraries {
        Libraries {
            entries: BTreeMap::new(),
            pinned: None,
            refused: RefusedFiles::default(),
            shares: Shares::default(),
            rescans: BTreeMap::new(),
            sweep_from_ns: 0,
            counts: FileCounts::default(),
            log: Interval::new(LOG_EVERY_NS),
        }
    }
}

impl Libraries {
    /// Returns the files that an earlier agent attached. The probes of further ones are pinned as theirs are.
    pub(crate) fn adopted(pinned: PinnedFiles, now_ns: u64) -> Libraries {
        let entry = |(file, pins): (AdoptedFile, PathBuf)| AttachedFile::adopted(file, pins, now_ns);
        let entries = pinned.adopt().into_iter().map(entry).collect();
        let mut libraries = Libraries::default();
        (libraries.entries, libraries.pinned) = (entries, Some(pinned));
        libraries
    }

    /// Attaches the files of `found` that are not attached yet, as one step, and adds `pid` to the users of all. Returns the
    /// coverage of each.
    pub fn attach_all(
        &mut self,
        kernel: &mut Kernel,
        attach: &dyn Attach,
        inspector: &mut ProcessInspector,
        (pid, user): (u32, u32),
        found: &[FoundLibrary<'_>],
    ) -> Vec<Coverage> {
        found.iter().for_each(|f| self.verify(inspector, (pid, user), f));
        let (mut refused, opened) = self.examine_all(inspector, (pid, user), found);
        let targets: Vec<ProbedFile<'_>> = opened.iter().map(|(_, opened)| opened.target()).collect();
        let attached = attach.attach_all(kernel, &targets);
        drop(targets);
        let armed_ns = clock::now_ns();
        for ((f, opened), probes) in opened.into_iter().zip(attached) {
            if let Err(why) = self.add((pid, user), f, opened, probes, armed_ns) {
                refused.insert(f.key(), why);
            }
        }
        found.iter().map(|f| self.used(pid, f, &refused)).collect()
    }

    /// Examines the files that are not attached. Returns those that are not to be attached, with the reason, and the others.
    fn examine_all<'f, 'm>(
        &mut self,
        inspector: &mut ProcessInspector,
        (pid, user): (u32, u32),
        found: &'f [FoundLibrary<'m>],
    ) -> (BTreeMap<LibraryKey, String>, Vec<(&'f FoundLibrary<'m>, Opened)>) {
        let (began_ns, mut examined) = (clock::now_ns(), 0);
        let (mut refused, mut opened) = (BTreeMap::new(), Vec::new());
        let all: BTreeMap<LibraryKey, &FoundLibrary<'_>> = found.iter().map(|f| (f.key(), f)).collect();
        for (number, (key, f)) in all.into_iter().enumerate() {
            if self.entries.contains_key(&key) {
                continue;
            }
            if number >= PROCESS_FILES_MAX {
                refused.insert(key, format!("the process maps more than {PROCESS_FILES_MAX} libraries"));
                continue;
            }
            let now_ns = clock::now_ns();
            if examined + opened.len() >= EXAMINED_AT_ONCE && now_ns > began_ns + EXAMINED_FOR_NS {
                self.rescans.insert(pid, now_ns);
                refused
                    .insert(key, "the process maps many files, and this one is not examined yet".to_owned());
                continue;
            }
            match examine(inspector, (pid, user), f, &mut self.refused, now_ns) {
                Ok(file) => match self.make_space(user, opened.len(), now_ns) {
                    Ok(()) => opened.push((f, file)),
                    Err(why) => drop(refused.insert(key, why)),
                },
                Err(Rejection::Known(why)) => drop(refused.insert(key, why)),
                Err(Rejection::New(refusal, version)) => {
                    examined += 1;
                    refused.insert(key, refusal.text.clone());
                    self.refused.add((pid, user), f, (refusal, version), now_ns);
                }
                Err(Rejection::Unanswered(why)) => drop(refused.insert(key, why.to_string())),
            }
        }
        (refused, opened)
    }

    /// Adds a file whose functions were attached. Returns why they were not.
    fn add(
        &mut self,
        (pid, owner): (u32, u32),
        found: &FoundLibrary<'_>,
        opened: Opened,
        probes: Result<Attached, AttachError>,
        armed_ns: u64,
    ) -> Result<(), String> {
        let probes = probes.map_err(|error| {
            let (refusal, why) = (Refusal::new(RefusalReason::NotAttached, &error), error.to_string());
            self.refused.add((pid, owner), found, (refusal, Some(opened.version)), armed_ns);
            why
        })?;
        let (functions, missing) = (opened.symbols.points.len(), opened.symbols.missing.len());
        let LibraryKey { file, library } = found.key();
        let pins = self
            .pin(&AdoptedFile { file, library, functions, missing, armed_ns, stamp: opened.stamp }, &probes);
        let entry = AttachedFile {
            functions,
            missing,
            points: opened.symbols.points,
            armed_ns,
            probes: Some(probes),
            pins,
            adopted: None,
            file: Some(Arc::new(opened.file)),
            is_embedded: found.is_embedded,
            users: BTreeSet::new(),
            unused_since_ns: armed_ns,
            owner,
        };
        self.entries.insert(found.key(), entry);
        Ok(())
    }

    /// Evicts a file if there is no space for one more of this user than are about to be attached. Returns the reason if all
    /// are kept.
    fn make_space(&mut self, user: u32, about_to_be_attached: usize, now_ns: u64) -> Result<(), String> {
        let is_own = |entry: &AttachedFile| entry.owner == user;
        let own = self.entries.values().filter(|entry| is_own(entry)).count();
        let is_user_full = user != ROOT && own + about_to_be_attached >= USER_FILES_MAX;
        if !is_user_full && self.entries.len() + about_to_be_attached < FILES_MAX {
            return Ok(());
        }
        let candidates = self.entries.iter().filter(|(_, entry)| !is_user_full || is_own(entry));
        let slots: Vec<_> = candidates.map(|(key, entry)| entry.slot(*key)).collect();
        let (max, of) = if is_user_full { (USER_FILES_MAX, " of the user") } else { (FILES_MAX, "") };
        let full = || format!("{max} files{of} are attached, which is the maximum");
        let (key, reason) = slots::evicted(&slots, user).ok_or_else(full)?;
        if let Some(entry) = self.entries.remove(&key) {
            self.counts.evicted[reason as usize] += 1;
            if self.log.is_due(now_ns) {
                let (evicted, owner) = (self.counts.evicted.iter().sum::<u64>(), entry.owner);
                tracing::warn!(?reason, owner, evicted, max, "too many library files: one is detached");
            }
            // A process of another user that maps it has it attached again.
            self.rescans.extend(entry.users.iter().map(|pid| (*pid, now_ns)));
            entry.detach();
        }
        Ok(())
    }

    /// Pins the probes of a file. Returns where; `None` if they are not pinned.
    fn pin(&self, file: &AdoptedFile, probes: &Attached) -> Option<PathBuf> {
        let pinned = self.pinned.as_ref()?.pin(file, probes);
        let unpinned =
            |e: &_| tracing::warn!(%file, %e, "probes are not pinned: a restart of the agent loses calls");
        pinned.inspect_err(unpinned).ok()
    }

    /// Detaches a file that was overwritten since an earlier agent attached it, so that it is attached again. The same is
    /// done if the main program contains the library and the file was attached as a library.
    fn verify(
        &mut self,
        inspector: &mut ProcessInspector,
        (pid, user): (u32, u32),
        found: &FoundLibrary<'_>,
    ) {
        let key = found.key();
        let Some(entry) = self.entries.get_mut(&key) else { return };
        let is_same = match entry.adopted {
            None => entry.is_embedded || !found.is_embedded,
            Some(before) => match examine::inspect(inspector, (pid, user), found, None) {
                Ok(Ok(Opened { file, symbols, stamp, .. })) if stamp == before => {
                    (entry.adopted, entry.file, entry.points) = (None, Some(Arc::new(file)), symbols.points);
                    (entry.is_embedded, entry.owner) = (found.is_embedded, user);
                    true
                }
                Ok(Ok(_) | Err(Fruitless::Refused(_, Some(_)))) => false,
                // The process has ended, or does not answer: the next one that maps the file decides.
                Ok(Err(_)) | Err(_) => true,
            },
        };
        if !is_same && let Some(entry) = self.entries.remove(&key) {
            entry.detach();
        }
    }

    /// Returns when all functions of a library were probed, ns; `None` if they are not.
    pub fn armed_ns(&self, key: &LibraryKey) -> Option<u64> {
        self.entries.get(key).map(|entry| entry.armed_ns)
    }

    /// Returns true if a library in this file is attached.
    pub fn is_attached(&self, file: &FileKey) -> bool {
        self.entries.keys().any(|key| key.file == *file)
    }

    /// Returns the processes that map a file; `None` if it is not attached.
    pub fn users(&self, key: &LibraryKey) -> Option<&BTreeSet<u32>> {
        self.entries.get(key).map(|entry| &entry.users)
    }

    /// Returns the attached files that a process maps.
    pub fn files_of(&self, pid: u32) -> impl Iterator<Item = LibraryKey> + '_ {
        self.entries.iter().filter(move |(_, entry)| entry.users.contains(&pid)).map(|(key, _)| *key)
    }

    /// Takes the links of a file that can be replaced by those of single processes, if it has any, with the file and its
    /// functions. Until they are put back, a later agent does not adopt the file: it would miss its launches.
    pub fn take_thinnable(&mut self, key: &LibraryKey) -> Option<(Links, Arc<HeldFile>, Vec<Point>)> {
        self.entries.get_mut(key)?.take_thinnable()
    }

    /// Puts links for every process back. Returns them if the file is no longer attached.
    pub fn put_thinnable(&mut self, key: &LibraryKey, links: Links) -> Option<Links> {
        match self.entries.get_mut(key) {
            Some(entry) => entry.put_thinnable(links),
            None => Some(links),
        }
    }

    /// Adds `pid` to the users of a file and returns its coverage.
    fn used(
        &mut self,
        pid: u32,
        found: &FoundLibrary<'_>,
        refused: &BTreeMap<LibraryKey, String>,
    ) -> Coverage {
        if let Some(entry) = self.entries.get_mut(&found.key()) {
            entry.users.insert(pid);
            return entry.coverage(found);
        }
        let why = refused.get(&found.key()).map_or("not attached", String::as_str);
        match found.mapping.may_be_absent() {
            true => Coverage::Absent,
            false => Coverage::Gap(format!("{} ({:?}): {why}", found.mapping.name(), found.library)),
        }
    }

    /// Removes `pid` from the users of all files that are not in `mapped`.
    pub fn retain(&mut self, pid: u32, mapped: &BTreeSet<FileKey>, now_ns: u64) {
        self.refused.retain(pid, |key| mapped.contains(&key.file));
        for (_, entry) in self.entries.iter_mut().filter(|(key, _)| !mapped.contains(&key.file)) {
            if entry.users.remove(&pid) && entry.users.is_empty() {
                entry.unused_since_ns = now_ns;
            }
        }
    }

    /// Detaches files that have had no users for `linger_ns`: one after another for [`SWEPT_FOR_NS`], since each takes the kernel
    /// tens of milliseconds, and the others later.
    pub fn sweep(&mut self, now_ns: u64, linger_ns: u64) {
        if now_ns < self.sweep_from_ns {
            return;
        }
        let is_unused =
            |e: &AttachedFile| e.users.is_empty() && now_ns.saturating_sub(e.unused_since_ns) >= linger_ns;
        let mut took_ns = 0;
        let began_ns = clock::now_ns();
        for (_, entry) in self.entries.extract_if(.., |_, e| is_unused(e)) {
            entry.detach();
            took_ns = clock::now_ns().saturating_sub(began_ns);
            if took_ns > SWEPT_FOR_NS {
                break;
            }
        }
        self.sweep_from_ns = now_ns + took_ns * SWEEP_SHARE;
    }

    /// Postpones the scan of a process if the scans of its user took too long. Returns true if it did.
    pub fn postpone(&mut self, pid: u32, user: u32, now_ns: u64) -> bool {
        let wait_ns = self.shares.wait_ns(user, now_ns);
        if wait_ns == 0 {
            return false;
        }
        self.count_postponed(user, now_ns);
        self.rescans.insert(pid, now_ns + wait_ns);
        true
    }

    /// Counts the postponed scan of a process of a user.
    pub fn count_postponed(&mut self, user: u32, now_ns: u64) {
        self.counts.postponed += 1;
        if self.log.is_due(now_ns) {
            let postponed = self.counts.postponed;
            tracing::warn!(user, postponed, "scans of a user's processes take too long: further ones wait");
        }
    }

    /// Returns true if the scan of a process is postponed to a later time.
    pub fn is_postponed(&self, pid: u32, now_ns: u64) -> bool {
        self.rescans.get(&pid).is_some_and(|at_ns| *at_ns > now_ns)
    }

    /// Forgets that a process is to be scanned again, since it has ended or executes another program.
    pub fn cancel_rescan(&mut self, pid: u32) {
        self.rescans.remove(&pid);
    }

    /// Charges the duration of a scan to the user of the process.
    pub fn charge(&mut self, user: u32, began_ns: u64) {
        let now_ns = clock::now_ns();
        let took_ns = now_ns.saturating_sub(began_ns);
        if took_ns >= CHARGED_FROM_NS {
            self.shares.charge(user, took_ns, now_ns);
        }
    }

    /// Returns the processes that are to be scanned again now.
    pub fn take_rescans(&mut self, now_ns: u64) -> Vec<u32> {
        self.rescans.extract_if(.., |_, at_ns| *at_ns <= now_ns).map(|(pid, _)| pid).collect()
    }

    /// Returns the number of attached files, and of functions in them.
    pub fn attached(&self) -> (u64, u64) {
        let functions = self.entries.values().map(|entry| entry.functions as u64);
        functions.fold((0, 0), |(files, all), n| (files + 1, all + n))
    }

    /// Returns how many files were refused and evicted, and scans postponed.
    pub fn counts(&self) -> FileCounts {
        let (refused, verdicts) = self.refused.counts();
        let mut counts = FileCounts { refused, ..self.counts };
        counts.evicted[EvictionReason::Refused as usize] = verdicts;
        counts
    }
}
