//! The status of the collector: whether it accepts data, its pipelines, and the status of each component. The graph and
//! components write it; extensions read it.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::{Instant, SystemTime};

use pdata::Data;
use tokio::sync::watch;

use crate::spans::Spans;

/// The status of a component, as the Collector defines it.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub enum ComponentStatus {
    /// The component is starting.
    #[default]
    Starting,
    /// The component works.
    Ok,
    /// The component fails and may recover by itself.
    RecoverableError(String),
    /// The component fails until its configuration is changed; other components continue.
    PermanentError(String),
    /// The component has stopped.
    Stopped,
}

/// The configuration of one pipeline.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct PipelineInfo {
    /// The id, such as `traces/gpu`.
    pub id: String,
    /// The receivers, and connectors that feed it.
    pub receivers: Vec<String>,
    /// The processors, in order.
    pub processors: Vec<String>,
    /// The exporters, and connectors that it feeds.
    pub exporters: Vec<String>,
}

/// One feature gate.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct GateInfo {
    /// Name of the feature gate.
    pub id: String,
    /// Whether the gate is enabled.
    pub is_on: bool,
    /// The stage, such as `Alpha`.
    pub stage: String,
    /// Description of the effect.
    pub description: String,
}

/// The state of the collector.
#[derive(Debug)]
pub struct State {
    /// The wall time of the start of the process.
    pub started_at: SystemTime,
    begun: Instant,
    ready: watch::Sender<bool>,
    spans: Arc<Spans>,
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    pipelines: Vec<PipelineInfo>,
    extensions: Vec<String>,
    components: BTreeMap<String, ComponentStatus>,
    gates: Vec<GateInfo>,
    ready_since: Option<(SystemTime, Instant)>,
    child_metrics: Option<Data>,
}

impl Default for State {
    fn default() -> Self {
        State {
            started_at: SystemTime::now(),
            begun: Instant::now(),
            ready: watch::Sender::new(false),
            spans: Arc::default(),
            inner: Mutex::default(),
        }
    }
}

impl State {
    /// Returns how long the collector has run.
    pub fn uptime(&self) -> std::time::Duration {
        self.begun.elapsed()
    }

    /// Returns true while every pipeline accepts data.
    pub fn is_ready(&self) -> bool {
        *self.ready.borrow()
    }

    /// Sets whether every pipeline accepts data.
    pub fn set_ready(&self, is_ready: bool) {
        let now = || (SystemTime::now(), Instant::now());
        self.with(|inner| inner.ready_since = is_ready.then(|| inner.ready_since.unwrap_or_else(now)));
        self.ready.send_replace(is_ready);
    }

    /// Returns since when every pipeline has accepted data, and for how long; none if it does not.
    pub fn ready_since(&self) -> Option<(SystemTime, std::time::Duration)> {
        self.with(|inner| inner.ready_since.map(|(at, instant)| (at, instant.elapsed())))
    }

    /// Returns the recorder of the collector's own spans.
    pub fn spans(&self) -> &Arc<Spans> {
        &self.spans
    }

    /// Sets the feature gates.
    pub fn set_gates(&self, gates: Vec<GateInfo>) {
        self.with(|inner| inner.gates = gates);
    }

    /// Returns the feature gates.
    pub fn gates(&self) -> Vec<GateInfo> {
        self.with(|inner| inner.gates.clone())
    }

    /// Sets the pipelines and extensions that run. [`State::remove`] removes the status of stopped components.
    pub fn describe(&self, pipelines: Vec<PipelineInfo>, extensions: Vec<String>) {
        self.with(|inner| (inner.pipelines, inner.extensions) = (pipelines, extensions));
    }

    /// Returns the pipelines that run.
    pub fn pipelines(&self) -> Vec<PipelineInfo> {
        self.with(|inner| inner.pipelines.clone())
    }

    /// Returns the extensions that run.
    pub fn extensions(&self) -> Vec<String> {
        self.with(|inner| inner.extensions.clone())
    }

    /// Returns the status of each component, by its name in the log.
    pub fn components(&self) -> BTreeMap<String, ComponentStatus> {
        self.with(|inner| inner.components.clone())
    }

    /// Sets the status of a component.
    pub fn report(&self, component: &str, status: ComponentStatus) {
        self.with(|inner| inner.components.insert(component.to_owned(), status));
    }

    /// Removes the status of a component.
    pub fn remove(&self, component: &str) {
        self.with(|inner| inner.components.remove(component));
    }

    /// Sets the metrics that a Collector which runs delegated components has about itself; none if it does not run.
    pub fn set_child_metrics(&self, metrics: Option<Data>) {
        self.with(|inner| inner.child_metrics = metrics);
    }

    /// Returns the latest metrics of a Collector which runs delegated components.
    pub fn child_metrics(&self) -> Option<Data> {
        self.with(|inner| inner.child_metrics.clone())
    }

    // A panic while the lock is held leaves valid values, so a poisoned lock is used.
    fn with<T>(&self, f: impl FnOnce(&mut Inner) -> T) -> T {
        f(&mut self.inner.lock().unwrap_or_else(std::sync::PoisonError::into_inner))
    }
}
