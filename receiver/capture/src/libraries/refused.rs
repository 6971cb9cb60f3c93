//! Files in which no functions are probed, each with the reason.
//!
//! A verdict on the content of a file counts for one set of functions and for one version of the file: another name of the
//! file is judged for itself, and so is a changed file. That a file cannot be opened counts for one process.
//! Verdicts that may change are reconsidered after a back-off.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io;
use std::os::linux::fs::MetadataExt as _;

use event::RefusalReason;

use super::open::OpenError;
use super::{FoundLibrary, LibraryKey};
use crate::elf::ElfError;
use crate::interval::Interval;

/// Refused files. When full, the one that was used least recently is evicted, of the user who has most.
const REFUSED_MAX: usize = 1_024;
/// Time until a verdict is reconsidered first; it doubles each time.
const RETRY_AFTER_NS: u64 = 1_000_000_000;
const RETRY_AFTER_NS_MAX: u64 = 300_000_000_000;
/// Time between two log records of refused files.
const LOG_EVERY_NS: u64 = 10_000_000_000;

/// What a verdict depends on.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Basis {
    /// What the process shows at the path of the file.
    Process,
    /// The content of the file.
    Content,
    /// The content of the file and the state of the kernel.
    Kernel,
}

/// The basis of each reason.
const BASES: [(RefusalReason, Basis); RefusalReason::ALL.len()] = [
    (RefusalReason::Inaccessible, Basis::Process),
    (RefusalReason::Irregular, Basis::Process),
    (RefusalReason::Malformed, Basis::Content),
    (RefusalReason::NoFunctions, Basis::Content),
    (RefusalReason::NotAttached, Basis::Kernel),
    (RefusalReason::Replaced, Basis::Process),
    (RefusalReason::TooLarge, Basis::Content),
    (RefusalReason::Untrusted, Basis::Process),
];

/// The reason why the functions of a file are not probed.
#[derive(Clone, Debug)]
pub(super) struct Refusal {
    pub reason: RefusalReason,
    pub text: String,
}

impl Refusal {
    pub fn new(reason: RefusalReason, text: impl ToString) -> Refusal {
        Refusal { reason, text: text.to_string() }
    }

    fn basis(&self) -> Basis {
        BASES.iter().find(|(reason, _)| *reason == self.reason).map_or(Basis::Kernel, |(_, basis)| *basis)
    }
}

impl From<OpenError> for Refusal {
    fn from(error: OpenError) -> Refusal {
        let reason = match error {
            OpenError::Inaccessible(_) => RefusalReason::Inaccessible,
            OpenError::Irregular(_) => RefusalReason::Irregular,
            OpenError::Replaced => RefusalReason::Replaced,
            OpenError::Untrusted(_) => RefusalReason::Untrusted,
        };
        Refusal::new(reason, error)
    }
}

impl From<ElfError> for Refusal {
    fn from(error: ElfError) -> Refusal {
        let reason = match error {
            ElfError::Unreadable(_) => RefusalReason::Malformed,
            ElfError::TooLarge { .. } | ElfError::Repetitive => RefusalReason::TooLarge,
        };
        Refusal::new(reason, error)
    }
}

/// What changes when another file gets the inode of a removed one, or a file is written to.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct Version {
    bytes: u64,
    changed: (i64, i64),
}

impl Version {
    pub fn of(file: &File) -> io::Result<Version> {
        let found = file.metadata()?;
        Ok(Version { bytes: found.st_size(), changed: (found.st_ctime(), found.st_ctime_nsec()) })
    }
}

/// A set of functions in a file, and the process that the verdict is about, if it is about one.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
struct Key {
    file: LibraryKey,
    is_embedded: bool,
    pid: Option<u32>,
}

impl Key {
    fn of(found: &FoundLibrary<'_>, pid: Option<u32>) -> Key {
        Key { file: found.key(), is_embedded: found.is_embedded, pid }
    }
}

struct Entry {
    refusal: Refusal,
    version: Option<Version>,
    /// The user whose process mapped it first.
    user: u32,
    /// The processes for which the verdict was confirmed.
    pids: BTreeSet<u32>,
    used_ns: u64,
    retry_at_ns: u64,
    retry_after_ns: u64,
}

impl Entry {
    fn confirm(&mut self, pid: u32, now_ns: u64) -> &str {
        self.pids.insert(pid);
        self.used_ns = now_ns;
        if now_ns >= self.retry_at_ns {
            self.retry_after_ns = (self.retry_after_ns * 2).min(RETRY_AFTER_NS_MAX);
            self.retry_at_ns = now_ns + self.retry_after_ns;
        }
        &self.refusal.text
    }
}

/// The refused files.
pub(super) struct RefusedFiles {
    entries: BTreeMap<Key, Entry>,
    refused: [u64; RefusalReason::ALL.len()],
    evicted: u64,
    log: Interval,
    unlogged: u64,
}

impl Default for RefusedFiles {
    fn default() -> RefusedFiles {
        RefusedFiles {
            entries: BTreeMap::new(),
            refused: Default::default(),
            evicted: 0,
            log: Interval::new(LOG_EVERY_NS),
            unlogged: 0,
        }
    }
}

impl RefusedFiles {
    /// Returns why a file is refused to a process that had this verdict before, unless it is to be reconsidered.
    pub fn known(&mut self, pid: u32, found: &FoundLibrary<'_>, now_ns: u64) -> Option<&str> {
        let is_known = |entry: &Entry| entry.pids.contains(&pid) && now_ns < entry.retry_at_ns;
        let mut keys = [Some(pid), None].map(|pid| Key::of(found, pid)).into_iter();
        let key = keys.find(|key| self.entries.get(key).is_some_and(is_known))?;
        self.entries.get_mut(&key).map(|entry| entry.confirm(pid, now_ns))
    }

    /// Returns the version of a file that is refused whatever process maps it, unless that is to be reconsidered.
    pub fn version(&self, found: &FoundLibrary<'_>, now_ns: u64) -> Option<Version> {
        let entry = self.entries.get(&Key::of(found, None))?;
        let is_due = now_ns >= entry.retry_at_ns && entry.refusal.basis() == Basis::Kernel;
        entry.version.filter(|_| !is_due)
    }

    /// Returns why a file is refused whose version was seen not to have changed.
    pub fn confirm(&mut self, pid: u32, found: &FoundLibrary<'_>, now_ns: u64) -> String {
        let entry = self.entries.get_mut(&Key::of(found, None));
        // The verdict can have been evicted meanwhile.
        entry.map_or_else(|| "refused before".to_owned(), |entry| entry.confirm(pid, now_ns).to_owned())
    }

    /// Adds a verdict.
    pub fn add(
        &mut self,
        (pid, user): (u32, u32),
        found: &FoundLibrary<'_>,
        (refusal, version): (Refusal, Option<Version>),
        now_ns: u64,
    ) {
        self.note(user, found, &refusal, now_ns);
        let key = Key::of(found, (refusal.basis() == Basis::Process).then_some(pid));
        let before = self.entries.remove(&key);
        // The back-off of another verdict on the same file continues.
        let retry_after_ns =
            before.map_or(RETRY_AFTER_NS, |before| (before.retry_after_ns * 2).min(RETRY_AFTER_NS_MAX));
        self.make_space();
        let (pids, retry_at_ns) = (BTreeSet::from([pid]), now_ns + retry_after_ns);
        let entry = Entry { refusal, version, user, pids, used_ns: now_ns, retry_at_ns, retry_after_ns };
        self.entries.insert(key, entry);
    }

    /// Counts and logs a verdict, unless the file usually has none of the functions.
    fn note(&mut self, user: u32, found: &FoundLibrary<'_>, refusal: &Refusal, now_ns: u64) {
        let is_usual = found.is_embedded || found.mapping.may_be_absent();
        if is_usual && refusal.reason == RefusalReason::NoFunctions {
            return;
        }
        self.refused[refusal.reason as usize] += 1;
        if self.log.is_due(now_ns) {
            let (name, reason, unlogged) = (found.mapping.name(), &refusal.text, self.unlogged);
            tracing::warn!(?name, user, reason, unlogged, "a library is not traced");
            self.unlogged = 0;
        } else {
            self.unlogged += 1;
        }
    }

    fn make_space(&mut self) {
        while self.entries.len() >= REFUSED_MAX {
            let Some(user) = super::slots::richest(self.entries.values().map(|entry| entry.user)) else {
                return;
            };
            let of_user = self.entries.iter().filter(|(_, entry)| entry.user == user);
            let Some(oldest) = of_user.min_by_key(|(_, entry)| entry.used_ns).map(|(key, _)| *key) else {
                return;
            };
            self.entries.remove(&oldest);
            self.evicted += 1;
        }
    }

    /// Removes a process from all files that it does not map any more, and the files that no process maps, whose inodes
    /// may be used again.
    pub fn retain(&mut self, pid: u32, maps: impl Fn(&LibraryKey) -> bool) {
        self.entries.retain(|key, entry| {
            let is_unmapped = entry.pids.contains(&pid) && !maps(&key.file);
            !is_unmapped || entry.pids.remove(&pid) && !entry.pids.is_empty()
        });
    }

    /// Returns the numbers of refused files by reason, and of evicted ones.
    pub fn counts(&self) -> ([u64; RefusalReason::ALL.len()], u64) {
        (self.refused, self.evicted)
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use probe_abi::Library;

    use super::*;
    use crate::maps::{FileKey, Mapping};

    const SECOND: u64 = 1_000_000_000;
    const VERSION: Version = Version { bytes: 1, changed: (2, 3) };

    fn mapping(inode: u64) -> Mapping {
        let file = FileKey { device: (8, 1), inode };
        Mapping { start: 0, end: 1, offset: 0, file, path: PathBuf::from("/lib/libnccl.so.2") }
    }

    fn of(mapping: &Mapping, library: Library) -> FoundLibrary<'_> {
        FoundLibrary { mapping, library, is_embedded: false }
    }

    fn refused(reason: RefusalReason) -> (Refusal, Option<Version>) {
        (Refusal::new(reason, "why"), Some(VERSION))
    }

    #[test]
    fn every_reason_has_a_basis_and_its_number() {
        for (number, reason) in RefusalReason::ALL.into_iter().enumerate() {
            assert_eq!((BASES[number].0, reason as usize), (reason, number));
        }
    }

    #[test]
    fn verdict_on_content_counts_for_one_set_of_functions_and_one_version() {
        let (mut files, mapping) = (RefusedFiles::default(), mapping(1));
        let (nccl, cudart) = (of(&mapping, Library::Nccl), of(&mapping, Library::Cudart));
        files.add((7, 0), &nccl, refused(RefusalReason::NoFunctions), 0);
        assert_eq!(files.known(7, &nccl, 1), Some("why"));
        assert_eq!(files.known(8, &nccl, 1), None, "another process shows which file it maps");
        assert_eq!(files.version(&nccl, 1), Some(VERSION));
        assert_eq!(files.confirm(8, &nccl, 1), "why");
        assert_eq!(files.known(8, &nccl, 1), Some("why"));
        assert_eq!(files.known(7, &cudart, 1), None);
        assert_eq!(files.version(&cudart, 1), None);
        assert_eq!(files.counts().0, [0, 0, 0, 1, 0, 0, 0, 0]);
    }

    #[test]
    fn failure_to_open_a_file_counts_for_one_process() {
        let (mut files, mapping) = (RefusedFiles::default(), mapping(1));
        let nccl = of(&mapping, Library::Nccl);
        files.add((7, 0), &nccl, refused(RefusalReason::Replaced), 0);
        assert_eq!(files.known(7, &nccl, 1), Some("why"));
        assert_eq!(files.known(8, &nccl, 1), None);
        assert_eq!(files.version(&nccl, 1), None);
    }

    #[test]
    fn verdicts_are_reconsidered_at_growing_intervals() {
        let (mut files, mapping) = (RefusedFiles::default(), mapping(1));
        let nccl = of(&mapping, Library::Nccl);
        let mut judged = Vec::new();
        for now_ns in (0..2_000).map(|second| second * SECOND) {
            if files.known(7, &nccl, now_ns).is_none() {
                files.add((7, 0), &nccl, refused(RefusalReason::NotAttached), now_ns);
                judged.push(now_ns / SECOND);
            }
        }
        assert_eq!(judged[..5], [0, 1, 3, 7, 15]);
        assert_eq!(judged[judged.len() - 1] - judged[judged.len() - 2], 300);
        assert_eq!(files.version(&nccl, 10_000 * SECOND), None, "the kernel may accept it now");
    }

    #[test]
    fn junk_of_one_user_evicts_only_verdicts_of_that_user() {
        let (mut files, other) = (RefusedFiles::default(), mapping(0));
        files.add((1, 1), &of(&other, Library::Nccl), refused(RefusalReason::NoFunctions), 0);
        for inode in 1..=1_100 {
            let junk = mapping(inode);
            files.add((2, 2), &of(&junk, Library::Nccl), refused(RefusalReason::Malformed), inode);
        }
        assert_eq!((files.entries.len(), files.evicted), (REFUSED_MAX, 1_101 - REFUSED_MAX as u64));
        assert!(files.known(1, &of(&other, Library::Nccl), 1).is_some());
        assert!(files.known(2, &of(&mapping(1), Library::Nccl), 1).is_none(), "the oldest is evicted");
        files.retain(2, |_| false);
        assert_eq!(files.entries.len(), 1, "inodes of files that no process maps are used again");
    }
}
