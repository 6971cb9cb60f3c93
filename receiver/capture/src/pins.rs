//! Pinned maps and links: probes that outlive their agent, so that a restart or a crash of the agent loses no call.
//!
//! An agent pins what it loads and attaches in a directory of a bpf file system. Until the next agent starts, the
//! programs continue to count in the maps and to write to the ring. An agent with the same objects *adopts* them: it
//! opens the maps, and continues with the totals, the attached files and the records that the ring still holds.
//!
//! ```text
//!  /sys/fs/bpf/warptap        mode 0700, locked by its owner          root.rs
//!    /owner_PID_TIME          names the owner
//!    /ID                      named by a hash of what was loaded
//!      /maps/NAME             the maps of the kernel programs
//!      /hooks/{exec,exit}     links of the tracepoints
//!      /agent/{state,processes}   what a later agent must know        state.rs
//!      /files/FILE/{e0,…,r0,…}    links of a library file             files.rs
//!    /new                     a directory that is not complete yet, or not any more
//! ```
//!
//! An agent with other objects attaches its own programs before it removes those of the former agent
//! (`capture::hand_over`).
//!
//! Nothing stays attached without an owner: a process that the agent starts, its guard, removes the pins some time after
//! the agent has ended, unless another agent has become the owner ([`expire`]).

mod carried;
mod description;
pub(crate) mod expire;
mod files;
mod former;
mod root;
mod state;

use std::path::{Path, PathBuf};

use event::ProcessInfo;

use crate::cost::Calibration;
use crate::kernel::{Kernel, Load, MapSizes};
use crate::objects::OBJECT;
use crate::settings::{PinSettings, Settings};
use crate::{CaptureError, attach, clock, cost, proc};

pub(crate) use carried::{Carried, CarriedTotals};
pub(crate) use files::{AdoptedFile, PinnedFiles, Stamp};
pub(crate) use former::{Former, FormerMaps, process_id};
use root::Root;
use state::Stored;
pub(crate) use state::{Ending, Progress};

/// Name of a directory that is being filled.
const NEW: &str = "new";
/// Version of what this module stores. Change it when the meaning of stored values changes.
const VERSION: u64 = 4;

/// The pinned objects of this agent.
pub(crate) struct Pins {
    dir: PathBuf,
    stored: Stored,
    progress: Progress,
    is_adopted: bool,
    former: Option<Former>,
    root: Root,
}

fn failed(reason: impl ToString) -> CaptureError {
    CaptureError::Load { what: "pinned maps", reason: reason.to_string() }
}

/// Loads the programs, or adopts those of an earlier agent. Without a usable directory, nothing is pinned, which is
/// logged once.
pub(crate) fn load(settings: &Settings) -> Result<(Kernel, Option<Pins>), CaptureError> {
    if let Some(pin) = &settings.pin {
        match Root::own(&pin.path).and_then(|root| load_pinned(settings, pin, root)) {
            Ok((kernel, pins)) => return Ok((kernel, Some(pins))),
            Err(reason) => {
                tracing::info!(%reason, "probes are not pinned: calls are not counted while the agent restarts")
            }
        }
    }
    Ok((Kernel::load(&settings.sizes, settings.trace_all)?, None))
}

/// Loads with pins. If that fails, nothing stays pinned.
fn load_pinned(settings: &Settings, pin: &PinSettings, root: Root) -> Result<(Kernel, Pins), String> {
    let path = root.path().to_owned();
    load_in(settings, pin, root).inspect_err(|_| drop(root::remove_all(&path)))
}

fn load_in(settings: &Settings, pin: &PinSettings, root: Root) -> Result<(Kernel, Pins), String> {
    // First, so that nothing is pinned that would not expire.
    let owner = root.name_owner().map_err(|e| e.to_string())?;
    expire::start_guard(pin, &owner).map_err(|e| format!("cannot start the guard of the pins: {e}"))?;
    root.remove(NEW).map_err(|e| e.to_string())?;
    let name = id(settings);
    let dir = root.path().join(&name);
    if dir.exists() {
        match adopt(settings, &dir) {
            Ok((kernel, stored)) => {
                let former = former::open(&root, &name, Some(stored.progress().since_unix_ns));
                return Ok((kernel, Pins::new((dir, stored), true, root).after(former)));
            }
            Err(reason) => {
                tracing::warn!(%reason, "pinned probes cannot be adopted: calls are lost until they are attached again");
                root.remove(&name).map_err(|e| e.to_string())?;
            }
        }
    }
    let former = former::open(&root, &name, None);
    let (kernel, stored) = create(settings, &root.path().join(NEW)).map_err(|e| e.to_string())?;
    root.rename(NEW, &name).map_err(|e| e.to_string())?;
    Ok((kernel, Pins::new((dir, stored), false, root).after(former)))
}

fn adopt(settings: &Settings, dir: &Path) -> Result<(Kernel, Stored), CaptureError> {
    let stored = Stored::open(&dir.join("agent")).map_err(failed)?;
    let kernel = Kernel::load_as(&settings.sizes, settings.trace_all, Load::Adopted(dir))?;
    Ok((kernel, stored))
}

/// Loads the programs with maps that are pinned in `dir`, measures their cost, and stores what the next agent must know.
fn create(settings: &Settings, dir: &Path) -> Result<(Kernel, Stored), CaptureError> {
    for name in ["maps", "hooks", "agent", "files"] {
        root::make_dir(&dir.join(name)).map_err(failed)?;
    }
    let mut kernel = Kernel::load_as(&settings.sizes, settings.trace_all, Load::Pinned(dir))?;
    let attach = attach::best(&mut kernel);
    let Calibration { costs, links_processes } = cost::calibrate(&mut kernel, attach.as_ref());
    let mut progress = Progress {
        since_unix_ns: unix_ns(),
        launch_cost_ns: costs.launch_ns,
        timed_cost_ns: costs.timed_ns,
        links_processes: links_processes.into(),
        ..Progress::default()
    };
    // The record of this process, which the next agent must not take for a traced one.
    while kernel.ring.next().is_some() {
        progress.received += 1;
    }
    let stored = Stored::create(&dir.join("agent"), settings.sizes.processes, progress).map_err(failed)?;
    Ok((kernel, stored))
}

/// Returns the time, ns since 1970.
fn unix_ns() -> u64 {
    clock::now_ns().saturating_add_signed(clock::offsets().to_unix_ns)
}

/// Returns the name of what these settings load: agents with the same name adopt each other's probes.
fn id(settings: &Settings) -> String {
    let MapSizes { ring_bytes, streams, processes, threads, filter } = settings.sizes;
    let flags = u64::from(settings.trace_all) | u64::from(settings.collectives) << 1;
    let sizes = [ring_bytes, streams, processes, threads, filter].map(u64::from);
    let numbers = [VERSION, flags].into_iter().chain(sizes);
    let pids = settings.pids.iter().map(|pid| u64::from(*pid));
    let settings = numbers.chain(pids).flat_map(u64::to_ne_bytes);
    format!("{:016x}", hash(OBJECT.iter().copied().chain(settings)))
}

/// Returns the 64-bit FNV-1a hash, which is equal on every run and version.
fn hash(bytes: impl Iterator<Item = u8>) -> u64 {
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

impl Pins {
    fn new((dir, stored): (PathBuf, Stored), is_adopted: bool, root: Root) -> Pins {
        let progress = stored.progress();
        Pins { dir, stored, progress, is_adopted, former: None, root }
    }

    fn after(mut self, former: Option<Former>) -> Pins {
        self.former = former;
        self
    }

    /// Returns the pins of an agent with other objects. The processes that it counted keep the time since when they are
    /// counted.
    pub(crate) fn take_former(&mut self) -> Option<Former> {
        let former = self.former.take()?;
        if let Some(maps) = &former.maps {
            self.stored.add_processes_of(&maps.stored);
        }
        Some(former)
    }

    /// Removes the pins of a former agent, whose programs are then detached.
    pub(crate) fn release(&self, former: &Former) {
        former::release(&self.root, former);
    }

    /// Returns the totals that former agents counted.
    pub(crate) fn carried(&self) -> CarriedTotals {
        self.stored.carried()
    }

    /// Stores the totals that a former agent counted of a function.
    pub(crate) fn carry(&mut self, pid: u32, row: u16, carried: &Carried) {
        self.stored.carry(pid, row, carried);
    }

    /// Removes the totals that a former agent counted of a process.
    pub(crate) fn remove_carried(&mut self, pid: u32, rows: &[u16]) {
        rows.iter().for_each(|row| self.stored.remove_carried(pid, *row));
    }

    /// Returns the progress of the agent before, if its probes were adopted.
    pub(crate) fn adopted(&self) -> Option<Progress> {
        self.is_adopted.then_some(self.progress)
    }

    /// Returns where links of files are pinned.
    pub(crate) fn files(&self) -> PinnedFiles {
        PinnedFiles::new(self.dir.join("files"))
    }

    /// Returns what is stored.
    pub(crate) fn progress(&self) -> Progress {
        self.progress
    }

    /// Stores the progress of this agent, which is one atomic change.
    pub(crate) fn store(&mut self, progress: Progress) {
        if progress != self.progress {
            self.progress = progress;
            self.stored.store(progress);
        }
    }

    /// Returns since when a process is counted, ns since 1970: from now on, if that was not stored before.
    pub(crate) fn since(&mut self, process: event::ProcessId) -> u64 {
        self.stored.since(process, unix_ns())
    }

    /// Stores the description of a process, or completes it from the stored one if the process has ended.
    pub(crate) fn describe(&mut self, info: &mut ProcessInfo) {
        let process = info.process;
        match proc::is_running(process) {
            true => self.stored.describe(process.pid, &description::encode(info)),
            false => {
                if let Some(stored) = self.stored.description(process.pid) {
                    description::decode(&stored, process, info);
                }
            }
        }
    }

    /// Returns true if the description of a process is stored.
    pub(crate) fn has_described(&self, pid: u32) -> bool {
        self.stored.description(pid).is_some()
    }

    /// Removes what is stored of a process.
    pub(crate) fn remove_process(&mut self, pid: u32) {
        self.stored.remove_process(pid);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_objects_have_another_id() {
        let settings = Settings::default();
        let other = [
            Settings { sizes: MapSizes { streams: 7, ..settings.sizes }, ..settings.clone() },
            Settings { sizes: MapSizes { ring_bytes: 4_096, ..settings.sizes }, ..settings.clone() },
            Settings { collectives: false, ..settings.clone() },
            Settings { trace_all: false, ..settings.clone() },
            Settings { pids: vec![7], ..settings.clone() },
        ];
        let mut ids: Vec<String> = other.iter().chain([&settings]).map(id).collect();
        ids.sort();
        ids.dedup();
        assert_eq!(ids.len(), 6);
        assert_eq!(id(&settings), id(&Settings { linger_ns: 1, totals_every_ns: 1, ..settings.clone() }));
    }
}
