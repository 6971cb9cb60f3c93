//! The driver through libnvidia-ml.
//!
//! A query without a function in the library, because the library is older, is unsupported.
//!
//! | query | since driver |
//! |---|---|
//! | most | 450 |
//! | memory in use without the driver's own | 510 |
//! | PCIe bytes, time by throttle reason | 560, and only where it counts in 64 bits |

use std::ffi::OsString;
use std::time::Duration;

use hardware::{Driver, Fault, Identity, Incident, Reading, Roster, Session};
use nvml_wrapper::{Device, Nvml};

use crate::events::Events;
use crate::fault::{fault, lost};
use crate::query::{instances, read, read_clocks};

/// The library of NVIDIA's driver.
#[derive(Clone, Debug)]
pub struct NvmlLibrary {
    /// File name for the loader, or a path.
    pub path: OsString,
}

impl Default for NvmlLibrary {
    fn default() -> Self {
        NvmlLibrary { path: "libnvidia-ml.so.1".into() }
    }
}

impl Driver for NvmlLibrary {
    fn open(&mut self, work: &mut dyn FnMut(&mut dyn Session)) -> Result<(), Fault> {
        let nvml = Nvml::builder().lib_path(&self.path).init().map_err(fault)?;
        let driver = nvml.sys_driver_version().unwrap_or_default();
        work(&mut Open { nvml: &nvml, devices: Roster::new(driver), events: Events::default() });
        Ok(())
    }
}

/// An initialised library.
pub(crate) struct Open<'nvml> {
    pub(crate) nvml: &'nvml Nvml,
    pub(crate) devices: Roster,
    pub(crate) events: Events<'nvml>,
}

impl Session for Open<'_> {
    fn read(&mut self) -> Result<Vec<Reading>, Fault> {
        let count = self.nvml.device_count().map_err(fault)?;
        self.devices.list(count as usize);
        let mut readings = Vec::new();
        for index in 0..count {
            self.device(index, &mut readings);
        }
        self.events.retry();
        Ok(readings)
    }

    fn read_clocks(&mut self, with_processes: bool) -> Result<Vec<Reading>, Fault> {
        let count = self.nvml.device_count().map_err(fault)?;
        let of = |index| {
            let device = self.nvml.device_by_index(index).and_then(|device| Ok((device.uuid()?, device)));
            device.map_or_else(
                |error| Reading::silent(self.devices.remembered(index), lost(error)),
                |(id, device)| read_clocks(Identity { id, ..Identity::default() }, &device, with_processes),
            )
        };
        Ok((0..count).map(of).collect())
    }

    fn wait(&mut self, at_most: Duration) -> Option<Incident> {
        self.next_event(at_most)
    }
}

impl Open<'_> {
    /// Reads a device and its MIG instances.
    fn device(&mut self, index: u32, into: &mut Vec<Reading>) {
        let found = self.nvml.device_by_index(index).and_then(|device| Ok((device.uuid()?, device)));
        let (id, device) = match found {
            Ok(found) => found,
            Err(error) => return into.push(Reading::silent(self.devices.silence(index), lost(error))),
        };
        let identity = self.devices.identify(index, id, || identity(&device));
        into.push(read(identity.clone(), &device));
        if device.mig_mode().is_ok_and(|mode| mode.current == 1) {
            instances(&identity, &device, into);
        }
    }
}

/// Reads the identity of a device.
fn identity(device: &Device<'_>) -> Identity {
    Identity {
        model: device.name().unwrap_or_default(),
        serial: device.serial().unwrap_or_default(),
        firmware: device.vbios_version().unwrap_or_default(),
        pci: device.pci_info().map(|pci| pci.bus_id).unwrap_or_default(),
        ..Identity::default()
    }
}
