//! The interface of the collector's components: their traits, their environment, and the factories that build them from
//! configuration.
//!
//! Data is sent by a call that returns when the next component has accepted it, so that `Ok` is an acknowledgement and
//! [`Refused`] is returned to a component that can retry. This crate knows no YAML, sockets, files or graphs.

pub mod auth;
mod code;
mod consumer;
pub mod context;
mod factory;
pub mod health;
mod host;
mod id;
pub mod metrics;
pub mod spans;
pub mod status;
pub mod storage;
#[cfg(any(test, feature = "testing"))]
pub mod testing;

pub use code::Code;
pub use consumer::{Consumer, FanOut, Refused};
pub use factory::{
    BuildContext, Connector, ConnectorFactory, Exporter, ExporterFactory, Extension, ExtensionFactory,
    Factory, Processor, ProcessorFactory, Receiver, ReceiverFactory, Running, Stability, StartResult, find,
};
pub use host::{Capabilities, Host, HostError};
pub use id::{ComponentId, IdError};

/// A boxed future, the shape every asynchronous trait method here returns.
pub type BoxFuture<'a, T> = std::pin::Pin<Box<dyn Future<Output = T> + Send + 'a>>;
