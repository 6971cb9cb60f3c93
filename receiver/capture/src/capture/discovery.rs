//! How libraries are found: by the mappings that the kernel reports, or, where it reports none, by scans of /proc.
//!
//! While mappings are followed, every process is scanned once, at the start and after a loss of reports (the
//! *inventory*); later only the processes that map a library are. Otherwise all processes are scanned at growing
//! intervals. Which of the processes that wait is scanned first is up to [`ScanQueue`](crate::scan_queue::ScanQueue).

use event::{Event, ExitStatus};

use super::Capture;
use crate::mappings::{Mapped, MappingEvents, ReportedMappings};
use crate::multi::Multi;
use crate::scan_queue::Waiting;
use crate::{clock, proc, user};

/// Time from a loss of reports to the inventory, so that a burst of losses leads to one.
const AFTER_LOSS_NS: u64 = 50_000_000;
/// For how long one read scans processes, ns. The others wait until it has read the records again.
const SCANNED_FOR_NS: u64 = 20_000_000;
/// Processes whose periodic scans one read adds to those that wait.
const DUE_PER_READ: usize = 32;

/// Whether every process was scanned since the mappings are followed without loss.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Inventory {
    Needed,
    /// Every process is listed, and some are still to be scanned.
    Listed,
    Complete,
}

/// The mappings that the kernel reports, if it does, and what is known without them.
pub(super) struct Finder {
    events: Option<MappingEvents>,
    inventory: Inventory,
    /// When the mappings began to be followed, ns.
    since_ns: u64,
    /// Number of reports that were lost.
    lost: u64,
    /// Number of processes that ended before a library that they had mapped was probed.
    unreached: u64,
}

impl Finder {
    /// Follows the mappings of all processes, if the kernel reports them.
    pub(super) fn open() -> Finder {
        let events = MappingEvents::open().inspect_err(|error| {
            tracing::warn!(%error, "the kernel does not report mappings: new libraries are found by scans of /proc, up to 30 s later");
        });
        let (inventory, since_ns) = (Inventory::Needed, clock::now_ns());
        Finder { events: events.ok(), inventory, since_ns, lost: 0, unreached: 0 }
    }

    /// Returns true if the kernel reports mappings.
    pub(super) fn follows_mappings(&self) -> bool {
        self.events.is_some()
    }

    /// Returns true if all processes are to be listed.
    fn needs_inventory(&self) -> bool {
        !self.follows_mappings() || self.inventory == Inventory::Needed
    }

    /// Returns true if a library that a process mapped without a report would have been found by now.
    pub(super) fn is_complete_for(&self, pid: u32) -> bool {
        let began_later = || proc::started_ns(pid).is_some_and(|started_ns| started_ns > self.since_ns);
        self.follows_mappings() && (self.inventory == Inventory::Complete || began_later())
    }

    /// Returns the discovery as an event.
    pub(super) fn event(&self, at_ns: u64) -> Event {
        let follows_mappings = self.follows_mappings();
        Event::Discovery { at_ns, follows_mappings, mappings_lost: self.lost, unreached: self.unreached }
    }

    /// Reads the reported mappings. If some were lost, an inventory is needed.
    fn read(&mut self) -> ReportedMappings {
        let batch = self.events.as_mut().map(MappingEvents::read).unwrap_or_default();
        if batch.lost > 0 {
            self.lost = self.lost.saturating_add(batch.lost);
            self.inventory = Inventory::Needed;
        }
        batch
    }

    /// Follows the CPUs that are online now, if they have changed.
    fn follow_cpus(&mut self) {
        if self.events.as_ref().is_some_and(MappingEvents::is_outdated) {
            *self = Finder { lost: self.lost, unreached: self.unreached, ..Finder::open() };
        }
    }
}

impl Capture {
    /// Waits for a mapping, at most some milliseconds, unless a process waits for a scan. Returns false at once if the
    /// kernel reports no mappings. While no process is traced, a program that the next library needs is loaded instead.
    pub(super) fn wait_for_mappings(&mut self) -> bool {
        if self.waiting.is_ready(|pid| !self.inspector.awaits(pid)) {
            return true;
        }
        if self.is_idle() && self.kernel.multi.as_mut().is_some_and(Multi::preload) {
            return true;
        }
        let at_most = self.wait_time();
        let Some(events) = &mut self.finder.events else { return false };
        events.wait(at_most);
        true
    }

    /// Scans processes that have mapped a library or whose periodic scan is due, for a limited time.
    pub(super) fn scan_waiting(&mut self, now_ns: u64, into: &mut Vec<Event>) {
        for pid in self.processes.due(now_ns, DUE_PER_READ) {
            self.scan_later(pid, None, now_ns);
        }
        let until_ns = clock::now_ns() + SCANNED_FOR_NS;
        let mut began_ns = now_ns;
        while began_ns < until_ns {
            // Read again before each scan: a process of another user may have mapped a library during the last one.
            self.read_mappings(began_ns);
            let Some(next) = self.waiting.take(|pid| !self.inspector.awaits(pid)) else { return };
            began_ns = clock::now_ns();
            self.scan_next(next, began_ns, into);
            let ended_ns = clock::now_ns();
            self.waiting.charge(next.user, ended_ns - began_ns);
            began_ns = ended_ns;
        }
    }

    /// Takes the processes that have mapped libraries since the last read.
    fn read_mappings(&mut self, now_ns: u64) {
        let batch = self.finder.read();
        if batch.lost > 0 {
            self.list_interval.hasten(now_ns + AFTER_LOSS_NS);
        }
        let own = std::process::id();
        for mapped in batch.mapped.into_iter().filter(|mapped| mapped.pid != own) {
            let pid = mapped.pid;
            // A process can map files thousands of times per second. One look-up of its user for each would be expensive.
            let is_expected = self.waiting.note(&mapped) || self.libraries.is_postponed(pid, now_ns);
            if !is_expected && (self.trace_all || self.processes.get_mut(pid).is_some()) {
                self.processes.track(pid, now_ns);
                self.scan_later(pid, Some(mapped), now_ns);
            }
        }
    }

    fn scan_later(&mut self, pid: u32, mapped: Option<Mapped>, since_ns: u64) {
        let dropped = self.waiting.push(Waiting { pid, user: user::of(pid), mapped, since_ns });
        if let Some(dropped) = dropped {
            self.libraries.count_postponed(dropped.user, since_ns);
        }
    }

    fn scan_next(&mut self, Waiting { pid, mapped, .. }: Waiting, now_ns: u64, into: &mut Vec<Event>) {
        let is_alive = self.scan(pid, now_ns, mapped.map(|mapped| mapped.at_ns), into);
        if !is_alive {
            self.count_unreached(mapped);
        }
        if mapped.is_some() && self.inspector.awaits(pid) {
            self.scan_later(pid, mapped, now_ns);
        }
    }

    /// Counts a process that has ended after it mapped a library that is not probed.
    fn count_unreached(&mut self, mapped: Option<Mapped>) {
        if mapped.is_some_and(|mapped| !self.libraries.is_attached(&mapped.file)) {
            self.finder.unreached += 1;
        }
    }

    /// Forgets that a process waits for a scan, since it has ended.
    pub(super) fn cancel_scan(&mut self, pid: u32) {
        self.libraries.cancel_rescan(pid);
        let waiting = self.waiting.remove(pid);
        self.count_unreached(waiting.and_then(|waiting| waiting.mapped));
    }

    /// Ends the processes that are gone, and tracks all others that are not known to be without libraries.
    pub(super) fn list_processes(&mut self, now_ns: u64, into: &mut Vec<Event>) {
        self.finder.follow_cpus();
        if self.finder.needs_inventory() {
            self.take_inventory(now_ns, into);
        } else {
            let gone: Vec<u32> = self.processes.pids().filter(|pid| !proc::exists(*pid)).collect();
            self.end_all(&gone, now_ns, into);
        }
        self.settle_excluded();
        self.libraries.sweep(now_ns, self.linger_ns);
        self.rest();
    }

    fn take_inventory(&mut self, now_ns: u64, into: &mut Vec<Event>) {
        let pids = proc::pids();
        let gone: Vec<u32> = self.processes.pids().filter(|pid| !pids.contains(pid)).collect();
        self.end_all(&gone, now_ns, into);
        let is_fallback = !self.finder.follows_mappings();
        for pid in pids.into_iter().filter(|_| self.trace_all) {
            let is_new = self.processes.get_mut(pid).is_none();
            if is_new {
                self.processes.track(pid, now_ns);
            }
            // After a loss, a process that is tracked may have mapped another library.
            if is_new || !is_fallback {
                self.processes.scan_soon(pid);
            }
        }
        self.finder.inventory = Inventory::Listed;
    }

    fn end_all(&mut self, gone: &[u32], now_ns: u64, into: &mut Vec<Event>) {
        for pid in gone {
            self.process_exited(*pid, now_ns, ExitStatus::Unknown, into);
        }
    }

    /// Notes whether the inventory is complete.
    pub(super) fn check_inventory(&mut self) {
        let are_scans_pending = self.processes.are_scans_pending() || self.waiting.has_unmapped();
        if self.finder.inventory == Inventory::Listed && !are_scans_pending {
            self.finder.inventory = Inventory::Complete;
        }
    }
}
