//! State of one device over time: its sums with their start times, logged events, and whether it still answers.
//!
//! The driver's counters are absolute and restart when the driver is reloaded. A counter that is smaller than before has
//! restarted after the last poll, and so has its series; nothing counted since is left out. The start of the first
//! series is unknown, so it starts at its first point, as the OpenTelemetry data model specifies.

use std::collections::{BTreeMap, BTreeSet};

use semconv::value::GpuHardwareThrottleReason as Reason;

use crate::driver::{Fault, Identity, Incident, Reading};
use crate::queries::{DriverQuery, QUERY_COUNT};
use crate::throttle::Reasons;

/// Maximum number of error kinds per device that are counted separately; further kinds are counted as [`OTHER`].
const KINDS_MAX: usize = 16;
/// Attribute value of error kinds above the limit.
const OTHER: &str = "other";
/// Maximum time that one observed throttle state counts for, since polls may have been skipped.
const THROTTLED_NS_MAX: u64 = 60_000_000_000;

/// A counter of the driver.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sum {
    /// Start time, ns since 1970.
    pub(crate) start: u64,
    /// Value of the latest poll.
    pub(crate) last: u64,
}

/// A state change of a device that is logged.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) enum DeviceEvent {
    QueryRecovered(DriverQuery),
    Errors { kind: &'static str, count: u64 },
    Removed,
    Incident(Incident),
    Lost(&'static str),
    Recovered,
    Discovered { unsupported: Vec<&'static str> },
    QueryFailed(DriverQuery, &'static str),
}

/// A kind of reported error: its `error.type`, and the distinguishing attribute and value.
pub(crate) type Kind = (&'static str, &'static str, String);

/// The state of one device.
#[derive(Clone, Debug)]
pub(crate) struct DeviceState {
    pub(crate) identity: Identity,
    /// Time of discovery, ns since 1970.
    pub(crate) since: u64,
    /// Time of the latest poll, ns since 1970.
    pub(crate) at: u64,
    pub(crate) sums: [Option<Sum>; QUERY_COUNT],
    /// Errors reported by the device itself.
    pub(crate) reported: BTreeMap<Kind, u64>,
    /// Observed throttled time by reason, ns.
    pub(crate) throttled_ns: [u64; Reason::ALL.len()],
    reasons: Reasons,
    is_seen: bool,
    is_lost: bool,
    pub(crate) is_gone: bool,
    answered: BTreeSet<DriverQuery>,
    silent: BTreeSet<DriverQuery>,
}

impl DeviceState {
    /// Returns the state of a newly discovered device.
    pub(crate) fn new(identity: Identity, at: u64) -> DeviceState {
        DeviceState {
            identity,
            since: at,
            at,
            sums: [None; QUERY_COUNT],
            reported: BTreeMap::new(),
            throttled_ns: [0; Reason::ALL.len()],
            reasons: Reasons::default(),
            is_seen: false,
            is_lost: false,
            is_gone: false,
            answered: BTreeSet::new(),
            silent: BTreeSet::new(),
        }
    }

    /// Updates the state from a reading and returns the changes to log.
    pub(crate) fn take(&mut self, reading: &Reading, at: u64) -> Vec<DeviceEvent> {
        let mut events = Vec::new();
        self.appear(reading, &mut events);
        if !self.is_lost {
            self.add_up(reading, at, &mut events);
            self.add_throttled(reading, at);
            self.query_changes(reading, &mut events);
        }
        self.at = at;
        events
    }

    /// Marks the device as removed; returns the change unless it was removed before.
    pub(crate) fn leave(&mut self) -> Option<DeviceEvent> {
        self.reasons = Reasons::default();
        (!std::mem::replace(&mut self.is_gone, true)).then_some(DeviceEvent::Removed)
    }

    /// Counts an incident and returns it for the log.
    pub(crate) fn report(&mut self, incident: &Incident) -> DeviceEvent {
        if let Some(error) = incident.error {
            let (key, value) = incident.which.clone();
            let kind = (error, key, value);
            let has_capacity = self.reported.len() < KINDS_MAX || self.reported.contains_key(&kind);
            let kind = if has_capacity { kind } else { (error, key, OTHER.to_owned()) };
            *self.reported.entry(kind).or_default() += 1;
        }
        DeviceEvent::Incident(incident.clone())
    }

    fn appear(&mut self, reading: &Reading, events: &mut Vec<DeviceEvent>) {
        let was_away = std::mem::take(&mut self.is_gone) || self.is_lost;
        match reading.lost() {
            Some(why) => {
                self.reasons = Reasons::default();
                if !std::mem::replace(&mut self.is_lost, true) {
                    events.push(DeviceEvent::Lost(why));
                }
            }
            None => {
                self.is_lost = false;
                self.identity = reading.identity.clone();
                if !std::mem::replace(&mut self.is_seen, true) {
                    events.push(DeviceEvent::Discovered { unsupported: unsupported(reading) });
                } else if was_away {
                    events.push(DeviceEvent::Recovered);
                }
            }
        }
    }

    fn add_up(&mut self, reading: &Reading, at: u64, events: &mut Vec<DeviceEvent>) {
        for query in DriverQuery::ALL {
            let row = query.row();
            let (true, Ok(value)) = (row.mapping.is_sum(), reading.value(query)) else { continue };
            let grown = self.grow(query, value, at);
            let kind = row.attributes.iter().find(|(key, _)| *key == semconv::attribute::ERROR_TYPE);
            if let (Some((_, kind)), 1..) = (kind, grown) {
                events.push(DeviceEvent::Errors { kind, count: grown });
            }
        }
    }

    /// Updates a sum and returns its increase.
    fn grow(&mut self, query: DriverQuery, value: u64, at: u64) -> u64 {
        let before = self.at;
        let sum = self.sums[query as usize].get_or_insert(Sum { start: at, last: value });
        let grown = value.checked_sub(sum.last).unwrap_or_else(|| {
            sum.start = before;
            value
        });
        sum.last = value;
        grown
    }

    /// Adds the time since the last poll to the throttle reasons that were active then.
    fn add_throttled(&mut self, reading: &Reading, at: u64) {
        let passed = at.saturating_sub(self.at).min(THROTTLED_NS_MAX);
        for (throttled, reason) in self.throttled_ns.iter_mut().zip(Reason::ALL) {
            if self.reasons.has(reason) {
                *throttled += passed;
            }
        }
        self.reasons = reading.reasons().unwrap_or_default();
    }

    fn query_changes(&mut self, reading: &Reading, events: &mut Vec<DeviceEvent>) {
        for query in DriverQuery::ALL {
            let why = match reading.value(query) {
                Ok(_) => {
                    self.answered.insert(query);
                    if self.silent.remove(&query) {
                        events.push(DeviceEvent::QueryRecovered(query));
                    }
                    continue;
                }
                Err(Fault::NotQueried) => continue,
                Err(Fault::Unsupported) if !self.answered.contains(&query) => continue,
                Err(fault) => fault.name(),
            };
            if self.silent.insert(query) {
                events.push(DeviceEvent::QueryFailed(query, why));
            }
        }
    }
}

fn unsupported(reading: &Reading) -> Vec<&'static str> {
    let is_not = |query: &DriverQuery| reading.value(*query) == Err(Fault::Unsupported);
    DriverQuery::ALL.into_iter().filter(is_not).map(DriverQuery::name).collect()
}
