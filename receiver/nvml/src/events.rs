//! XIDs: which devices tell of them, and waiting for the next.
//!
//! The one idea: all devices are in one set, which is made anew when they are others. A device that refuses takes the
//! set with it, so it is left out of the next.

use std::collections::BTreeMap;
use std::thread;
use std::time::Duration;

use hardware::Incident;
use nvml_wrapper::bitmasks::event::EventTypes;
use nvml_wrapper::enums::event::XidError;
use nvml_wrapper::error::NvmlError;
use nvml_wrapper::{Device, EventSet};

use crate::session::Open;
use crate::xid::incident;

/// Where XIDs come from.
#[derive(Default)]
pub(crate) struct Events<'nvml> {
    set: Option<EventSet<'nvml>>,
    /// The devices that were asked to tell, by their numbers; those that refuse among them.
    of: BTreeMap<u32, String>,
    /// Nothing came but errors: it is asked again behind the next pass.
    is_broken: bool,
}

impl Events<'_> {
    /// A pass is over: what did not work may work now.
    pub(crate) fn retry(&mut self) {
        self.is_broken = false;
    }
}

impl<'nvml> Open<'nvml> {
    /// The next event, waited for, of all devices that answer now.
    pub(crate) fn next_event(&mut self, at_most: Duration) -> Option<Incident> {
        let answering = self.devices.answering();
        let is_stale = self.events.of != answering && !self.events.is_broken;
        if let Some(incident) = self.next(if is_stale { Duration::ZERO } else { at_most }) {
            return Some(incident);
        }
        if is_stale {
            self.register(answering);
            return self.next(at_most);
        }
        None
    }

    /// The next event of the set, waited for.
    fn next(&mut self, at_most: Duration) -> Option<Incident> {
        let Some(set) = &self.events.set else {
            thread::park_timeout(at_most);
            return None;
        };
        match set.wait(u32::try_from(at_most.as_millis()).unwrap_or(u32::MAX)) {
            Ok(event) => {
                let Some(XidError::Value(number)) = event.event_data else { return None };
                Some(incident(self.whose(&event.device), number))
            }
            Err(NvmlError::Timeout) => None,
            Err(_) => {
                self.events = Events { is_broken: true, ..Events::default() };
                None
            }
        }
    }

    /// A device that fell off the bus reports that, and then does not say who it is: of those that do not answer now,
    /// it is the one.
    fn whose(&self, device: &Device<'_>) -> String {
        device.uuid().unwrap_or_else(|_| {
            let is_silent = |index| self.nvml.device_by_index(index).and_then(|d| d.uuid()).is_err();
            self.devices.only(is_silent)
        })
    }

    /// A set of the events of all devices that tell of any. A device that refuses takes the set with it.
    fn register(&mut self, of: BTreeMap<u32, String>) {
        let mut telling: Vec<u32> = of.keys().copied().collect();
        let mut set = None;
        while set.is_none() && !telling.is_empty() {
            match self.set_of(&telling) {
                Ok(made) => set = Some(made),
                Err(None) => break,
                Err(Some(refusing)) => telling.retain(|index| *index != refusing),
            }
        }
        self.events = Events { set, of, is_broken: false };
    }

    /// The error is the device that refuses, or none where there are no events at all.
    fn set_of(&self, indices: &[u32]) -> Result<EventSet<'nvml>, Option<u32>> {
        let mut set = self.nvml.create_event_set().map_err(|_| None)?;
        for index in indices {
            let device = self.nvml.device_by_index(*index).map_err(|_| Some(*index))?;
            let registered = device.register_events(EventTypes::CRITICAL_XID_ERROR, set);
            set = registered.map_err(|_| Some(*index))?;
        }
        Ok(set)
    }
}
