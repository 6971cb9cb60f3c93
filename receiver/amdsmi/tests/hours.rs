//! Hours of two GPUs and everything that befalls them, in seconds: flat memory, nothing missed.

#![allow(clippy::unwrap_used, reason = "a panic in a test is its report")]

mod common;

use std::collections::BTreeMap;
use std::fmt::Write as _;

use common::*;

const HOUR: u64 = 3600;
const HOURS: u64 = 8;
const STEP: u64 = 10;
const DEVICES: u64 = 2;

/// Faults of every kind, at times that differ from device to device: what they amount to.
#[derive(Default)]
struct Faults {
    lines: String,
    /// By the event's name.
    events: BTreeMap<&'static str, u64>,
    corrected: u64,
    /// Memory faults of programs.
    faults: u64,
}

impl Faults {
    fn line(&mut self, second: u64, device: u64, rest: &str) {
        writeln!(self.lines, "{second}s gpu{device} {rest}").unwrap();
    }

    fn add(&mut self, event: &'static str, count: u64) {
        *self.events.entry(event).or_default() += count;
    }

    /// Every hour, for every device.
    fn of_hours() -> Faults {
        let mut all = Faults::default();
        for device in 0..DEVICES {
            let mut corrected = 3;
            all.add("seen", 1);
            for hour in 0..HOURS {
                let at = hour * HOUR + 100 + device * 800;
                all.hour(at, device, &mut corrected);
            }
        }
        all
    }

    fn hour(&mut self, at: u64, device: u64, corrected: &mut u64) {
        self.line(at, device, "* IO");
        self.line(at + 95, device, "* answers");
        self.add("lost", 1);
        self.add("recovered", 1);
        self.line(at + 200, device, "energy TIMEOUT");
        self.line(at + 300, device, "energy 300000");
        self.add("unanswered", 1);
        self.add("answered", 1);
        self.line(at + 400, device, "present no");
        self.line(at + 500, device, "present yes");
        self.add("gone", 1);
        self.add("recovered", 1);
        // While the device is lost nobody sees the count; it is there afterwards.
        *corrected += 5;
        self.corrected += 5;
        self.line(at + 50, device, &format!("ecc.corrected {corrected}"));
        // And the driver is loaded anew.
        *corrected = 2;
        self.corrected += 2;
        self.line(at + 600, device, "ecc.corrected 2");
        self.add("errors", 2);
        self.faults += 1;
        for number in 0..3 {
            self.line(at + 700 + number, device, &format!("notification {}", 1 + number));
            self.add("notification", 1);
        }
    }
}

fn script() -> (String, Faults) {
    let faults = Faults::of_hours();
    let mut text: String = (0..DEVICES)
        .map(|device| WHOLE.replace("gpu0", &format!("gpu{device}")).replace("2cff", &format!("2cf{device}")))
        .collect();
    text += &faults.lines;
    (text, faults)
}

/// Resident memory, KiB.
fn resident_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

#[test]
fn hours_with_faults_miss_nothing_and_take_no_more_memory_than_the_first() {
    let (script, faults) = script();
    let machine = Machine::of(&script);
    let mut events: BTreeMap<String, u64> = BTreeMap::new();
    let (mut passes, mut memory, mut last) = (0, Vec::new(), BTreeMap::new());
    machine.each_pass((0..HOURS * HOUR).step_by(STEP as usize), &mut |output| {
        for (name, _) in told(&output) {
            *events.entry(name.replace("gpu.hardware.", "")).or_default() += 1;
        }
        if passes % (HOUR / STEP) == 0 {
            memory.push(resident_kib());
        }
        passes += 1;
        if passes == HOURS * HOUR / STEP {
            last = points(&output);
        }
    });
    let wanted: BTreeMap<String, u64> =
        faults.events.iter().map(|(name, n)| ((*name).to_owned(), *n)).collect();
    assert_eq!(events, wanted);
    let sum =
        |with: &str| last.iter().filter(|(key, _)| key.contains(with)).map(|(_, value)| value).sum::<f64>();
    assert_eq!(sum("error.type=vm_fault"), faults.faults as f64);
    // Each series began again with the last load of its driver, which has counted 2 since.
    assert_eq!(sum("error.type=corrected"), (2 * DEVICES) as f64);
    let (early, late) = (memory[3], *memory.last().unwrap());
    assert!(late < early + 1024, "resident memory by hour, KiB: {memory:?}");
}
