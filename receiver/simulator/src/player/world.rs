//! The state that the threads of a script share: the objects of each name, and the expected steps.

use std::collections::VecDeque;
use std::ffi::CString;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::PlayError;
use super::options::Options;
use crate::functions::Functions;
use crate::model::clock;
use crate::oracle::Log;
use crate::script::Script;
use crate::truth::order::{RecordedEvent, Truth};

/// Longest wait for a signal; after that the script is wrong, and ends.
const AWAIT_MAX: Duration = Duration::from_secs(30);
/// How often a waiting thread checks whether the script has ended.
const AWAIT_STEP: Duration = Duration::from_millis(20);

/// Name of the file by which the processes of a script share the device.
const DEVICE: &str = "device";

/// Locks a mutex, even after a panic in another thread.
pub(super) fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The event of a name, or a ring of events.
#[derive(Debug, Default)]
pub(super) struct Ring {
    pub(super) handles: Vec<AtomicU64>,
    /// The record of each event.
    pub(super) recorded: Vec<Mutex<Option<RecordedEvent>>>,
    /// Number of records.
    pub(super) records: AtomicU64,
}

impl Ring {
    fn new(size: usize) -> Ring {
        Ring {
            handles: (0..size).map(|_| AtomicU64::new(0)).collect(),
            recorded: (0..size).map(|_| Mutex::new(None)).collect(),
            records: AtomicU64::new(0),
        }
    }

    /// Returns the index of the event that is recorded next.
    pub(super) fn next(&self) -> usize {
        self.records.load(Relaxed) as usize % self.handles.len()
    }

    /// Returns the index of the event recorded `back` before the latest; `None` if there is none.
    pub(super) fn recorded_back(&self, back: usize) -> Option<usize> {
        let records = self.records.load(Relaxed) as usize;
        let at = records.checked_sub(back + 1).filter(|_| back < self.handles.len())?;
        Some(at % self.handles.len())
    }
}

/// The signal of a name.
#[derive(Debug, Default)]
pub(super) struct Signal {
    sent: Mutex<u64>,
    changed: Condvar,
}

impl Signal {
    /// Wakes one waiting thread.
    pub(super) fn send(&self) {
        *locked(&self.sent) += 1;
        self.changed.notify_one();
    }

    /// Waits for a signal; returns false after a timeout or if `is_over` returns true.
    pub(super) fn wait(&self, is_over: impl Fn() -> bool) -> bool {
        let mut sent = locked(&self.sent);
        let mut waited = Duration::ZERO;
        while *sent == 0 {
            if is_over() || waited >= AWAIT_MAX {
                return false;
            }
            let woken = self.changed.wait_timeout(sent, AWAIT_STEP);
            sent = woken.unwrap_or_else(PoisonError::into_inner).0;
            waited += AWAIT_STEP;
        }
        *sent -= 1;
        true
    }
}

/// A script that is being played.
#[derive(Debug)]
pub(super) struct World {
    pub(super) script: Box<Script>,
    pub(super) functions: Functions,
    pub(super) log: Log,
    pub(super) options: Options,
    pub(super) stubs: PathBuf,
    /// Handle of each stream.
    pub(super) streams: Vec<AtomicU64>,
    pub(super) truth: Mutex<Truth>,
    pub(super) events: Vec<Ring>,
    pub(super) graphs: Vec<AtomicU64>,
    /// Address or handle of each function.
    pub(super) kernels: Vec<AtomicU64>,
    /// Names of the functions as the libraries get them.
    pub(super) kernel_names: Vec<CString>,
    pub(super) buffers: Vec<Mutex<VecDeque<u64>>>,
    pub(super) signals: Vec<Signal>,
    pub(super) calls: AtomicU64,
    /// Time at which the script ends, CLOCK_MONOTONIC ns; `u64::MAX` for no limit.
    pub(super) ends_ns: u64,
}

impl World {
    pub(super) fn new(
        script: Box<Script>,
        functions: Functions,
        log: Log,
        options: &Options,
        stubs: &Path,
    ) -> Result<World, PlayError> {
        if let Some(name) = &options.process
            && !script.threads.iter().any(|t| t.process.as_ref() == Some(name))
        {
            return Err(PlayError::Usage(format!("the script has no process '{name}'")));
        }
        let has_others = script.threads.iter().any(|t| t.process.is_some());
        if has_others && !functions.share_device(&stubs.join(DEVICE)) {
            let source = std::io::Error::other("the file cannot be mapped");
            return Err(PlayError::File { action: "share the device among processes".into(), source });
        }
        Ok(World {
            streams: script.streams.iter().map(|_| AtomicU64::new(0)).collect(),
            truth: Mutex::default(),
            events: script.events.iter().map(|(_, size)| Ring::new(*size)).collect(),
            graphs: script.graphs.iter().map(|_| AtomicU64::new(0)).collect(),
            kernels: script.functions.iter().map(|_| AtomicU64::new(0)).collect(),
            kernel_names: script
                .functions
                .iter()
                .map(|name| CString::new(name.as_str()).unwrap_or_default())
                .collect(),
            buffers: script.buffers.iter().map(|_| Mutex::default()).collect(),
            signals: script.signals.iter().map(|_| Signal::default()).collect(),
            calls: AtomicU64::new(0),
            ends_ns: u64::MAX,
            options: options.clone(),
            stubs: stubs.to_path_buf(),
            script,
            functions,
            log,
        })
    }

    /// Begins the time limit.
    pub(super) fn begin(mut self) -> World {
        self.ends_ns = self.options.seconds_ns.map_or(u64::MAX, |ns| clock::now_ns().saturating_add(ns));
        self
    }

    /// Returns true once the time limit is reached.
    pub(super) fn is_over(&self) -> bool {
        self.ends_ns != u64::MAX && clock::now_ns() >= self.ends_ns
    }

    /// Scales a time by the player's speed.
    pub(super) fn scaled(&self, ns: u64) -> u64 {
        (ns as f64 / self.options.speed) as u64
    }
}
