//! What the driver tells by itself: which devices are watched, and the next that it tells.

use std::collections::BTreeMap;
use std::thread;
use std::time::Duration;

use hardware::{Fault, Incident};
use opentelemetry::logs::Severity;
use semconv::value::GpuHardwareNotification as Kind;
use semconv::{attribute, event};

use crate::library::{Handle, Notification, Smi};

/// The kinds that are watched: their numbers, which further kinds changed from version to version, how grave they are,
/// what they say, and what they are counted as.
const KINDS: [(u64, Kind, Severity, &str, Option<&str>); 4] = [
    (1, Kind::VmFault, Severity::Warn, "reports a memory fault of a program", Some("vm_fault")),
    (2, Kind::ThermalThrottle, Severity::Warn, "slows down because it is too hot", None),
    (3, Kind::ResetBegin, Severity::Error, "is about to be reset", Some("reset")),
    (4, Kind::ResetEnd, Severity::Info, "was reset", None),
];

/// A bit of each kind that is watched.
const MASK: u64 = 0b1111;

/// Who is watched.
#[derive(Debug, Default)]
pub(crate) struct Events {
    /// Those that answered when they were asked to tell, and whether they do.
    of: BTreeMap<Handle, bool>,
}

impl Events {
    /// The next event of these devices, waited for. A device that refuses is not asked again while it is there.
    pub(crate) fn next(
        &mut self,
        smi: &Smi,
        ids: &BTreeMap<Handle, String>,
        at_most: Duration,
    ) -> Option<Incident> {
        self.watch(smi, ids);
        if !self.of.values().any(|is_watched| *is_watched) {
            thread::park_timeout(at_most);
            return None;
        }
        match smi.next(at_most) {
            Ok(told) => incident(ids.get(&told.device)?.clone(), &told),
            // There was nothing, after the time that it was waited.
            Err(Fault::Failed("no_data" | "timeout")) => None,
            Err(_) => {
                thread::park_timeout(at_most);
                None
            }
        }
    }

    fn watch(&mut self, smi: &Smi, ids: &BTreeMap<Handle, String>) {
        for (device, _) in self.of.extract_if(.., |device, _| !ids.contains_key(device)) {
            // A device that is gone may refuse: it tells nothing either way.
            let _ = smi.forget(device);
        }
        for device in ids.keys() {
            self.of.entry(*device).or_insert_with(|| smi.watch(*device, MASK).is_ok());
        }
    }
}

/// None for a kind that nobody asked for.
fn incident(device: String, told: &Notification) -> Option<Incident> {
    let (_, kind, severity, text, error) = KINDS.iter().find(|(number, ..)| *number == told.event)?;
    let message = if told.message.is_empty() { String::new() } else { format!(": {}", told.message) };
    Some(Incident {
        device,
        event: event::GPU_HARDWARE_NOTIFICATION,
        severity: *severity,
        text: format!("{text}{message}"),
        which: (attribute::GPU_HARDWARE_NOTIFICATION, kind.as_str().to_owned()),
        error: *error,
    })
}
