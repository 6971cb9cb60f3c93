//! How the collector fares: whether it takes data, what its pipelines are, and what each component says of
//! itself. Written by the graph and by components, read by the extensions that show it.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::{Instant, SystemTime};

use tokio::sync::watch;

use crate::spans::Spans;

/// How a component fares, in the Collector's words.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub enum Status {
    /// It is being started.
    #[default]
    Starting,
    /// It works.
    Ok,
    /// It does not work now, and may again by itself.
    RecoverableError(String),
    /// It will not work again until it is configured otherwise; the others go on.
    PermanentError(String),
    /// It has stopped.
    Stopped,
}

/// One pipeline, as it was configured.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct PipelineInfo {
    /// Its id, such as `traces/gpu`.
    pub id: String,
    /// What feeds it.
    pub receivers: Vec<String>,
    /// What changes its data, in order.
    pub processors: Vec<String>,
    /// Where it ends.
    pub exporters: Vec<String>,
}

/// One feature gate, as it is shown.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct GateInfo {
    /// Its name.
    pub id: String,
    /// Whether it is on.
    pub is_on: bool,
    /// How settled it is, such as `Alpha`.
    pub stage: String,
    /// What it does.
    pub description: String,
}

/// The state of the collector.
#[derive(Debug)]
pub struct State {
    /// When the process began, by the wall clock.
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
    components: BTreeMap<String, Status>,
    gates: Vec<GateInfo>,
    ready_since: Option<(SystemTime, Instant)>,
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
    /// For how long the collector has run.
    pub fn uptime(&self) -> std::time::Duration {
        self.begun.elapsed()
    }

    /// True while every pipeline takes data.
    pub fn is_ready(&self) -> bool {
        *self.ready.borrow()
    }

    /// Tells whether every pipeline takes data.
    pub fn set_ready(&self, is_ready: bool) {
        let now = || (SystemTime::now(), Instant::now());
        self.with(|inner| inner.ready_since = is_ready.then(|| inner.ready_since.unwrap_or_else(now)));
        self.ready.send_replace(is_ready);
    }

    /// Since when every pipeline has taken data, by the wall clock, and for how long.
    pub fn ready_since(&self) -> Option<(SystemTime, std::time::Duration)> {
        self.with(|inner| inner.ready_since.map(|(at, instant)| (at, instant.elapsed())))
    }

    /// The recorder of the collector's own spans.
    pub fn spans(&self) -> &Arc<Spans> {
        &self.spans
    }

    /// Says which feature gates there are.
    pub fn set_gates(&self, gates: Vec<GateInfo>) {
        self.with(|inner| inner.gates = gates);
    }

    /// The feature gates.
    pub fn gates(&self) -> Vec<GateInfo> {
        self.with(|inner| inner.gates.clone())
    }

    /// Says what runs now; what is said of components that no longer run is forgotten by [`State::forget`].
    pub fn describe(&self, pipelines: Vec<PipelineInfo>, extensions: Vec<String>) {
        self.with(|inner| (inner.pipelines, inner.extensions) = (pipelines, extensions));
    }

    /// The pipelines that run.
    pub fn pipelines(&self) -> Vec<PipelineInfo> {
        self.with(|inner| inner.pipelines.clone())
    }

    /// The extensions that run.
    pub fn extensions(&self) -> Vec<String> {
        self.with(|inner| inner.extensions.clone())
    }

    /// How each component fares, by the name that the log has for it.
    pub fn components(&self) -> BTreeMap<String, Status> {
        self.with(|inner| inner.components.clone())
    }

    /// Notes how a component fares.
    pub fn report(&self, component: &str, status: Status) {
        self.with(|inner| inner.components.insert(component.to_owned(), status));
    }

    /// Drops what was said of a component that is gone.
    pub fn forget(&self, component: &str) {
        self.with(|inner| inner.components.remove(component));
    }

    /// A panic elsewhere leaves plain values behind, which are as good as before.
    fn with<T>(&self, f: impl FnOnce(&mut Inner) -> T) -> T {
        f(&mut self.inner.lock().unwrap_or_else(std::sync::PoisonError::into_inner))
    }
}
