//! TLS of both sides: the Collector's keys, and rustls set up by them.
//!
//! The one idea: a connection asks for the configuration of the moment, so that certificates that were
//! renewed on disk are used by the next connection and no connection is cut. What is spoken inside is told
//! by whoever opens it.

mod client;
mod config;
mod material;
mod names;
mod server;

pub use self::config::{ClientTlsConfig, ServerTlsConfig, TpmConfig};
pub use client::ClientTls;
pub use material::TlsError;
pub use server::ServerTls;
