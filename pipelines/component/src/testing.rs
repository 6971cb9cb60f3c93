//! A harness for the tests of components, with the feature `testing`: settings as JSON, a consumer that records, and
//! the collector's own metrics as lines.

mod metrics;
mod sink;

use std::sync::Arc;

use config::{ConfigError, Node, Section};
use pdata::{Data, Signal};
use tokio_util::sync::CancellationToken;

pub use self::metrics::Metrics;
pub use self::sink::{Delivery, Sink};
use crate::{
    BuildContext, ComponentId, ConnectorFactory, Consumer, ExporterFactory, Factory, Host, ProcessorFactory,
    Refused, Running, StartResult,
};

/// Parses settings in JSON.
pub fn node(settings: &str) -> Node {
    serde_json::from_str(settings).unwrap_or_else(|e| panic!("{settings}: {e}"))
}

/// Formats the problems of a configuration as `path: message`.
pub fn lines_of(error: &ConfigError) -> Vec<String> {
    error.problems().iter().map(|p| format!("{}: {}", p.path, p.message)).collect()
}

/// Builds a component from settings in JSON, whose section is `x`.
pub fn build<T: ?Sized>(factory: &Factory<T>, settings: &str) -> Result<Box<T>, ConfigError> {
    let id = ComponentId::parse(factory.kind).expect("a type is an id");
    (factory.build)(&BuildContext { id, version: "1.2.3" }, Section::new("x", &node(settings)))
}

/// Returns the problems of settings in JSON.
pub fn problems<T: ?Sized>(factory: &Factory<T>, settings: &str) -> Vec<String> {
    build(factory, settings).err().map_or_else(Vec::new, |error| lines_of(&error))
}

/// Asserts that settings have one problem that contains the given text, or none if the text is empty.
#[track_caller]
pub fn check_problem<T: ?Sized>(factory: &Factory<T>, settings: &str, want: &str) {
    let found = problems(factory, settings);
    assert_eq!(found.len(), usize::from(!want.is_empty()), "{settings}: {found:?}");
    assert!(found.iter().all(|problem| problem.contains(want)), "{settings}: {found:?}");
}

/// A running component that consumes data.
pub struct Started {
    /// The consumer of the component.
    pub input: Arc<dyn Consumer>,
    /// The output of a processor or connector.
    pub sink: Arc<Sink>,
    /// The background work.
    pub running: Running,
    /// Stops the component.
    pub stop: CancellationToken,
}

impl Started {
    /// Starts an exporter.
    pub async fn exporter(factory: &ExporterFactory, settings: &str) -> Self {
        Self::exporter_in(&Host::detached(), factory, settings).await.expect(settings)
    }

    /// Starts an exporter in a host.
    ///
    /// # Errors
    ///
    /// Returns the error with which the exporter fails to start.
    pub async fn exporter_in(host: &Host, factory: &ExporterFactory, settings: &str) -> StartResult<Self> {
        let stop = CancellationToken::new();
        let (input, running) = build(factory, settings).expect(settings).start(host, stop.clone()).await?;
        Ok(Started { input, sink: Sink::new(), running, stop })
    }

    /// Starts a processor.
    pub fn processor(factory: &ProcessorFactory, settings: &str) -> Self {
        Self::processor_in(&Host::detached(), factory, settings)
    }

    /// Starts a processor in a host.
    pub fn processor_in(host: &Host, factory: &ProcessorFactory, settings: &str) -> Self {
        let processor = build(factory, settings).expect(settings);
        Self::before_sink(|sink, stop| processor.start(sink, host, stop))
    }

    /// Starts a connector between pipelines of two signals.
    pub fn connector(factory: &ConnectorFactory, settings: &str, ends: (Signal, Signal)) -> Self {
        let connector = build(factory, settings).expect(settings);
        Self::before_sink(|sink, stop| connector.start(ends, sink, &Host::detached(), stop))
    }

    /// Starts a component that sends to a sink.
    pub fn before_sink(
        start: impl FnOnce(Arc<Sink>, CancellationToken) -> (Arc<dyn Consumer>, Running),
    ) -> Self {
        let (sink, stop) = (Sink::new(), CancellationToken::new());
        let (input, running) = start(sink.clone(), stop.clone());
        Started { input, sink, running, stop }
    }

    /// Sends a batch.
    pub async fn send(&self, data: Data) -> Result<(), Refused> {
        self.input.consume(data).await
    }

    /// Stops the component and waits until it has flushed its data.
    pub async fn end(self) {
        self.stop.cancel();
        self.running.await;
    }
}
