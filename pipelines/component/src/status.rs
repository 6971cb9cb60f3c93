//! How the collector fares: whether it takes data, what its pipelines are, and what each component says of
//! itself. Written by the graph and by components, read by the extensions that show it.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::time::{Instant, SystemTime};

use tokio::sync::watch;

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

/// The state of the collector.
#[derive(Debug)]
pub struct State {
    /// When the process began, by the wall clock.
    pub started_at: SystemTime,
    begun: Instant,
    ready: watch::Sender<bool>,
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    pipelines: Vec<PipelineInfo>,
    extensions: Vec<String>,
    components: BTreeMap<String, Status>,
}

impl Default for State {
    fn default() -> Self {
        State {
            started_at: SystemTime::now(),
            begun: Instant::now(),
            ready: watch::Sender::new(false),
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
        self.ready.send_replace(is_ready);
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
