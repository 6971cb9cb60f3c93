//! Samples of the clocks of GPUs, as events.
//!
//! Two consecutive samples give the time for which each reason throttled the clocks between them: by the driver's own
//! counter if it has one, otherwise the whole interval if the first sample saw the reason.

use std::collections::BTreeMap;

use event::{Clocks, Device, Event, ThrottleReason, ThrottleTime};

use crate::driver::{Process, Reading};
use crate::queries::duration_query;
use crate::throttle::Reasons;

/// The latest sample of each device.
#[derive(Debug, Default)]
pub struct ClockSamples {
    devices: BTreeMap<u32, Sample>,
}

/// A sample of one device.
#[derive(Debug)]
struct Sample {
    device: Device,
    at_ns: u64,
    reasons: Reasons,
    /// Throttle time by reason as counted by the driver, in the order of [`ThrottleReason::ALL`].
    counted_ns: [Option<u64>; ThrottleReason::ALL.len()],
}

impl ClockSamples {
    /// Returns the events of a sample of all devices: new or changed devices, and the clocks since the previous sample.
    /// `with_processes` is true if the readings contain processes.
    pub fn sample(&mut self, at_ns: u64, readings: &[Reading], with_processes: bool) -> Vec<Event> {
        let mut events = Vec::new();
        for (index, reading) in (0..).zip(readings) {
            if reading.lost().is_some() {
                // Its clocks since the previous sample are unknown.
                self.devices.remove(&index);
                continue;
            }
            let before = self.devices.remove(&index).filter(|last| last.device.id == reading.identity.id);
            let device = device(index, at_ns, reading, before.as_ref(), with_processes);
            if before.as_ref().is_none_or(|last| has_changed(&last.device, &device)) {
                events.push(Event::Device(Box::new(device.clone())));
            }
            let reasons = reading.reasons().unwrap_or_default();
            let now = Sample { device, at_ns, reasons, counted_ns: counted(reading) };
            events.extend(before.map(|before| Event::Clocks(between(index, &before, &now))));
            self.devices.insert(index, now);
        }
        events
    }
}

/// Returns the device of a reading. Processes are queried less often than clocks; without them those of the previous
/// sample are used.
fn device(
    index: u32,
    at_ns: u64,
    reading: &Reading,
    before: Option<&Sample>,
    with_processes: bool,
) -> Device {
    let id = reading.identity.id.clone();
    match before {
        Some(last) if !with_processes => Device { at_ns, ..last.device.clone() },
        _ => {
            let mut processes: Vec<u32> = reading.processes.iter().map(Process::pid).collect();
            processes.sort_unstable();
            Device { at_ns, index, id, pci: reading.identity.pci.clone(), processes }
        }
    }
}

fn has_changed(before: &Device, now: &Device) -> bool {
    before.processes != now.processes || before.pci != now.pci
}

fn counted(reading: &Reading) -> [Option<u64>; ThrottleReason::ALL.len()] {
    let ns = |query| reading.value(query).ok();
    ThrottleReason::ALL.map(|reason| duration_query(reason).and_then(ns))
}

/// Returns the throttle times between two samples.
fn between(device: u32, before: &Sample, now: &Sample) -> Clocks {
    let length_ns = now.at_ns.saturating_sub(before.at_ns);
    let throttled = ThrottleReason::ALL.into_iter().enumerate().filter_map(|(at, reason)| {
        let (ns, is_counted) = match (before.counted_ns[at], now.counted_ns[at]) {
            // A counter that restarted contains the time since then, at most the time between the samples.
            (Some(before), Some(now)) => (now.checked_sub(before).unwrap_or(now), true),
            _ if before.reasons.has(reason) => (length_ns, false),
            _ => return None,
        };
        let ns = ns.min(length_ns);
        (ns > 0).then_some(ThrottleTime { reason, ns, is_counted })
    });
    Clocks { from_ns: before.at_ns, to_ns: now.at_ns, device, throttled: throttled.collect() }
}
