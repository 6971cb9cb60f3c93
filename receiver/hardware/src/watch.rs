//! The thread that asks: opens the driver, passes over its devices once per interval, waits for events between.
//!
//! The one idea: a driver may be absent, may come, may go and may hang. Absent, it is looked for again every interval.
//! Hanging, it holds up this thread and nothing else; [`Pulse`] lets others see that.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime};

use component::Host;
use component::status::Status;
use instrumentation::BatchSender;

use crate::driver::{Driver, Fault, Session, Vendor};
use crate::monitor::{Monitor, Pass};

/// The longest wait in which a stop is not seen.
const WAIT: Duration = Duration::from_millis(250);

/// Since when the driver has been asked something that it has not answered.
#[derive(Debug)]
pub(crate) struct Pulse {
    begun: Instant,
    /// Milliseconds behind `begun`, and 1; 0 while nothing is asked.
    asking: AtomicU64,
}

impl Pulse {
    pub(crate) fn new() -> Pulse {
        Pulse { begun: Instant::now(), asking: AtomicU64::new(0) }
    }

    /// How long the driver has not answered.
    pub(crate) fn silent_for(&self) -> Duration {
        match self.asking.load(Ordering::Relaxed) {
            0 => Duration::ZERO,
            since => self.begun.elapsed().saturating_sub(Duration::from_millis(since - 1)),
        }
    }

    fn ask(&self) {
        let since = self.begun.elapsed().as_millis();
        self.asking.store(u64::try_from(since).unwrap_or(u64::MAX - 1) + 1, Ordering::Relaxed);
    }

    fn answered(&self) {
        self.asking.store(0, Ordering::Relaxed);
    }
}

/// The thread's own.
pub(crate) struct Watch {
    pub(crate) vendor: Vendor,
    pub(crate) interval: Duration,
    pub(crate) monitor: Monitor,
    pub(crate) sender: BatchSender,
    pub(crate) pulse: Arc<Pulse>,
    pub(crate) host: Host,
    /// Why there is no driver, as it was told last.
    pub(crate) absent: Option<Fault>,
}

impl Watch {
    /// Runs until it is told to stop.
    pub(crate) fn run(mut self, mut driver: Box<dyn Driver>) {
        while !self.sender.is_stopping() {
            self.pulse.ask();
            if let Err(fault) = driver.open(&mut |session| self.attend(session)) {
                self.miss(fault);
            }
            self.pulse.answered();
            self.rest();
        }
        self.sender.close();
    }

    /// As long as the driver is there.
    fn attend(&mut self, session: &mut dyn Session) {
        let mut due = Instant::now();
        while !self.sender.is_stopping() {
            let began = Instant::now();
            self.pulse.ask();
            let readings = session.read();
            self.pulse.answered();
            match readings {
                Ok(readings) => {
                    self.find();
                    let pass = Pass { at_unix_ns: now(), took: began.elapsed(), readings };
                    let Watch { monitor, sender, .. } = self;
                    monitor.pass(&pass, &mut |batch| sender.push(batch));
                }
                Err(fault) => return self.miss(fault),
            }
            due = (due + self.interval).max(Instant::now());
            self.wait(session, due);
        }
    }

    /// Waits for events until `due`.
    fn wait(&mut self, session: &mut dyn Session, due: Instant) {
        loop {
            let left = due.saturating_duration_since(Instant::now());
            if left.is_zero() || self.sender.is_stopping() {
                return;
            }
            let Watch { monitor, sender, pulse, .. } = self;
            pulse.ask();
            let incident = session.wait(left.min(WAIT));
            pulse.answered();
            if let Some(incident) = incident {
                monitor.incident(now(), &incident, &mut |batch| sender.push(batch));
            }
            sender.flush();
        }
    }

    /// Until the driver is looked for again.
    fn rest(&mut self) {
        let due = Instant::now() + self.interval;
        while !self.sender.is_stopping() && Instant::now() < due {
            std::thread::park_timeout(due.saturating_duration_since(Instant::now()));
        }
    }

    fn find(&mut self) {
        if self.absent.take().is_some() {
            tracing::info!(vendor = self.vendor.name, "the GPU driver answers");
        }
        self.host.report(Status::Ok);
    }

    fn miss(&mut self, fault: Fault) {
        if self.absent.replace(fault) != Some(fault) {
            let (vendor, reason) = (self.vendor.name, fault.name());
            tracing::warn!(vendor, reason, "no GPU driver: it is looked for again every interval");
        }
        self.host.report(Status::RecoverableError(format!("no GPU driver: {}", fault.name())));
    }
}

fn now() -> u64 {
    instrumentation::unix_ns(SystemTime::now())
}
