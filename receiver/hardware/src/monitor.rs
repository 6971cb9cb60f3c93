//! Conversion of polls to telemetry: values to metrics, state changes to log records.
//!
//! The monitor has no clock, thread or driver. A poll carries its time and values, and the same polls give the same bytes.
//!
//! Bounds: devices ([`DEVICES_MAX`]; removed ones are evicted first), error kinds per device, and processes
//! ([`Settings::processes_max`]; those that use most memory first, the others are counted).

use std::collections::BTreeMap;
use std::time::Duration;

use instrumentation::{Records, Sink, metrics, resource_metrics, take_records};
use opentelemetry::InstrumentationScope;
use opentelemetry_proto::tonic::metrics::v1::ResourceMetrics;
use opentelemetry_proto::tonic::resource::v1::Resource;
use semconv::{attribute, metric};

use crate::device_points::device_points;
use crate::device_state::{DeviceEvent, DeviceState};
use crate::driver::{Fault, Identity, Incident, Reading, Vendor};
use crate::log_events;
use crate::points::Points;
use crate::users::{User, users};

/// Maximum number of devices, including partitions.
const DEVICES_MAX: usize = 256;

/// Settings of a monitor.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Resource attributes of the machine.
    pub host: Vec<(String, String)>,
    /// Maximum number of processes with series.
    pub processes_max: usize,
}

impl Default for Settings {
    fn default() -> Self {
        Settings { host: Vec::new(), processes_max: 64 }
    }
}

/// One poll of a driver.
#[derive(Clone, Debug)]
pub struct DriverPoll {
    /// Time of the poll, ns since 1970.
    pub at_unix_ns: u64,
    /// Duration of the poll.
    pub took: Duration,
    /// The reading of each device.
    pub readings: Vec<Reading>,
}

/// The state of the devices of a machine.
#[derive(Debug)]
pub struct Monitor {
    vendor: Vendor,
    settings: Settings,
    scope: InstrumentationScope,
    resource: Resource,
    records: Records,
    devices: BTreeMap<String, DeviceState>,
    failures: BTreeMap<&'static str, u64>,
    since: Option<u64>,
}

impl Monitor {
    /// Returns a monitor without devices.
    pub fn new(vendor: Vendor, settings: Settings) -> Monitor {
        let scope = instrumentation::scope(vendor.scope);
        Monitor {
            vendor,
            resource: instrumentation::encoded(&instrumentation::receiver(&settings.host)),
            settings,
            records: Records::new(scope.clone()),
            scope,
            devices: BTreeMap::new(),
            failures: BTreeMap::new(),
            since: None,
        }
    }

    /// Sends the metrics and log records of a poll to `sink`.
    pub fn take_poll(&mut self, poll: &DriverPoll, sink: Sink<'_>) {
        self.since.get_or_insert(poll.at_unix_ns);
        for reading in &poll.readings {
            self.take(reading, poll.at_unix_ns);
        }
        self.miss(poll);
        take_records(&self.resource, &self.records, sink);
        let mut all = vec![self.of_devices(poll)];
        all.extend(self.of_processes(poll));
        all.retain(|one| one.scope_metrics.iter().any(|scope| !scope.metrics.is_empty()));
        sink(metrics(all, true));
    }

    /// Sends the log record of an incident to `sink` and counts it.
    pub fn incident(&mut self, at_unix_ns: u64, incident: &Incident, sink: Sink<'_>) {
        let identity = Identity { id: incident.device.clone(), ..Identity::default() };
        if let Some(known) = self.known(&identity, at_unix_ns) {
            let event = known.report(incident);
            let identity = known.identity.clone();
            self.log(&identity, &event, at_unix_ns);
        }
        take_records(&self.resource, &self.records, sink);
    }

    fn log(&self, device: &Identity, event: &DeviceEvent, at: u64) {
        log_events::emit(self.vendor, device, event, at, &self.records);
    }

    fn take(&mut self, reading: &Reading, at: u64) {
        self.fail(reading);
        let Some(known) = self.known(&reading.identity, at) else { return };
        let events = known.take(reading, at);
        let identity = known.identity.clone();
        events.iter().for_each(|event| self.log(&identity, event, at));
    }

    /// Returns the state of a device, new if it was unknown, or `None` if the limit is reached.
    fn known(&mut self, identity: &Identity, at: u64) -> Option<&mut DeviceState> {
        let is_known = self.devices.contains_key(&identity.id);
        if !is_known && self.devices.len() >= DEVICES_MAX {
            let gone = self.devices.iter().filter(|(_, known)| known.is_gone);
            let oldest = gone.min_by_key(|(_, known)| known.at).map(|(id, _)| id.clone())?;
            self.devices.remove(&oldest);
        }
        let new = || DeviceState::new(identity.clone(), at);
        Some(self.devices.entry(identity.id.clone()).or_insert_with(new))
    }

    /// Marks the devices that the driver no longer lists.
    fn miss(&mut self, poll: &DriverPoll) {
        for (id, known) in &mut self.devices {
            if poll.readings.iter().all(|reading| reading.identity.id != *id)
                && let Some(event) = known.leave()
            {
                log_events::emit(self.vendor, &known.identity, &event, poll.at_unix_ns, &self.records);
            }
        }
    }

    /// Counts failed queries; a lost device counts once per poll.
    fn fail(&mut self, reading: &Reading) {
        let failed = reading.values.iter().filter_map(|value| match value {
            Err(Fault::Failed(why)) => Some(*why),
            _ => None,
        });
        let lost = reading.lost();
        for why in failed.filter(|_| lost.is_none()).chain(lost) {
            *self.failures.entry(why).or_default() += 1;
        }
    }

    fn of_devices(&self, poll: &DriverPoll) -> ResourceMetrics {
        let parts: usize = poll.readings.iter().map(|reading| 1 + reading.fans.len()).sum();
        let mut points = Points::of(parts, self.vendor, self.scope.clone());
        for reading in &poll.readings {
            if let Some(known) = self.devices.get(&reading.identity.id) {
                device_points(known, reading, &mut points);
            }
        }
        self.about_itself(poll, &mut points);
        resource_metrics(&self.scope, self.resource.clone(), points.collect(poll.at_unix_ns))
    }

    fn about_itself(&self, poll: &DriverPoll, points: &mut Points) {
        let start = self.since.unwrap_or(poll.at_unix_ns);
        for (why, count) in &self.failures {
            let attributes = [opentelemetry::KeyValue::new(attribute::ERROR_TYPE, *why)];
            points.count(metric::GPU_HARDWARE_QUERY_FAILURES, &attributes, *count, start);
        }
        let omitted = users(poll).len().saturating_sub(self.settings.processes_max);
        points.gauge(metric::GPU_HARDWARE_PROCESS_UNREPORTED, &[], omitted as f64);
        points.gauge(metric::GPU_HARDWARE_POLL_DURATION, &[], poll.took.as_secs_f64());
    }

    /// Returns the metrics of each process, with its own resource.
    fn of_processes(&self, poll: &DriverPoll) -> Vec<ResourceMetrics> {
        let users = users(poll).into_iter().take(self.settings.processes_max);
        let of_user = |user: User<'_>| {
            let mut points = Points::of(user.devices.len(), self.vendor, self.scope.clone());
            for (id, bytes) in &user.devices {
                let attributes = [opentelemetry::KeyValue::new(attribute::HW_ID, (*id).to_owned())];
                let start = self.devices.get(*id).map_or(poll.at_unix_ns, |known| known.since);
                points.balance(metric::GPU_HARDWARE_PROCESS_MEMORY_USAGE, &attributes, *bytes, start);
            }
            let resource =
                instrumentation::encoded(&instrumentation::process(&user.process.info, &self.settings.host));
            resource_metrics(&self.scope, resource, points.collect(poll.at_unix_ns))
        };
        users.map(of_user).collect()
    }
}
