//! Passes in, telemetry out: what devices answered, as metrics, and what happened to them, as log records.
//!
//! The one idea: no clock, no thread, no driver. A pass says when it was and what was answered, and the same passes
//! give the same bytes; a day of them is a loop.
//!
//! Bounded: devices that were seen ([`DEVICES_MAX`], those that are gone make room), XIDs of each, processes
//! ([`Settings::processes_max`], those that use most come first, the others are counted).

use std::collections::BTreeMap;
use std::time::Duration;

use opentelemetry::InstrumentationScope;
use opentelemetry_proto::tonic::metrics::v1::ResourceMetrics;
use opentelemetry_proto::tonic::resource::v1::Resource;
use sdk::{Records, Sink, hand_over, metrics, of_resource};
use semconv::value::{GpuHardwareThrottleOrigin as Origin, GpuHardwareThrottleReason as Reason};
use semconv::{attribute, metric};

use crate::driver::{Fault, Identity, Process, Reading, Xid};
use crate::known::Known;
use crate::points::{Points, attributes};
use crate::questions::{Becomes, Question, ROWS};
use crate::throttle::{counted_by, is_active};
use crate::{SCOPE, tell};

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
    pub fn new(settings: Settings) -> Monitor {
        let scope = sdk::scope(SCOPE);
        Monitor {
            resource: sdk::encoded(&sdk::receiver(&settings.host)),
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
        hand_over(&self.resource, &self.records, sink);
        let mut all = vec![self.of_devices(pass)];
        all.extend(self.of_processes(pass));
        all.retain(|one| one.scope_metrics.iter().any(|scope| !scope.metrics.is_empty()));
        sink(metrics(all, true));
    }

    /// Takes an error that a device reported.
    pub fn xid(&mut self, at_unix_ns: u64, xid: &Xid, sink: Sink<'_>) {
        let identity = Identity { id: xid.device.clone(), ..Identity::default() };
        if let Some(known) = self.known(&identity, at_unix_ns) {
            let told = known.report(xid.number);
            tell::tell(&known.identity.clone(), &told, at_unix_ns, &self.records);
        }
        hand_over(&self.resource, &self.records, sink);
    }

    fn take(&mut self, reading: &Reading, at: u64) {
        self.fail(reading);
        let Some(known) = self.known(&reading.identity, at) else { return };
        let told = known.take(reading, at);
        let identity = known.identity.clone();
        told.iter().for_each(|told| tell::tell(&identity, told, at, &self.records));
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
                tell::tell(&known.identity, &told, pass.at_unix_ns, &self.records);
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
        let mut points = Points::of(parts, self.scope.clone());
        for reading in &pass.readings {
            if let Some(known) = self.devices.get(&reading.identity.id) {
                device(known, reading, &mut points);
            }
        }
        self.about_itself(pass, &mut points);
        of_resource(&self.scope, self.resource.clone(), points.collect(pass.at_unix_ns))
    }

    fn about_itself(&self, pass: &Pass, points: &mut Points) {
        let start = self.since.unwrap_or(pass.at_unix_ns);
        for (why, count) in &self.failures {
            let attributes = [opentelemetry::KeyValue::new(attribute::ERROR_TYPE, *why)];
            points.count(metric::GPU_HARDWARE_FAILURES, &attributes, *count, start);
        }
        let omitted = users(pass).len().saturating_sub(self.settings.processes_max);
        points.gauge(metric::GPU_HARDWARE_OMITTED, &[], omitted as f64);
        points.gauge(metric::GPU_HARDWARE_PASS_DURATION, &[], pass.took.as_secs_f64());
    }

    /// A resource of each process: pids are no attributes of points.
    fn of_processes(&self, pass: &Pass) -> Vec<ResourceMetrics> {
        let users = users(pass).into_iter().take(self.settings.processes_max);
        let of_user = |user: User<'_>| {
            let mut points = Points::of(user.devices.len(), self.scope.clone());
            for (id, bytes) in &user.devices {
                let attributes = [opentelemetry::KeyValue::new(attribute::HW_ID, (*id).to_owned())];
                let start = self.devices.get(*id).map_or(pass.at_unix_ns, |known| known.since);
                points.balance(metric::GPU_HARDWARE_PROCESS_MEMORY_USAGE, &attributes, *bytes, start);
            }
            let resource = sdk::encoded(&process(user.process, &self.settings.host));
            of_resource(&self.scope, resource, points.collect(pass.at_unix_ns))
        };
        users.map(of_user).collect()
    }
}

/// A process and what it uses of each device.
struct User<'a> {
    process: &'a Process,
    devices: Vec<(&'a str, u64)>,
}

/// Those that use most come first. A process on a part of a device is not on the whole of it as well.
fn users(pass: &Pass) -> Vec<User<'_>> {
    let is_in_part = |whole: &Reading, pid: u32| {
        let mut parts = pass.readings.iter().filter(|part| part.identity.parent == whole.identity.id);
        parts.any(|part| part.processes.iter().any(|process| process.pid == pid))
    };
    let mut users: BTreeMap<u32, User<'_>> = BTreeMap::new();
    for reading in &pass.readings {
        for process in reading.processes.iter().filter(|process| !is_in_part(reading, process.pid)) {
            let Some(bytes) = process.bytes else { continue };
            let user = users.entry(process.pid).or_insert(User { process, devices: Vec::new() });
            user.devices.push((&reading.identity.id, bytes));
        }
    }
    let mut users: Vec<User<'_>> = users.into_values().collect();
    users.sort_by_key(|user| std::cmp::Reverse(user.devices.iter().map(|(_, bytes)| *bytes).sum::<u64>()));
    users
}

fn process(process: &Process, host: &[(String, String)]) -> opentelemetry_sdk::Resource {
    let mut all = sdk::common(host);
    all.insert(attribute::PROCESS_PID.to_owned(), i64::from(process.pid).into());
    if !process.executable.is_empty() {
        for key in [attribute::PROCESS_EXECUTABLE_NAME, attribute::SERVICE_NAME] {
            all.insert(key.to_owned(), process.executable.clone().into());
        }
    }
    sdk::built(all)
}

/// Everything that is said of one device.
fn device(known: &Known, reading: &Reading, points: &mut Points) {
    status(known, reading, points);
    for row in &ROWS {
        answer(known, reading, row, points);
    }
    memory_share(known, reading, points);
    throttle(known, reading, points);
    for (number, count) in &known.xids {
        let others = [(attribute::ERROR_TYPE, "xid"), (attribute::GPU_XID, number.as_str())];
        let attributes = attributes(metric::HW_ERRORS.attributes(), &known.identity, &others);
        points.count(metric::HW_ERRORS, &attributes, *count, known.since);
    }
    for (number, percent) in reading.fans.iter().enumerate() {
        let fan = Identity {
            id: format!("{}/fan{number}", known.identity.id),
            name: format!("{} fan {number}", known.identity.name),
            parent: known.identity.id.clone(),
            ..Identity::default()
        };
        let attributes = attributes(metric::HW_FAN_SPEED_RATIO.attributes(), &fan, &[]);
        points.gauge(metric::HW_FAN_SPEED_RATIO, &attributes, *percent as f64 / 1e2);
    }
}

/// The states of OpenTelemetry's conventions that a GPU can be in.
const STATES: [&str; 4] = ["degraded", "failed", "ok", "predicted_failure"];

fn status(known: &Known, reading: &Reading, points: &mut Points) {
    let is_set = |question| reading.answer(question).is_ok_and(|answer| answer > 0);
    let now = match () {
        () if reading.lost().is_some() => "failed",
        () if is_set(Question::RemappedFailure) => "predicted_failure",
        () if is_set(Question::RemappedPending) => "degraded",
        () => "ok",
    };
    for state in STATES {
        let others = [(attribute::HW_STATE, state)];
        let attributes = attributes(metric::HW_STATUS.attributes(), &known.identity, &others);
        points.balance(metric::HW_STATUS, &attributes, u64::from(state == now), known.since);
    }
}

fn answer(known: &Known, reading: &Reading, row: &crate::questions::Row, points: &mut Points) {
    let Ok(value) = reading.answer(row.question) else { return };
    let others = row.attribute.as_slice();
    let of = |metric: &semconv::Metric| attributes(metric.attributes(), &known.identity, others);
    let start = known.sums[row.question as usize].map_or(known.since, |sum| sum.start);
    match row.becomes {
        Becomes::Gauge(metric, scale) => points.gauge(metric, &of(&metric), scale.of(value)),
        Becomes::Amount(metric, scale) => points.amount(metric, &of(&metric), scale.of(value), start),
        Becomes::Count(metric) => points.count(metric, &of(&metric), value, start),
        Becomes::Balance(metric) => points.balance(metric, &of(&metric), value, known.since),
        Becomes::Part => {}
    }
}

fn memory_share(known: &Known, reading: &Reading, points: &mut Points) {
    let (total, used) = (reading.answer(Question::MemoryTotal), reading.answer(Question::MemoryUsed));
    if let (Ok(total @ 1..), Ok(used)) = (total, used) {
        let metric = metric::HW_GPU_MEMORY_UTILIZATION;
        let attributes = attributes(metric.attributes(), &known.identity, &[]);
        points.gauge(metric, &attributes, used as f64 / total as f64);
    }
}

fn throttle(known: &Known, reading: &Reading, points: &mut Points) {
    let mask = reading.answer(Question::Throttle).ok();
    for (reason, held_ns) in Reason::ALL.into_iter().zip(known.held_ns) {
        let others = [(attribute::GPU_HARDWARE_THROTTLE_REASON, reason.as_str())];
        if let Some(mask) = mask {
            let metric = metric::GPU_HARDWARE_THROTTLE_ACTIVE;
            let attributes = attributes(metric.attributes(), &known.identity, &others);
            points.gauge(metric, &attributes, f64::from(u8::from(is_active(reason, mask))));
        }
        let counted = counted_by(reason).map(|question| (question, reading.answer(question)));
        let (origin, ns, start) = match counted {
            Some((question, Ok(ns))) => {
                (Origin::Counted, ns, known.sums[question as usize].map_or(known.since, |sum| sum.start))
            }
            None | Some((_, Err(Fault::Unsupported))) if mask.is_some() => {
                (Origin::Sampled, held_ns, known.since)
            }
            _ => continue,
        };
        let others = [others[0], (attribute::GPU_HARDWARE_THROTTLE_ORIGIN, origin.as_str())];
        let metric = metric::GPU_HARDWARE_THROTTLE_DURATION;
        let attributes = attributes(metric.attributes(), &known.identity, &others);
        points.amount(metric, &attributes, ns as f64 / 1e9, start);
    }
}
