//! Hours of two GPUs and everything that befalls them, in seconds: flat memory, nothing missed.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::{Machine, points, told};
use crate::Driver;

const HOUR: u64 = 3600;
const STEP: u64 = 10;
/// Devices that it befalls.
pub const DEVICES: u64 = 2;
/// Times an hour that a driver tells of a device by itself.
pub const INCIDENTS: u64 = 3;

/// What befalls the devices every hour, in the words of a vendor's stub.
pub struct Hours {
    /// How many.
    pub count: u64,
    /// A device that answers everything, by its number.
    pub device: fn(u64) -> String,
    /// How one that is lost answers.
    pub lost: &'static str,
    /// A question that is not answered for a while.
    pub question: &'static str,
    /// What the driver tells by itself: the event's name, and how the script says so of the first, the second...
    pub incident: (&'static str, fn(u64) -> String),
}

/// Faults at times that differ from device to device: what they amount to.
#[derive(Default)]
struct Faults {
    lines: String,
    /// By the event's name.
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
    /// What the stub answers all the time.
    pub fn script(&self) -> String {
        (0..DEVICES).map(self.device).collect::<String>() + &self.faults().lines
    }

    /// Passes over all of it and holds what is told, and the memory it takes, against the script. Gives the last points.
    pub fn check<D: Driver>(&self, machine: &Machine<D>) -> BTreeMap<String, f64> {
        let mut events: BTreeMap<String, u64> = BTreeMap::new();
        let (mut passes, mut memory, mut last) = (0, Vec::new(), BTreeMap::new());
        machine.each_pass((0..self.count * HOUR).step_by(STEP as usize), &mut |output| {
            for (name, _) in told(&output) {
                *events.entry(name.replace("gpu.hardware.", "")).or_default() += 1;
            }
            if passes % (HOUR / STEP) == 0 {
                memory.push(resident_kib());
            }
            passes += 1;
            if passes == self.count * HOUR / STEP {
                last = points(&output);
            }
        });
        assert_eq!(events, self.faults().events);
        // Each series began again with the last load of its driver, which has counted 2 since.
        assert_eq!(sum(&last, "error.type=corrected"), (2 * DEVICES) as f64);
        let (early, late) = (memory[3], memory[memory.len() - 1]);
        assert!(late < early + 1024, "resident memory by hour, KiB: {memory:?}");
        last
    }

    fn faults(&self) -> Faults {
        let mut all = Faults::default();
        for device in 0..DEVICES {
            let mut corrected = 3;
            all.add("seen", 1);
            for hour in 0..self.count {
                self.hour(&mut all, hour * HOUR + 100 + device * 800, device, &mut corrected);
            }
        }
        all
    }

    fn hour(&self, all: &mut Faults, at: u64, device: u64, corrected: &mut u64) {
        all.line(at, device, &format!("* {}", self.lost));
        all.line(at + 95, device, "* answers");
        all.add("lost", 1);
        all.add("recovered", 1);
        all.line(at + 200, device, &format!("{} TIMEOUT", self.question));
        all.line(at + 300, device, &format!("{} 300000", self.question));
        all.add("unanswered", 1);
        all.add("answered", 1);
        all.line(at + 400, device, "present no");
        all.line(at + 500, device, "present yes");
        all.add("gone", 1);
        all.add("recovered", 1);
        // While the device is lost nobody sees the count; it is there afterwards.
        *corrected += 5;
        all.line(at + 50, device, &format!("ecc.corrected {corrected}"));
        // And the driver is loaded anew.
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

/// Of all points whose name and attributes contain this.
pub fn sum(points: &BTreeMap<String, f64>, with: &str) -> f64 {
    points.iter().filter(|(key, _)| key.contains(with)).map(|(_, value)| value).sum()
}

/// Resident memory, KiB.
fn resident_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("a /proc");
    let line = status.lines().find(|line| line.starts_with("VmRSS:"));
    let number = line.and_then(|line| line.split_whitespace().nth(1)?.parse().ok());
    number.expect("the kernel says how much is resident")
}
