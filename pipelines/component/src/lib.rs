//! What a collector component is: the traits, the data they hand to each other, and how a component is
//! found by name and built from its configuration.
//!
//! The one idea: data moves by a call that returns when the next component has taken it, so that an `Ok`
//! is an acknowledgement and an [`Refused`] travels back to whoever may try again. This crate knows OTLP's
//! message types (they *are* the data) and nothing of YAML, sockets, files or graphs.

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

pub use code::Code;
pub use consumer::{Consumer, FanOut, Refused};
pub use factory::{
    BuildContext, Connector, ConnectorFactory, Exporter, ExporterFactory, Extension, ExtensionFactory,
    Factory, Processor, ProcessorFactory, Receiver, ReceiverFactory, Running, Stability, StartResult, find,
};
pub use host::{Host, HostError, Offer};
pub use id::{ComponentId, IdError};

/// A boxed future, the shape every asynchronous trait method here returns.
pub type BoxFuture<'a, T> = std::pin::Pin<Box<dyn Future<Output = T> + Send + 'a>>;
