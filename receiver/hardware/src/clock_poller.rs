//! A thread that polls the clocks of GPUs while GPU processes run, and returns what it saw as events.
//!
//! As events, clocks are part of recordings, and the analysis needs no driver. The driver is not opened while there is no
//! GPU process, and it has a thread of its own, so a driver that hangs blocks nothing else.
//!
//! Cost: a poll of NVIDIA's driver is one call each for the throttle time by reason, the state and the identity, about 100 us
//! a device; ten polls a second of eight devices are one hundredth of a CPU.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use event::{Event, ProcessId};

use crate::clocks::ClockSamples;
use crate::driver::{Driver, Fault, Session};
use crate::poller::IS_ABSENCE_LOGGED;

/// Capacity of the channel of events. When full, the thread waits and its next poll is later.
const CHANNEL: usize = 1024;
/// Interval between queries for the processes that use a device.
const PROCESSES_EVERY: Duration = Duration::from_secs(1);
/// Interval between attempts to open the driver.
const RETRY: Duration = Duration::from_secs(1);

/// The first of several drivers that opens. A machine with GPUs of two vendors is polled for those of the first one,
/// because calls name devices by numbers, which would be ambiguous.
pub struct FirstDriver(pub Vec<Box<dyn Driver>>);

impl Driver for FirstDriver {
    fn open(&mut self, work: &mut dyn FnMut(&mut dyn Session)) -> Result<(), Fault> {
        let mut first_fault = None;
        for driver in &mut self.0 {
            match driver.open(work) {
                Ok(()) => return Ok(()),
                Err(fault) => _ = first_fault.get_or_insert(fault),
            }
        }
        Err(first_fault.unwrap_or(Fault::NotQueried))
    }
}

/// The handle of the polling thread, which ends when this is dropped.
#[derive(Debug)]
pub struct ClockPoller {
    processes: BTreeSet<ProcessId>,
    polled: Receiver<Event>,
    shared: Arc<Shared>,
    /// `None` if the thread could not be started.
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug, Default)]
struct Shared {
    is_wanted: AtomicBool,
    is_over: AtomicBool,
}

impl ClockPoller {
    /// Starts a thread that polls a driver at an interval while there are GPU processes. `now_ns` reads CLOCK_MONOTONIC.
    pub fn start(interval: Duration, driver: Box<dyn Driver>, now_ns: fn() -> u64) -> ClockPoller {
        let (sender, polled) = sync_channel(CHANNEL);
        let shared = Arc::new(Shared::default());
        let worker = Worker { shared: Arc::clone(&shared), interval, sender, now_ns, absent: None };
        let thread = thread::Builder::new().name("gpu-hardware".to_owned()).spawn(move || worker.run(driver));
        let thread = thread.inspect_err(|error| tracing::warn!(%error, "GPU clocks are not polled")).ok();
        ClockPoller { processes: BTreeSet::new(), polled, shared, thread }
    }

    /// Learns about processes from the events from index `before` on, and appends the events of polls.
    pub fn read(&mut self, before: usize, into: &mut Vec<Event>) {
        into.iter().skip(before).for_each(|event| self.count(event));
        into.extend(self.polled.try_iter());
    }

    /// Returns whether there are GPU processes, so that devices are polled.
    pub fn is_wanted(&self) -> bool {
        self.shared.is_wanted.load(Ordering::Relaxed)
    }

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

impl Drop for ClockPoller {
    /// Ends the thread without waiting for it: the driver may hang.
    fn drop(&mut self) {
        self.shared.is_over.store(true, Ordering::Relaxed);
        self.wake();
    }
}

/// The state of the polling thread.
struct Worker {
    shared: Arc<Shared>,
    interval: Duration,
    sender: SyncSender<Event>,
    now_ns: fn() -> u64,
    /// The last logged reason why there is no driver.
    absent: Option<Fault>,
}

impl Worker {
    fn run(mut self, mut driver: Box<dyn Driver>) {
        while !self.is_over() {
            if !self.is_wanted() {
                thread::park();
                continue;
            }
            if let Err(fault) = driver.open(&mut |session| self.poll(session)) {
                self.log_absence(fault);
            }
            thread::park_timeout(RETRY);
        }
    }

    /// Polls while there are GPU processes and the driver responds.
    fn poll(&mut self, session: &mut dyn Session) {
        let mut samples = ClockSamples::default();
        let mut processes_at = Instant::now();
        while self.is_wanted() {
            let begun = Instant::now();
            let with_processes = begun >= processes_at;
            if with_processes {
                processes_at = begun + PROCESSES_EVERY;
            }
            match session.read_clocks(with_processes) {
                Ok(readings) => {
                    let events = samples.sample((self.now_ns)(), &readings, with_processes);
                    if events.into_iter().any(|event| self.sender.send(event).is_err()) {
                        return;
                    }
                }
                Err(fault) => return self.log_absence(fault),
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

    /// Logs why clocks are not polled, unless a hardware receiver has logged that there is no driver.
    fn log_absence(&mut self, fault: Fault) {
        if self.absent.replace(fault) != Some(fault) && !IS_ABSENCE_LOGGED.load(Ordering::Relaxed) {
            tracing::info!(reason = fault.name(), "no GPU driver: GPU clocks are not polled");
        }
    }
}
