//! How a component comes to life: a factory row says its type and what it handles; `build` turns decoded
//! configuration into a component without touching the outside; `start` is where sockets and files open.

use std::fmt;
use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use crate::{BoxFuture, ComponentId, Consumer, Host, Offer};
use config::{ConfigError, Section};
use pdata::Signal;

/// How settled a component is, in the Collector's words.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Stability {
    /// May change in any release.
    Alpha,
    /// Its configuration is unlikely to change.
    Beta,
    /// Its configuration changes only with notice.
    Stable,
}

/// What a component is told about where it is built.
#[derive(Clone, Debug)]
pub struct BuildContext {
    /// Its id in the configuration.
    pub id: ComponentId,
    /// The version of the binary, for user agents and resources.
    pub version: &'static str,
}

/// A started component: its background work, to be awaited after its token is cancelled.
pub type Running = BoxFuture<'static, ()>;

/// What a start returns; the error prints itself as a sentence.
pub type StartResult<T> = Result<T, Box<dyn std::error::Error + Send + Sync>>;

/// The source end of pipelines. One instance serves every signal it is used for.
pub trait Receiver: Send {
    /// Begins to receive. `next` holds, per signal that a pipeline asks of this receiver, where its data goes.
    /// An error here stops the program before data moves. The returned future ends soon after `stop` is
    /// cancelled, when everything received has been handed on.
    fn start(
        self: Box<Self>,
        next: Vec<(Signal, Arc<dyn Consumer>)>,
        host: &Host,
        stop: CancellationToken,
    ) -> BoxFuture<'static, StartResult<Running>>;
}

/// A step in the middle of one pipeline.
pub trait Processor: Send {
    /// Begins to process for one pipeline: returns the consumer that stands before `next`, and its background
    /// work, which on `stop` flushes what it holds.
    fn start(
        self: Box<Self>,
        next: Arc<dyn Consumer>,
        host: &Host,
        stop: CancellationToken,
    ) -> (Arc<dyn Consumer>, Running);
}

/// The sink end of some pipelines and the source end of others. One instance stands between the pipelines
/// of one signal that end in it and those of one signal that it feeds.
pub trait Connector: Send {
    /// What it can make of data of this signal: the signals of the pipelines it may feed.
    fn outputs(&self, from: Signal) -> &'static [Signal];

    /// Begins to connect: returns the consumer of `from`, which hands data of `to` on to `next`, and its
    /// background work, which on `stop` flushes what it holds.
    fn start(
        self: Box<Self>,
        ends: (Signal, Signal),
        next: Arc<dyn Consumer>,
        host: &Host,
        stop: CancellationToken,
    ) -> (Arc<dyn Consumer>, Running);
}

/// What serves other components, or whoever looks after the collector, and takes no part in pipelines.
pub trait Extension: Send {
    /// Opens what it needs, before everything that is no extension. An error here stops the program before data
    /// moves.
    fn start(
        self: Box<Self>,
        host: &Host,
        stop: CancellationToken,
    ) -> BoxFuture<'static, StartResult<(Offer, Running)>>;
}

/// The sink end of pipelines. One instance serves every signal it is used for.
pub trait Exporter: Send {
    /// Opens what it writes to. An error here stops the program before data moves. On `stop` what is queued is
    /// sent or counted as lost, then the future ends.
    fn start(
        self: Box<Self>,
        host: &Host,
        stop: CancellationToken,
    ) -> BoxFuture<'static, StartResult<(Arc<dyn Consumer>, Running)>>;
}

/// One row of a table of components; `T` is the trait that its components have.
pub struct Factory<T: ?Sized> {
    /// The type, as in the configuration.
    pub kind: &'static str,
    /// Older names that still load, with a warning.
    pub aliases: &'static [&'static str],
    /// The signals it handles; of a connector those that may go in, of an extension none.
    pub signals: &'static [Signal],
    /// How settled it is.
    pub stability: Stability,
    /// What it is for, in a sentence.
    pub about: &'static str,
    /// A section that shows its use: YAML that can be run as it is.
    pub example: &'static str,
    /// Decodes and validates its section, and builds it. No file, socket or clock is touched.
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
    /// True for its type and for its older names.
    pub fn answers_to(&self, kind: &str) -> bool {
        self.kind == kind || self.aliases.contains(&kind)
    }
}

// Derived, these would ask the trait object for the same.
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

/// The row that answers to `kind`.
pub fn find<'a, T: ?Sized>(rows: &'a [Factory<T>], kind: &str) -> Option<&'a Factory<T>> {
    rows.iter().find(|row| row.answers_to(kind))
}
