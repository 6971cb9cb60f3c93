//! The life of a component: a factory row names its type and signals, `build` converts its configuration into a component
//! without I/O, and `start` opens sockets and files.

use std::fmt;
use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use crate::{BoxFuture, Capabilities, ComponentId, Consumer, Host};
use config::{ConfigError, Key, Section};
use pdata::Signal;

/// The stability level of a component, as the Collector defines it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Stability {
    /// May change in any release.
    Alpha,
    /// Its configuration is unlikely to change.
    Beta,
    /// Its configuration changes only with notice.
    Stable,
}

/// The context that a component is built in.
#[derive(Clone, Debug)]
pub struct BuildContext {
    /// Its id in the configuration.
    pub id: ComponentId,
    /// The version of the binary, for user agents and resources.
    pub version: &'static str,
}

/// A started component: its background work, to be awaited after its token is cancelled.
pub type Running = BoxFuture<'static, ()>;

/// The result of a start; the error displays as a complete message.
pub type StartResult<T> = Result<T, Box<dyn std::error::Error + Send + Sync>>;

/// The source end of pipelines. One instance serves every signal it is used for.
pub trait Receiver: Send {
    /// Starts to receive. `next` lists the consumer of each signal that a pipeline uses this receiver for. The returned
    /// future completes soon after `stop` is cancelled, when all received data has been consumed.
    ///
    /// # Errors
    ///
    /// An error stops the program before data is processed.
    fn start(
        self: Box<Self>,
        next: Vec<(Signal, Arc<dyn Consumer>)>,
        host: &Host,
        stop: CancellationToken,
    ) -> BoxFuture<'static, StartResult<Running>>;
}

/// A step in the middle of one pipeline.
pub trait Processor: Send {
    /// Starts to process for one pipeline: returns the consumer in front of `next`, and the background work, which
    /// flushes pending data on `stop`.
    fn start(
        self: Box<Self>,
        next: Arc<dyn Consumer>,
        host: &Host,
        stop: CancellationToken,
    ) -> (Arc<dyn Consumer>, Running);
}

/// The sink end of some pipelines and the source end of others. One instance connects the pipelines of one signal that
/// end in it with those of one signal that it feeds.
pub trait Connector: Send {
    /// Returns the signals of the pipelines that this connector can feed from data of `from`.
    fn outputs(&self, from: Signal) -> &'static [Signal];

    /// Starts to connect: returns the consumer of the first signal of `ends`, which sends data of the second one to
    /// `next`, and the background work, which flushes pending data on `stop`.
    fn start(
        self: Box<Self>,
        ends: (Signal, Signal),
        next: Arc<dyn Consumer>,
        host: &Host,
        stop: CancellationToken,
    ) -> (Arc<dyn Consumer>, Running);
}

/// A component outside of pipelines that serves other components or the operators of the collector.
pub trait Extension: Send {
    /// Starts the extension, before all components that are not extensions.
    ///
    /// # Errors
    ///
    /// An error stops the program before data is processed.
    fn start(
        self: Box<Self>,
        host: &Host,
        stop: CancellationToken,
    ) -> BoxFuture<'static, StartResult<(Capabilities, Running)>>;
}

/// The sink end of pipelines. One instance serves every signal it is used for.
pub trait Exporter: Send {
    /// Checks that its settings suffice for pipelines of a signal, such as that there is an endpoint for it.
    ///
    /// # Errors
    ///
    /// The reason, which is a problem of the configuration.
    fn accepts(&self, _signal: Signal) -> Result<(), String> {
        Ok(())
    }

    /// Opens the destination. On `stop` queued data is sent or counted as dropped, then the future completes.
    ///
    /// # Errors
    ///
    /// An error stops the program before data is processed.
    fn start(
        self: Box<Self>,
        host: &Host,
        stop: CancellationToken,
    ) -> BoxFuture<'static, StartResult<(Arc<dyn Consumer>, Running)>>;
}

/// One row of a table of components that implement the trait `T`.
pub struct Factory<T: ?Sized> {
    /// The component type in the configuration.
    pub kind: &'static str,
    /// Older names that still load, with a warning.
    pub aliases: &'static [&'static str],
    /// The supported signals: of a connector those of its input, of an extension none.
    pub signals: &'static [Signal],
    /// The stability level.
    pub stability: Stability,
    /// The purpose, in one sentence.
    pub about: &'static str,
    /// An example of its section: YAML that runs unchanged.
    pub example: &'static str,
    /// Returns the table of the keys of its section.
    pub keys: fn() -> Vec<Key>,
    /// Decodes and validates its section, and builds the component without I/O.
    pub build: fn(&BuildContext, Section<'_>) -> Result<Box<T>, ConfigError>,
}

/// One row of the connectors' table.
pub type ConnectorFactory = Factory<dyn Connector>;
/// One row of the exporters' table.
pub type ExporterFactory = Factory<dyn Exporter>;
/// One row of the extensions' table.
pub type ExtensionFactory = Factory<dyn Extension>;
/// One row of the processors' table.
pub type ProcessorFactory = Factory<dyn Processor>;
/// One row of the receivers' table.
pub type ReceiverFactory = Factory<dyn Receiver>;

impl<T: ?Sized> Factory<T> {
    /// Returns true for the type and its older names.
    pub fn answers_to(&self, kind: &str) -> bool {
        self.kind == kind || self.aliases.contains(&kind)
    }
}

// A derive would require the trait object to implement these.
impl<T: ?Sized> Clone for Factory<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T: ?Sized> Copy for Factory<T> {}

impl<T: ?Sized> fmt::Debug for Factory<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Factory").field("kind", &self.kind).finish_non_exhaustive()
    }
}

/// Returns the row of a type or of one of its older names.
pub fn find<'a, T: ?Sized>(rows: &'a [Factory<T>], kind: &str) -> Option<&'a Factory<T>> {
    rows.iter().find(|row| row.answers_to(kind))
}
