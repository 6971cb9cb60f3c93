//! The files whose probes are attached to single processes, because one of the processes that map them is thinned.
//!
//! A file is shared, with one set of links for every process, until a process that maps it is thinned. Then every process
//! has links of its own, without those of its thinned classes: the links that are there are compared with those that there
//! should be, and one change at a time makes and closes the difference. The first links overlap with the shared ones for
//! about a millisecond, in which a call counts twice, because a gap would be eight times as long.

use std::collections::{BTreeMap, BTreeSet};
use std::mem;
use std::sync::Arc;

use super::jobs::{LinkChange, Linkable};
use crate::budget::{ClassSet, ProbeClass};
use crate::libraries::LibraryKey;
use crate::multi::Links;
use crate::totals::CallReader;

/// Largest number of processes that map a file of which one can be thinned: each makes every hit of the file slower, by
/// about 10 ns.
pub const USERS_MAX: usize = 64;

/// The classes of each process of a file that are not attached all the time.
pub type Thinned = BTreeMap<u32, ClassSet>;

/// The links of a file whose processes have their own.
pub struct SplitFile {
    pub linkable: Linkable,
    reader: Arc<CallReader>,
    links: BTreeMap<(u32, ProbeClass), Links>,
    /// The links for every process, until they are closed.
    shared: Option<Links>,
    /// What the last change was made for.
    applied: Thinned,
    /// A change is under way.
    is_busy: bool,
}

/// What a file needs.
pub enum Need {
    Nothing,
    Change(Box<LinkChange>),
    /// The file is shared again, with these links.
    Shared(Links),
}

impl SplitFile {
    /// Creates a split file, whose links for every process are closed by the first change.
    pub fn new(linkable: Linkable, shared: Links, reader: Arc<CallReader>) -> SplitFile {
        SplitFile {
            linkable,
            reader,
            links: BTreeMap::new(),
            shared: Some(shared),
            applied: Thinned::new(),
            is_busy: false,
        }
    }

    /// Returns what is needed for these users and thinned processes.
    pub fn need(&mut self, file: LibraryKey, users: &BTreeSet<u32>, thinned: &Thinned) -> Need {
        let thinned: Thinned =
            thinned.iter().filter(|(pid, _)| users.contains(*pid)).map(|(pid, c)| (*pid, *c)).collect();
        match (self.is_busy, thinned.is_empty()) {
            (true, _) => Need::Nothing,
            (false, true) => self.share(file),
            (false, false) => self.difference(file, users, thinned),
        }
    }

    fn share(&mut self, file: LibraryKey) -> Need {
        if let Some(shared) = self.shared.take() {
            return Need::Shared(shared);
        }
        let pids = mem::take(&mut self.applied).into_keys().collect();
        let close = mem::take(&mut self.links).into_values().collect();
        self.change(LinkChange { is_shared: true, close, pids, ..self.empty(file) })
    }

    fn difference(&mut self, file: LibraryKey, users: &BTreeSet<u32>, thinned: Thinned) -> Need {
        let is_wanted = |(pid, class): &(u32, ProbeClass)| {
            users.contains(pid) && !thinned.get(pid).is_some_and(|classes| classes.contains(*class))
        };
        let all = users.iter().flat_map(|pid| ProbeClass::THINNABLE.map(|class| (*pid, class)));
        let link: Vec<_> = all.filter(|key| is_wanted(key) && !self.links.contains_key(key)).collect();
        let surplus = self.links.extract_if(.., |key, _| !is_wanted(key)).map(|(_, links)| links);
        let close: Vec<Links> = surplus.collect::<Vec<_>>().into_iter().chain(self.shared.take()).collect();
        let before = mem::replace(&mut self.applied, thinned);
        if link.is_empty() && close.is_empty() {
            return Need::Nothing;
        }
        let is_changed = |pid: &&u32| before.get(*pid) != self.applied.get(*pid);
        let pids: BTreeSet<u32> =
            before.keys().chain(self.applied.keys()).filter(is_changed).copied().collect();
        self.change(LinkChange { link, close, pids: pids.into_iter().collect(), ..self.empty(file) })
    }

    fn empty(&self, file: LibraryKey) -> LinkChange {
        let (linkable, reader) = (self.linkable.clone(), Arc::clone(&self.reader));
        LinkChange {
            file,
            linkable,
            is_shared: false,
            link: Vec::new(),
            close: Vec::new(),
            pids: Vec::new(),
            reader,
        }
    }

    fn change(&mut self, change: LinkChange) -> Need {
        self.is_busy = true;
        Need::Change(Box::new(change))
    }

    /// Takes the links that a change made.
    pub fn changed(&mut self, links: BTreeMap<(u32, ProbeClass), Links>, shared: Option<Links>) {
        self.is_busy = false;
        self.links.extend(links);
        self.shared = shared.or(self.shared.take());
    }

    /// Returns whether a change is under way, or will be because the process was thinned.
    pub fn is_pending(&self, pid: u32, classes: ClassSet) -> bool {
        self.is_busy || self.applied.get(&pid).copied().unwrap_or_default() != classes
    }

    /// Returns every link.
    pub fn into_links(self) -> Vec<Links> {
        self.links.into_values().chain(self.shared).collect()
    }
}
