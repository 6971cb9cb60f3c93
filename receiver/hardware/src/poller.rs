//! The polling thread: opens the driver, polls its devices once per interval, and waits for events in between.
//!
//! A driver may be absent, appear, disappear or hang. An absent driver is opened again every interval. A hanging one
//! blocks only this thread; [`Heartbeat`] shows it to others.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime};

use component::Host;
use component::status::ComponentStatus;
use instrumentation::BatchSender;

use crate::driver::{Driver, Fault, Session, Vendor};
use crate::monitor::{DriverPoll, Monitor};

/// Maximum duration of one wait for events, after which a stop is noticed.
const WAIT: Duration = Duration::from_millis(250);

/// Whether a hardware receiver of this process has logged that its driver is absent.
pub(crate) static IS_ABSENCE_LOGGED: AtomicBool = AtomicBool::new(false);

/// The start of the driver call in progress.
#[derive(Debug)]
pub(crate) struct Heartbeat {
    begun: Instant,
    /// Milliseconds from `begun` to the start of the call, plus 1; 0 without a call.
    calling: AtomicU64,
}

impl Heartbeat {
    pub(crate) fn new() -> Heartbeat {
        Heartbeat { begun: Instant::now(), calling: AtomicU64::new(0) }
    }

    /// Returns the duration of the driver call in progress.
    pub(crate) fn silent_for(&self) -> Duration {
        match self.calling.load(Ordering::Relaxed) {
            0 => Duration::ZERO,
            since => self.begun.elapsed().saturating_sub(Duration::from_millis(since - 1)),
        }
    }

    fn call_started(&self) {
        let since = self.begun.elapsed().as_millis();
        self.calling.store(u64::try_from(since).unwrap_or(u64::MAX - 1) + 1, Ordering::Relaxed);
    }

    fn call_ended(&self) {
        self.calling.store(0, Ordering::Relaxed);
    }
}

/// State of the polling thread.
pub(crate) struct Poller {
    pub(crate) vendor: Vendor,
    pub(crate) interval: Duration,
    pub(crate) monitor: Monitor,
    pub(crate) sender: BatchSender,
    pub(crate) heartbeat: Arc<Heartbeat>,
    pub(crate) host: Host,
    /// The reason why there is no driver, as last logged.
    pub(crate) absent: Option<Fault>,
}

impl Poller {
    /// Runs until the sender is stopped.
    pub(crate) fn run(mut self, mut driver: Box<dyn Driver>) {
        while !self.sender.is_stopping() {
            self.heartbeat.call_started();
            if let Err(fault) = driver.open(&mut |session| self.attend(session)) {
                self.miss(fault);
            }
            self.heartbeat.call_ended();
            self.rest();
        }
        self.sender.close();
    }

    /// Polls until the driver fails or the sender is stopped.
    fn attend(&mut self, session: &mut dyn Session) {
        let mut due = Instant::now();
        while !self.sender.is_stopping() {
            let began = Instant::now();
            self.heartbeat.call_started();
            let readings = session.read();
            self.heartbeat.call_ended();
            match readings {
                Ok(readings) => {
                    self.find();
                    let pass = DriverPoll { at_unix_ns: now(), took: began.elapsed(), readings };
                    let Poller { monitor, sender, .. } = self;
                    monitor.take_poll(&pass, &mut |batch| sender.push(batch));
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
            let Poller { monitor, sender, heartbeat, .. } = self;
            heartbeat.call_started();
            let incident = session.wait(left.min(WAIT));
            heartbeat.call_ended();
            if let Some(incident) = incident {
                monitor.incident(now(), &incident, &mut |batch| sender.push(batch));
            }
            sender.flush();
        }
    }

    /// Waits until the driver is to be opened again.
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
        self.host.report(ComponentStatus::Ok);
    }

    fn miss(&mut self, fault: Fault) {
        if self.absent.replace(fault) != Some(fault) {
            let (vendor, reason) = (self.vendor.name, fault.name());
            tracing::warn!(vendor, reason, "no GPU driver; retrying every interval");
            IS_ABSENCE_LOGGED.store(true, Ordering::Relaxed);
        }
        self.host.report(ComponentStatus::RecoverableError(format!("no GPU driver: {}", fault.name())));
    }
}

fn now() -> u64 {
    instrumentation::unix_ns(SystemTime::now())
}
