//! The GPUs' clocks beside the calls: looked at from time to time, while there are processes to look at them for.
//!
//! The one idea: what a driver answers is turned into events where it is asked, so that a recording has them and the
//! analysis knows no driver. Two looks in a row say for how long each reason held the clocks down between them: by the
//! driver's own count where it counts, else by what the first of the two saw.
//!
//! The cost: a look at NVIDIA's is one call for the time by reason, one for the state and one for who the device is,
//! some 100 us a device; ten times a second for eight devices that is one hundredth of a CPU. One at AMD's is a call for
//! who it is and one for all its metrics; what that costs was not measured. Without a traced process the driver
//! is not even opened.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use event::{Clocks, Device, Event, ProcessId, ThrottleReason, ThrottleTime};
use hardware::{Driver, Fault, Reading, Reasons, Session, duration_query};
use probe_abi::detail::Detail;

use crate::source::{AnySource, SourceError};

/// Events on their way to the analysis. Full: the thread waits, and its next look is later.
const CHANNEL: usize = 1024;
/// How often it is asked who uses the devices.
const PROCESSES_EVERY: Duration = Duration::from_secs(1);
/// How often it is looked for a driver that is not there, or for somebody to look at it for.
const IDLE: Duration = Duration::from_secs(1);

/// Whether and how often devices are looked at.
#[derive(Clone, Debug)]
pub struct HardwareSettings {
    /// Time between looks.
    pub interval: Duration,
    /// The library of NVIDIA's driver.
    pub library: nvml::Library,
    /// The library of AMD's, asked where there is none of NVIDIA's.
    pub amdsmi: amdsmi::Library,
}

impl Default for HardwareSettings {
    fn default() -> Self {
        let (library, amdsmi) = (nvml::Library::default(), amdsmi::Library::default());
        HardwareSettings { interval: Duration::from_millis(100), library, amdsmi }
    }
}

/// The first of two drivers that is there. A machine that has GPUs of both vendors is looked at for those of the first:
/// numbers of devices, which calls name, would mean two of them.
struct FirstOf([Box<dyn Driver>; 2]);

impl Driver for FirstOf {
    fn open(&mut self, work: &mut dyn FnMut(&mut dyn Session)) -> Result<(), Fault> {
        let [first, second] = &mut self.0;
        first.open(work).or_else(|why| second.open(work).map_err(|_| why))
    }
}

/// A source of calls, and the hardware beside it.
pub(crate) struct Beside {
    pub(crate) calls: Box<dyn AnySource>,
    pub(crate) hardware: Hardware,
}

impl AnySource for Beside {
    fn read(&mut self, into: &mut Vec<Event>) -> Result<bool, SourceError> {
        let before = into.len();
        let is_more = self.calls.read(into)?;
        self.hardware.read(before, into);
        Ok(is_more)
    }

    fn set_detail(&mut self, process: ProcessId, detail: Option<Detail>) -> bool {
        self.calls.set_detail(process, detail)
    }
}

/// What is looked at, on a thread of its own: a driver that hangs holds up nothing else.
#[derive(Debug)]
pub struct Hardware {
    processes: BTreeSet<ProcessId>,
    looked: Receiver<Event>,
    shared: Arc<Shared>,
    /// None where no thread could be had.
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug, Default)]
struct Shared {
    is_wanted: AtomicBool,
    is_over: AtomicBool,
}

impl Hardware {
    /// Begins to look, as soon as there is a process to look for.
    pub fn start(settings: HardwareSettings) -> Hardware {
        let HardwareSettings { interval, library, amdsmi } = settings;
        Hardware::look(interval, Box::new(FirstOf([Box::new(library), Box::new(amdsmi)])), capture::now_ns)
    }

    /// The same with a driver and a clock of one's own.
    fn look(interval: Duration, driver: Box<dyn Driver>, now_ns: fn() -> u64) -> Hardware {
        let (sender, looked) = sync_channel(CHANNEL);
        let shared = Arc::new(Shared::default());
        let watch = Watch { shared: Arc::clone(&shared), interval, sender, now_ns, absent: None };
        let thread = thread::Builder::new().name("gpu-hardware".to_owned()).spawn(move || watch.run(driver));
        let thread =
            thread.inspect_err(|error| tracing::warn!(%error, "the clocks of GPUs are not looked at")).ok();
        Hardware { processes: BTreeSet::new(), looked, shared, thread }
    }

    /// Learns from the events behind `before` which processes there are, and adds what was looked at.
    pub fn read(&mut self, before: usize, into: &mut Vec<Event>) {
        into.iter().skip(before).for_each(|event| self.count(event));
        into.extend(self.looked.try_iter());
    }

    /// Somebody has to be there to be looked at for.
    fn count(&mut self, event: &Event) {
        match event {
            Event::Process(info) => self.processes.insert(info.process),
            Event::Exit { process, .. } => self.processes.remove(process),
            _ => return,
        };
        let is_wanted = !self.processes.is_empty();
        if self.shared.is_wanted.swap(is_wanted, Ordering::Relaxed) != is_wanted {
            self.wake();
        }
    }

    fn wake(&self) {
        self.thread.iter().for_each(|thread| thread.thread().unpark());
    }
}

impl Drop for Hardware {
    /// The thread is not waited for: the driver may never answer.
    fn drop(&mut self) {
        self.shared.is_over.store(true, Ordering::Relaxed);
        self.wake();
    }
}

/// The thread's own.
struct Watch {
    shared: Arc<Shared>,
    interval: Duration,
    sender: SyncSender<Event>,
    now_ns: fn() -> u64,
    /// Why there is no driver, as it was told last.
    absent: Option<Fault>,
}

impl Watch {
    fn run(mut self, mut driver: Box<dyn Driver>) {
        while !self.is_over() {
            if self.is_wanted()
                && let Err(fault) = driver.open(&mut |session| self.attend(session))
            {
                self.miss(fault);
            }
            thread::park_timeout(IDLE);
        }
    }

    /// As long as the driver is there and somebody is to be looked at for.
    fn attend(&mut self, session: &mut dyn Session) {
        let mut looks = Looks::default();
        let mut processes_at = Instant::now();
        while self.is_wanted() {
            let begun = Instant::now();
            let with_processes = begun >= processes_at;
            if with_processes {
                processes_at = begun + PROCESSES_EVERY;
            }
            match session.read_clocks(with_processes) {
                Ok(readings) => {
                    let events = looks.take((self.now_ns)(), &readings, with_processes);
                    if events.into_iter().any(|event| self.sender.send(event).is_err()) {
                        return;
                    }
                }
                Err(fault) => return self.miss(fault),
            }
            thread::park_timeout(self.interval.saturating_sub(begun.elapsed()));
        }
    }

    fn is_over(&self) -> bool {
        self.shared.is_over.load(Ordering::Relaxed)
    }

    fn is_wanted(&self) -> bool {
        self.shared.is_wanted.load(Ordering::Relaxed) && !self.is_over()
    }

    fn miss(&mut self, fault: Fault) {
        if self.absent.replace(fault) != Some(fault) {
            tracing::info!(reason = fault.name(), "the clocks of GPUs are not looked at: there is no driver");
        }
    }
}

/// What the looks before saw: two in a row are events.
#[derive(Debug, Default)]
struct Looks {
    devices: BTreeMap<u32, Last>,
}

/// A device at the last look.
#[derive(Debug)]
struct Last {
    device: Device,
    at_ns: u64,
    reasons: Reasons,
    /// Time by reason, as the driver counts it, in the order of [`ThrottleReason::ALL`].
    counted_ns: [Option<u64>; ThrottleReason::ALL.len()],
}

impl Looks {
    /// What this look says, by itself and with the one before.
    fn take(&mut self, at_ns: u64, readings: &[Reading], with_processes: bool) -> Vec<Event> {
        let mut events = Vec::new();
        for (index, reading) in (0..).zip(readings) {
            if reading.lost().is_some() {
                // What it did between the looks nobody knows.
                self.devices.remove(&index);
                continue;
            }
            let before = self.devices.remove(&index).filter(|last| last.device.id == reading.identity.id);
            let device = device(index, at_ns, reading, before.as_ref(), with_processes);
            if before.as_ref().is_none_or(|last| is_new(&last.device, &device)) {
                events.push(Event::Device(Box::new(device.clone())));
            }
            let reasons = reading.reasons().unwrap_or_default();
            let now = Last { device, at_ns, reasons, counted_ns: counted(reading) };
            events.extend(before.map(|before| Event::Clocks(between(index, &before, &now))));
            self.devices.insert(index, now);
        }
        events
    }
}

/// Who the processes are is asked less often than the clocks: until then they are who they were.
fn device(index: u32, at_ns: u64, reading: &Reading, before: Option<&Last>, with_processes: bool) -> Device {
    let id = reading.identity.id.clone();
    match before {
        Some(last) if !with_processes => Device { at_ns, ..last.device.clone() },
        _ => {
            let mut processes: Vec<u32> = reading.processes.iter().map(|process| process.pid).collect();
            processes.sort_unstable();
            Device { at_ns, index, id, pci: reading.identity.pci.clone(), processes }
        }
    }
}

fn is_new(before: &Device, now: &Device) -> bool {
    before.processes != now.processes || before.pci != now.pci
}

fn counted(reading: &Reading) -> [Option<u64>; ThrottleReason::ALL.len()] {
    let ns = |query| reading.value(query).ok();
    ThrottleReason::ALL.map(|reason| duration_query(reason).and_then(ns))
}

/// What held the clocks down between two looks.
fn between(device: u32, before: &Last, now: &Last) -> Clocks {
    let length_ns = now.at_ns.saturating_sub(before.at_ns);
    let held = ThrottleReason::ALL.into_iter().enumerate().filter_map(|(at, reason)| {
        let (ns, is_counted) = match (before.counted_ns[at], now.counted_ns[at]) {
            // A count that began again says what came since, no more than the time between.
            (Some(before), Some(now)) => (now.checked_sub(before).unwrap_or(now), true),
            _ if before.reasons.has(reason) => (length_ns, false),
            _ => return None,
        };
        let ns = ns.min(length_ns);
        (ns > 0).then_some(ThrottleTime { reason, ns, is_counted })
    });
    Clocks { from_ns: before.at_ns, to_ns: now.at_ns, device, throttled: held.collect() }
}

#[cfg(test)]
mod tests;
