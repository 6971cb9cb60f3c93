//! Network transport for components: compression, TLS, endpoints, HTTP servers and clients, and gRPC framing.
//!
//! A component decides on requests, statuses and paths; this crate moves the bytes. It defines the Collector's
//! configuration keys for that, which are the same in all components, and knows neither OTLP's messages nor any
//! component.

pub mod auth;
pub mod client;
pub mod compress;
pub mod connect;
pub mod endpoint;
pub mod grpc;
pub mod keys;
pub mod listen;
mod parts;
mod proxy;
pub mod query;
pub mod reload;
pub mod serve;
mod stream;
pub mod tls;

pub use parts::Parts;
pub use proxy::Proxy;
pub use stream::Stream;

#[cfg(test)]
mod tests;
