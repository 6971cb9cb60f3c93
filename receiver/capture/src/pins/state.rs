//! What a later agent must know that the maps of the kernel programs do not contain: maps that only agents use.
//!
//! The kernel replaces a value of an array as a whole, so that a killed agent leaves the old value or the new one.

use std::io;
use std::path::Path;

use aya::maps::{Array, HashMap, Map, MapData};
use event::ProcessId;
use probe_abi::counters::DropReason;
use zerocopy::{FromBytes, Immutable, IntoBytes, transmute};

use super::VERSION;
use super::carried::{Carried, CarriedTotals};
use super::description::Description;
use crate::budget::HitCosts;
use crate::cost::Calibration;
use crate::kernel::Words;
use crate::totals::Share;

/// Entries are allocated when they are added.
const NO_PREALLOC: u32 = 1;
/// An entry that exists is not replaced.
const BPF_NOEXIST: u64 = 1;

/// The share of a process that is being removed: stored before its entries are removed, so that it is counted once
/// wherever the agent is killed.
#[derive(Clone, Copy, Debug, Default, Eq, FromBytes, Immutable, IntoBytes, PartialEq)]
#[repr(C)]
pub(crate) struct Ending {
    /// Pid of the process; 0 for none.
    pub(crate) pid: u64,
    /// Its start, CLOCK_BOOTTIME ns.
    pub(crate) start_ns: u64,
    pub(crate) share: Share,
}

/// The progress of an agent.
#[derive(Clone, Copy, Debug, Default, Eq, FromBytes, Immutable, IntoBytes, PartialEq)]
#[repr(C)]
pub(crate) struct Progress {
    /// Version of what is stored.
    pub(crate) version: u64,
    /// When the maps were created, ns since 1970.
    pub(crate) since_unix_ns: u64,
    /// When records were last read, CLOCK_MONOTONIC ns.
    pub(crate) read_ns: u64,
    /// Cost of a launch and of a timed call, ns.
    pub(crate) launch_cost_ns: u64,
    pub(crate) timed_cost_ns: u64,
    /// 1 if probes of a single process count all of its threads.
    pub(crate) links_processes: u64,
    /// Records that were read.
    pub(crate) received: u64,
    /// Lost hits that were reported, by reason.
    pub(crate) lost: [u64; DropReason::ALL.len()],
    /// Share of the processes that ended.
    pub(crate) retired: Share,
    pub(crate) ending: Ending,
}

impl Progress {
    /// Returns what was measured when the programs were loaded.
    pub(crate) fn calibration(&self) -> Calibration {
        let costs = HitCosts { launch_ns: self.launch_cost_ns, timed_ns: self.timed_cost_ns };
        Calibration { costs, links_processes: self.links_processes == 1 }
    }
}

const WORDS: usize = size_of::<Progress>() / 8;
const CARRIED_WORDS: usize = size_of::<Carried>() / 8;
/// Functions of all processes whose totals are carried.
const CARRIED_MAX: u32 = 8_192;

/// The maps.
pub(super) struct Stored {
    progress: Array<MapData, Words<WORDS>>,
    /// Start of each process, CLOCK_BOOTTIME ns, and since when it is counted, ns since 1970; by pid. Full: the counters of
    /// further processes begin again with each agent.
    processes: HashMap<MapData, u32, [u64; 2]>,
    /// Descriptions of processes by pid. Full: further processes are not described if they end while no agent runs.
    descriptions: HashMap<MapData, u32, Description>,
    /// [`Carried`] by pid and row. Full: the totals of further functions begin again.
    carried: HashMap<MapData, [u32; 2], Words<CARRIED_WORDS>>,
}

impl Stored {
    /// Creates the maps and pins them in `dir`.
    pub(super) fn create(dir: &Path, processes_max: u32, progress: Progress) -> io::Result<Stored> {
        let array: Array<MapData, Words<WORDS>> = Array::create(1, 0).map_err(io::Error::other)?;
        array.pin(dir.join("state")).map_err(io::Error::other)?;
        let processes: HashMap<MapData, u32, [u64; 2]> =
            HashMap::create(processes_max, NO_PREALLOC).map_err(io::Error::other)?;
        processes.pin(dir.join("processes")).map_err(io::Error::other)?;
        let descriptions: HashMap<MapData, u32, Description> =
            HashMap::create(processes_max, NO_PREALLOC).map_err(io::Error::other)?;
        descriptions.pin(dir.join("descriptions")).map_err(io::Error::other)?;
        let carried: HashMap<MapData, [u32; 2], Words<CARRIED_WORDS>> =
            HashMap::create(CARRIED_MAX, NO_PREALLOC).map_err(io::Error::other)?;
        carried.pin(dir.join("carried")).map_err(io::Error::other)?;
        let mut stored = Stored::open_any(dir)?;
        stored.store(Progress { version: VERSION, ..progress });
        Ok(stored)
    }

    /// Opens the maps that another agent pinned in `dir`.
    pub(super) fn open(dir: &Path) -> io::Result<Stored> {
        let stored = Stored::open_any(dir)?;
        match stored.progress().version {
            VERSION => Ok(stored),
            other => Err(io::Error::other(format!("version {other}: expected {VERSION}"))),
        }
    }

    fn open_any(dir: &Path) -> io::Result<Stored> {
        let progress = Array::try_from(open(dir, "state")?).map_err(io::Error::other)?;
        let processes = HashMap::try_from(open(dir, "processes")?).map_err(io::Error::other)?;
        let carried = HashMap::try_from(open(dir, "carried")?).map_err(io::Error::other)?;
        let descriptions = HashMap::try_from(open(dir, "descriptions")?).map_err(io::Error::other)?;
        Ok(Stored { progress, processes, descriptions, carried })
    }

    pub(super) fn progress(&self) -> Progress {
        self.progress.get(&0, 0).map(|words| transmute!(words)).unwrap_or_default()
    }

    pub(super) fn store(&mut self, progress: Progress) {
        let words: Words<WORDS> = transmute!(progress);
        let _ = self.progress.set(0, words, 0);
    }

    pub(super) fn since(&mut self, process: ProcessId, now_unix_ns: u64) -> u64 {
        match self.processes.get(&process.pid, 0) {
            Ok([start_ns, since_unix_ns]) if start_ns == process.start_ns => since_unix_ns,
            _ => {
                let _ = self.processes.insert(process.pid, [process.start_ns, now_unix_ns], 0);
                now_unix_ns
            }
        }
    }

    pub(super) fn remove_process(&mut self, pid: u32) {
        let _ = self.processes.remove(&pid);
        let _ = self.descriptions.remove(&pid);
    }

    pub(super) fn describe(&mut self, pid: u32, description: &Description) {
        let _ = self.descriptions.insert(pid, description, 0);
    }

    pub(super) fn description(&self, pid: u32) -> Option<Description> {
        self.descriptions.get(&pid, 0).ok()
    }

    /// Adds the processes of another agent.
    pub(super) fn add_processes_of(&mut self, other: &Stored) {
        for (pid, since) in other.processes.iter().flatten() {
            let _ = self.processes.insert(pid, since, BPF_NOEXIST);
        }
        for (pid, description) in other.descriptions.iter().flatten() {
            let _ = self.descriptions.insert(pid, description, BPF_NOEXIST);
        }
    }

    pub(super) fn carried(&self) -> CarriedTotals {
        let all = self.carried.iter().flatten();
        CarriedTotals::of(all.map(|([pid, row], words)| ((pid, row as u16), transmute!(words))))
    }

    pub(super) fn carry(&mut self, pid: u32, row: u16, carried: &Carried) {
        let words: Words<CARRIED_WORDS> = transmute!(*carried);
        let _ = self.carried.insert([pid, u32::from(row)], words, 0);
    }

    pub(super) fn remove_carried(&mut self, pid: u32, row: u16) {
        let _ = self.carried.remove(&[pid, u32::from(row)]);
    }
}

fn open(dir: &Path, name: &str) -> io::Result<Map> {
    MapData::from_pin(dir.join(name)).and_then(Map::from_map_data).map_err(io::Error::other)
}
