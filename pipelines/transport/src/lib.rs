//! What several components need of a network, each thing one small part: compressions, TLS of both sides,
//! endpoints, listening and serving, connecting and calling, and gRPC's framing.
//!
//! The one idea: a component says what it means — requests, statuses, paths — and this crate knows how bytes
//! get there. It knows the Collector's keys for that, since they are the same wherever they stand, and
//! nothing of OTLP's messages or of any component.

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
pub mod serve;
mod stream;
pub mod tls;

pub use parts::Parts;
pub use proxy::Proxy;
pub use stream::Stream;

#[cfg(test)]
mod tests;
