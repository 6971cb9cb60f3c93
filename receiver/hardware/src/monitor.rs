//! Passes in, telemetry out: what devices answered, as metrics, and what happened to them, as log records.
//!
//! The one idea: no clock, no thread, no driver. A pass says when it was and what was answered, and the same passes
//! give the same bytes; a day of them is a loop.
//!
//! Bounded: devices that were seen ([`DEVICES_MAX`], those that are gone make room), kinds of what each reports, processes
//! ([`Settings::processes_max`], those that use most come first, the others are counted).

use std::collections::BTreeMap;
use std::time::Duration;

use instrumentation::{Records, Sink, metrics, resource_metrics, take_records};
use opentelemetry::InstrumentationScope;
use opentelemetry_proto::tonic::metrics::v1::ResourceMetrics;
use opentelemetry_proto::tonic::resource::v1::Resource;
use semconv::{attribute, metric};

use crate::device::device;
use crate::driver::{Fault, Identity, Incident, Reading, Vendor};
use crate::known::{Known, Told};
use crate::points::Points;
use crate::tell;
use crate::users::{self, User, users};

/// Devices that are remembered, parts of devices included.
const DEVICES_MAX: usize = 256;

/// How a monitor works.
#[derive(Clone, Debug)]
pub struct Settings {
    /// What is said of the machine on every resource.
    pub host: Vec<(String, String)>,
    /// Processes that have series.
    pub processes_max: usize,
}

impl Default for Settings {
    fn default() -> Self {
        Settings { host: Vec::new(), processes_max: 64 }
    }
}

/// One pass.
#[derive(Clone, Debug)]
pub struct Pass {
    /// When it was, ns since 1970.
    pub at_unix_ns: u64,
    /// How long it took.
    pub took: Duration,
    /// What each device answered.
    pub readings: Vec<Reading>,
}

/// Everything that is known of the devices of a machine.
#[derive(Debug)]
pub struct Monitor {
    vendor: Vendor,
    settings: Settings,
    scope: InstrumentationScope,
    resource: Resource,
    records: Records,
    devices: BTreeMap<String, Known>,
    failures: BTreeMap<&'static str, u64>,
    since: Option<u64>,
}

impl Monitor {
    /// Nothing is known yet.
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

    /// Takes a pass; what it gives goes to `sink`.
    pub fn pass(&mut self, pass: &Pass, sink: Sink<'_>) {
        self.since.get_or_insert(pass.at_unix_ns);
        for reading in &pass.readings {
            self.take(reading, pass.at_unix_ns);
        }
        self.miss(pass);
        take_records(&self.resource, &self.records, sink);
        let mut all = vec![self.of_devices(pass)];
        all.extend(self.of_processes(pass));
        all.retain(|one| one.scope_metrics.iter().any(|scope| !scope.metrics.is_empty()));
        sink(metrics(all, true));
    }

    /// Takes what a device reported by itself.
    pub fn incident(&mut self, at_unix_ns: u64, incident: &Incident, sink: Sink<'_>) {
        let identity = Identity { id: incident.device.clone(), ..Identity::default() };
        if let Some(known) = self.known(&identity, at_unix_ns) {
            let told = known.report(incident);
            let identity = known.identity.clone();
            self.tell(&identity, &told, at_unix_ns);
        }
        take_records(&self.resource, &self.records, sink);
    }

    fn tell(&self, device: &Identity, told: &Told, at: u64) {
        tell::tell(self.vendor, device, told, at, &self.records);
    }

    fn take(&mut self, reading: &Reading, at: u64) {
        self.fail(reading);
        let Some(known) = self.known(&reading.identity, at) else { return };
        let told = known.take(reading, at);
        let identity = known.identity.clone();
        told.iter().for_each(|told| self.tell(&identity, told, at));
    }

    /// The device, begun where it is new; none where there are too many.
    fn known(&mut self, identity: &Identity, at: u64) -> Option<&mut Known> {
        let is_known = self.devices.contains_key(&identity.id);
        if !is_known && self.devices.len() >= DEVICES_MAX {
            let gone = self.devices.iter().filter(|(_, known)| known.is_gone);
            let oldest = gone.min_by_key(|(_, known)| known.at).map(|(id, _)| id.clone())?;
            self.devices.remove(&oldest);
        }
        let new = || Known::new(identity.clone(), at);
        Some(self.devices.entry(identity.id.clone()).or_insert_with(new))
    }

    /// Devices that are not listed any more.
    fn miss(&mut self, pass: &Pass) {
        for (id, known) in &mut self.devices {
            if pass.readings.iter().all(|reading| reading.identity.id != *id)
                && let Some(told) = known.leave()
            {
                tell::tell(self.vendor, &known.identity, &told, pass.at_unix_ns, &self.records);
            }
        }
    }

    /// A device that is lost fails once, another as often as it has no answer though it can.
    fn fail(&mut self, reading: &Reading) {
        let failed = reading.answers.iter().filter_map(|answer| match answer {
            Err(Fault::Failed(why)) => Some(*why),
            _ => None,
        });
        let lost = reading.lost();
        for why in failed.filter(|_| lost.is_none()).chain(lost) {
            *self.failures.entry(why).or_default() += 1;
        }
    }

    fn of_devices(&self, pass: &Pass) -> ResourceMetrics {
        let parts: usize = pass.readings.iter().map(|reading| 1 + reading.fans.len()).sum();
        let mut points = Points::of(parts, self.vendor, self.scope.clone());
        for reading in &pass.readings {
            if let Some(known) = self.devices.get(&reading.identity.id) {
                device(known, reading, &mut points);
            }
        }
        self.about_itself(pass, &mut points);
        resource_metrics(&self.scope, self.resource.clone(), points.collect(pass.at_unix_ns))
    }

    fn about_itself(&self, pass: &Pass, points: &mut Points) {
        let start = self.since.unwrap_or(pass.at_unix_ns);
        for (why, count) in &self.failures {
            let attributes = [opentelemetry::KeyValue::new(attribute::ERROR_TYPE, *why)];
            points.count(metric::GPU_HARDWARE_QUERY_FAILURES, &attributes, *count, start);
        }
        let omitted = users(pass).len().saturating_sub(self.settings.processes_max);
        points.gauge(metric::GPU_HARDWARE_PROCESS_UNREPORTED, &[], omitted as f64);
        points.gauge(metric::GPU_HARDWARE_POLL_DURATION, &[], pass.took.as_secs_f64());
    }

    /// A resource of each process.
    fn of_processes(&self, pass: &Pass) -> Vec<ResourceMetrics> {
        let users = users(pass).into_iter().take(self.settings.processes_max);
        let of_user = |user: User<'_>| {
            let mut points = Points::of(user.devices.len(), self.vendor, self.scope.clone());
            for (id, bytes) in &user.devices {
                let attributes = [opentelemetry::KeyValue::new(attribute::HW_ID, (*id).to_owned())];
                let start = self.devices.get(*id).map_or(pass.at_unix_ns, |known| known.since);
                points.balance(metric::GPU_HARDWARE_PROCESS_MEMORY_USAGE, &attributes, *bytes, start);
            }
            let resource = instrumentation::encoded(&users::resource(user.process, &self.settings.host));
            resource_metrics(&self.scope, resource, points.collect(pass.at_unix_ns))
        };
        users.map(of_user).collect()
    }
}
