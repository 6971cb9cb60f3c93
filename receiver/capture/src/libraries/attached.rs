//! A library file whose functions are probed.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;

use super::held::HeldFile;
use super::slots::Slot;
use super::{Coverage, FoundLibrary, LibraryKey};
use crate::attach::{Attached, Point};
use crate::multi::Links;
use crate::pins::{AdoptedFile, PinnedFiles, Stamp};

/// An attached file.
pub(super) struct AttachedFile {
    pub functions: usize,
    pub missing: usize,
    /// The functions; none of a file that an earlier agent attached, until a process is seen to map it.
    pub points: Vec<Point>,
    /// When all functions were probed, ns.
    pub armed_ns: u64,
    /// `None` if an earlier agent attached them.
    pub probes: Option<Attached>,
    /// Where the probes are pinned.
    pub pins: Option<PathBuf>,
    /// The file that an earlier agent attached, until a process is seen to map the same one.
    pub adopted: Option<Stamp>,
    /// The file, for links of single processes; `None` until a process is seen to map it.
    pub file: Option<Arc<HeldFile>>,
    /// The main program contains the library.
    pub is_embedded: bool,
    /// The processes that map it.
    pub users: BTreeSet<u32>,
    /// When its last mapping went away, ns.
    pub unused_since_ns: u64,
    /// The user (uid) whose process mapped it first.
    pub owner: u32,
}

impl AttachedFile {
    /// Returns a file that an earlier agent attached. It counts for root until a process is seen to map it.
    pub fn adopted(file: AdoptedFile, pins: PathBuf, now_ns: u64) -> (LibraryKey, AttachedFile) {
        let AdoptedFile { file, library, functions, missing, armed_ns, stamp } = file;
        let entry = AttachedFile {
            functions,
            missing,
            points: Vec::new(),
            armed_ns,
            probes: None,
            pins: Some(pins),
            adopted: Some(stamp),
            file: None,
            is_embedded: false,
            users: BTreeSet::new(),
            unused_since_ns: now_ns,
            owner: 0,
        };
        (LibraryKey { file, library }, entry)
    }

    /// Returns what the choice of an evicted file depends on.
    pub fn slot(&self, key: LibraryKey) -> Slot<LibraryKey> {
        let unused_since_ns = self.users.is_empty().then_some(self.unused_since_ns);
        Slot { key, user: self.owner, unused_since_ns, armed_ns: self.armed_ns }
    }

    /// Takes the links that can be replaced by those of single processes, with the file and its functions.
    pub fn take_thinnable(&mut self) -> Option<(Links, Arc<HeldFile>, Vec<Point>)> {
        let file = Arc::clone(self.file.as_ref()?);
        let mut links = match &mut self.probes {
            Some(probes) => probes.take_thinnable()?,
            None => Links::pinned(self.pins.as_ref()?)?,
        };
        if let Some(pins) = &mut self.pins {
            *pins = PinnedFiles::suspend(pins);
            links.set_pins(pins);
        }
        Some((links, file, self.points.clone()))
    }

    /// Puts links for every process back. Returns the former ones.
    pub fn put_thinnable(&mut self, links: Links) -> Option<Links> {
        if let Some(pins) = &mut self.pins
            && links.pin_thinnable(pins).is_ok()
        {
            *pins = PinnedFiles::resume(pins);
        }
        match self.probes.get_or_insert_with(|| Attached::Multi(Box::default())) {
            Attached::Multi(all) => all.thinnable.replace(links),
            Attached::Other(_) => Some(links),
        }
    }

    /// Detaches the file. Dropping the entry instead leaves pinned probes attached. This waits until no CPU runs a program:
    /// in another thread, the file could be attached again before, and its calls would be counted twice.
    pub fn detach(self) {
        if let Some(pins) = &self.pins {
            PinnedFiles::release(pins);
        }
    }

    /// Returns how a process is observed that maps the file.
    pub fn coverage(&self, found: &FoundLibrary<'_>) -> Coverage {
        let (name, functions) = (found.mapping.name(), self.functions);
        Coverage::Observed(match self.missing {
            0 => format!("{name}: {functions} functions"),
            missing => format!("{name}: {functions} functions, {missing} are not in this version"),
        })
    }
}
