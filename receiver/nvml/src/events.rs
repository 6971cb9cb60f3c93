//! XID events: registration of devices, and waiting for the next event.
//!
//! All devices are in one event set, which is recreated when the devices change. A device that cannot be registered
//! invalidates the set, so it is left out of the next one.

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

/// The source of XID events.
#[derive(Default)]
pub(crate) struct Events<'nvml> {
    set: Option<EventSet<'nvml>>,
    /// Devices of the set by their numbers, including those that could not be registered.
    of: BTreeMap<u32, String>,
    /// The set only returned errors; it is created again after the next poll.
    is_broken: bool,
}

impl Events<'_> {
    /// Allows a failed set to be created again; called after each poll.
    pub(crate) fn retry(&mut self) {
        self.is_broken = false;
    }
}

impl<'nvml> Open<'nvml> {
    /// Waits for the next event of the devices that answer.
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

    /// Waits for the next event of the set.
    fn next(&mut self, at_most: Duration) -> Option<Incident> {
        let Some(set) = &self.events.set else {
            thread::park_timeout(at_most);
            return None;
        };
        match set.wait(u32::try_from(at_most.as_millis()).unwrap_or(u32::MAX)) {
            Ok(event) => {
                let Some(XidError::Value(number)) = event.event_data else { return None };
                Some(incident(self.device_id(&event.device), number))
            }
            Err(NvmlError::Timeout) => None,
            Err(_) => {
                self.events = Events { is_broken: true, ..Events::default() };
                None
            }
        }
    }

    /// Returns the id of the device of an event. A device that fell off the bus reports the event without an identity: it
    /// is the only one that does not answer.
    fn device_id(&self, device: &Device<'_>) -> String {
        device.uuid().unwrap_or_else(|_| {
            let is_silent = |index| self.nvml.device_by_index(index).and_then(|d| d.uuid()).is_err();
            self.devices.only(is_silent)
        })
    }

    /// Creates the event set of these devices, leaving out those that cannot be registered.
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

    /// Creates an event set.
    ///
    /// # Errors
    /// The device that cannot be registered, or `None` if events are not supported.
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
