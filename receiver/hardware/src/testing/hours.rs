//! Simulated hours of two GPUs with every fault, in seconds: memory is flat and no event is missed.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::{Machine, log_records, points};
use crate::Driver;

const HOUR: u64 = 3600;
const STEP: u64 = 10;
/// Number of devices.
pub const DEVICES: u64 = 2;
/// Incidents per device and hour.
pub const INCIDENTS: u64 = 3;

/// The faults of every hour, in the script language of a vendor's stub.
pub struct Hours {
    /// Number of hours.
    pub count: u64,
    /// Script of a device that answers every query, by its number.
    pub device: fn(u64) -> String,
    /// Script word for a lost device.
    pub lost: &'static str,
    /// Name of a query that fails for a while.
    pub query: &'static str,
    /// Event name of an incident, and its script for the n-th incident.
    pub incident: (&'static str, fn(u64) -> String),
}

/// Faults at times that differ between devices, and the events that they cause.
#[derive(Default)]
struct Faults {
    lines: String,
    /// Numbers of events by name.
    events: BTreeMap<String, u64>,
}

impl Faults {
    fn line(&mut self, second: u64, device: u64, rest: &str) {
        let _ = writeln!(self.lines, "{second}s gpu{device} {rest}");
    }

    fn add(&mut self, event: &str, count: u64) {
        *self.events.entry(event.to_owned()).or_default() += count;
    }
}

impl Hours {
    /// Returns the script of all devices and faults.
    pub fn script(&self) -> String {
        (0..DEVICES).map(self.device).collect::<String>() + &self.faults().lines
    }

    /// Polls all hours, compares the events and the memory growth with the script, and returns the last points.
    pub fn check<D: Driver>(&self, machine: &Machine<D>) -> BTreeMap<String, f64> {
        let mut events: BTreeMap<String, u64> = BTreeMap::new();
        let (mut polls, mut memory, mut last) = (0, Vec::new(), BTreeMap::new());
        machine.each_poll((0..self.count * HOUR).step_by(STEP as usize), &mut |output| {
            for (name, _) in log_records(&output) {
                *events.entry(name.replace("gpu.hardware.", "")).or_default() += 1;
            }
            if polls % (HOUR / STEP) == 0 {
                memory.push(resident_kib());
            }
            polls += 1;
            if polls == self.count * HOUR / STEP {
                last = points(&output);
            }
        });
        assert_eq!(events, self.faults().events);
        // Each series restarted with the last reload of its driver, which has counted 2 since.
        assert_eq!(sum(&last, "error.type=corrected"), (2 * DEVICES) as f64);
        let (early, late) = (memory[3], memory[memory.len() - 1]);
        assert!(late < early + 1024, "resident memory by hour, KiB: {memory:?}");
        last
    }

    fn faults(&self) -> Faults {
        let mut all = Faults::default();
        for device in 0..DEVICES {
            let mut corrected = 3;
            all.add("device.discovered", 1);
            for hour in 0..self.count {
                self.hour(&mut all, hour * HOUR + 100 + device * 800, device, &mut corrected);
            }
        }
        all
    }

    fn hour(&self, all: &mut Faults, at: u64, device: u64, corrected: &mut u64) {
        all.line(at, device, &format!("* {}", self.lost));
        all.line(at + 95, device, "* answers");
        all.add("device.lost", 1);
        all.add("device.recovered", 1);
        all.line(at + 200, device, &format!("{} TIMEOUT", self.query));
        all.line(at + 300, device, &format!("{} 300000", self.query));
        all.add("query.failed", 1);
        all.add("query.recovered", 1);
        all.line(at + 400, device, "present no");
        all.line(at + 500, device, "present yes");
        all.add("device.removed", 1);
        all.add("device.recovered", 1);
        // The counter increases while the device is lost and is read afterwards.
        *corrected += 5;
        all.line(at + 50, device, &format!("ecc.corrected {corrected}"));
        // The driver is reloaded.
        *corrected = 2;
        all.line(at + 600, device, "ecc.corrected 2");
        all.add("errors", 2);
        let (event, incident) = self.incident;
        for number in 0..INCIDENTS {
            all.line(at + 700 + number, device, &incident(number));
            all.add(event, 1);
        }
    }
}

/// Returns the sum of all points whose name and attributes contain `with`.
pub fn sum(points: &BTreeMap<String, f64>, with: &str) -> f64 {
    points.iter().filter(|(key, _)| key.contains(with)).map(|(_, value)| value).sum()
}

/// Returns the resident memory of this process, KiB.
fn resident_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("a /proc");
    let line = status.lines().find(|line| line.starts_with("VmRSS:"));
    let number = line.and_then(|line| line.split_whitespace().nth(1)?.parse().ok());
    number.expect("the kernel says how much is resident")
}
