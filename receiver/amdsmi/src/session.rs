//! The driver through libamd_smi: its devices, their identities, and which of them are lost.
//!
//! The library lists devices once, when it is initialised; a lost device stays listed and answers no query. A device
//! whose identity cannot be read is lost.
//!
//! | query | since |
//! |---|---|
//! | all | ROCm 6.4, library 25 |
//! | time by throttle reason | the same, and only of an MI300 or newer |
//!
//! Library 26 belongs to ROCm 7, 27 to its successor. Other versions are refused, since their layouts are unknown.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::time::Duration;

use hardware::{Driver, Fault, Identity, Incident, Process, Reading, Roster, Session};

use crate::events::Events;
use crate::library::{Handle, Smi};
use crate::query::{identity, pci, read, read_clocks};
use crate::throttle::Residency;

/// Names and paths that are tried in this order; ROCm's own folder is not always known to the loader.
const PATHS: [&str; 5] = [
    "libamd_smi.so.27",
    "libamd_smi.so.26",
    "libamd_smi.so.25",
    "libamd_smi.so",
    "/opt/rocm/lib/libamd_smi.so",
];

/// The library of AMD's driver, by its possible paths.
#[derive(Clone, Debug)]
pub struct AmdsmiLibrary {
    /// File names for the loader, or paths; the first that exists is used.
    pub paths: Vec<OsString>,
}

impl Default for AmdsmiLibrary {
    fn default() -> Self {
        AmdsmiLibrary { paths: PATHS.map(OsString::from).to_vec() }
    }
}

impl AmdsmiLibrary {
    /// Returns the library at `path` only.
    pub fn at(path: impl Into<OsString>) -> AmdsmiLibrary {
        AmdsmiLibrary { paths: vec![path.into()] }
    }
}

impl Driver for AmdsmiLibrary {
    fn open(&mut self, work: &mut dyn FnMut(&mut dyn Session)) -> Result<(), Fault> {
        let smi = Smi::open(&self.paths)?;
        work(&mut Open { smi, devices: Roster::default(), held: BTreeMap::new(), events: Events::default() });
        Ok(())
    }
}

/// An initialised library.
struct Open {
    smi: Smi,
    devices: Roster,
    /// Throttle counters of each device.
    held: BTreeMap<Handle, Residency>,
    events: Events,
}

/// A listed device and its reported id.
struct Gpu {
    handle: Handle,
    id: Result<String, Fault>,
}

impl Session for Open {
    fn read(&mut self) -> Result<Vec<Reading>, Fault> {
        let gpus = self.gpus()?;
        self.devices.list(gpus.len());
        let Open { smi, devices, held, .. } = self;
        let of = |(index, Gpu { handle, id })| match id {
            Ok(id) => {
                let identity = devices.identify(index, id, || identity(smi, handle));
                read(smi, handle, identity, held.entry(handle).or_default())
            }
            Err(why) => Reading::silent(devices.silence(index), Fault::Lost(why.name())),
        };
        Ok((0..).zip(gpus).map(of).collect())
    }

    fn read_clocks(&mut self, with_processes: bool) -> Result<Vec<Reading>, Fault> {
        let gpus = self.gpus()?;
        let Open { smi, devices, held, .. } = self;
        let of = |(index, Gpu { handle, id })| match id {
            Ok(id) => {
                let pci = if with_processes { pci(smi, handle) } else { String::new() };
                let identity = Identity { id, pci, ..Identity::default() };
                let mut reading = read_clocks(smi, handle, identity, held.entry(handle).or_default());
                if with_processes {
                    let of = |(pid, _)| Process::numbered(pid);
                    reading.processes =
                        smi.processes(handle).unwrap_or_default().into_iter().map(of).collect();
                }
                reading
            }
            Err(why) => Reading::silent(devices.remembered(index), Fault::Lost(why.name())),
        };
        Ok((0..).zip(gpus).map(of).collect())
    }

    fn wait(&mut self, at_most: Duration) -> Option<Incident> {
        let answering = self.devices.answering();
        let handles = self.smi.gpus().unwrap_or_default();
        let id = |(index, handle)| Some((handle, answering.get(&index)?.clone()));
        let ids = (0..).zip(handles).filter_map(id).collect();
        self.events.next(&self.smi, &ids, at_most)
    }
}

impl Open {
    /// Returns the devices with their ids. Partitions of one device may share its id; those after the first get their
    /// position in the list appended.
    fn gpus(&self) -> Result<Vec<Gpu>, Fault> {
        let mut seen = BTreeMap::<String, u32>::new();
        let mut own = |id: String| {
            let before = seen.entry(id.clone()).or_default();
            *before += 1;
            if *before == 1 { id } else { format!("{id}/{}", *before - 1) }
        };
        let of = |handle| Gpu { handle, id: self.smi.uuid(handle).map(&mut own) };
        Ok(self.smi.gpus()?.into_iter().map(of).collect())
    }
}
