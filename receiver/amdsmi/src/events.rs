//! Notifications of the driver: which devices are watched, and waiting for the next one.

use std::collections::BTreeMap;
use std::thread;
use std::time::Duration;

use hardware::{Fault, Incident};
use opentelemetry::logs::Severity;
use semconv::value::GpuHardwareNotification as Kind;
use semconv::{attribute, event};

use crate::library::{Handle, Notification, Smi};

/// The watched kinds: number, severity, text, and the `error.type` they are counted as. The numbers of other kinds differ
/// between versions.
const KINDS: [(u64, Kind, Severity, &str, Option<&str>); 4] = [
    (1, Kind::VmFault, Severity::Warn, "reports a memory fault of a program", Some("vm_fault")),
    (2, Kind::ThermalThrottle, Severity::Warn, "slows down because it is too hot", None),
    (3, Kind::ResetBegin, Severity::Error, "is about to be reset", Some("reset")),
    (4, Kind::ResetEnd, Severity::Info, "was reset", None),
];

/// Mask with one bit per watched kind.
const MASK: u64 = 0b1111;

/// The watched devices.
#[derive(Debug, Default)]
pub(crate) struct Events {
    /// Devices for which watching was requested, and whether it succeeded.
    of: BTreeMap<Handle, bool>,
}

impl Events {
    /// Waits for the next event of these devices. A device that cannot be watched is not tried again while it is listed.
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
            Ok(notification) => incident(ids.get(&notification.device)?.clone(), &notification),
            // No event within the time.
            Err(Fault::Failed("no_data" | "timeout")) => None,
            Err(_) => {
                thread::park_timeout(at_most);
                None
            }
        }
    }

    fn watch(&mut self, smi: &Smi, ids: &BTreeMap<Handle, String>) {
        for (device, _) in self.of.extract_if(.., |device, _| !ids.contains_key(device)) {
            // This may fail for a removed device, which sends no events anyway.
            let _ = smi.unwatch(device);
        }
        for device in ids.keys() {
            self.of.entry(*device).or_insert_with(|| smi.watch(*device, MASK).is_ok());
        }
    }
}

/// Converts a notification; returns `None` for a kind that is not watched.
fn incident(device: String, notification: &Notification) -> Option<Incident> {
    let (_, kind, severity, text, error) = KINDS.iter().find(|(number, ..)| *number == notification.event)?;
    let message =
        if notification.message.is_empty() { String::new() } else { format!(": {}", notification.message) };
    Some(Incident {
        device,
        event: event::GPU_HARDWARE_NOTIFICATION,
        severity: *severity,
        text: format!("{text}{message}"),
        which: (attribute::GPU_HARDWARE_NOTIFICATION, kind.as_str().to_owned()),
        error: *error,
    })
}
