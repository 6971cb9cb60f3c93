//! TLS of clients and servers: the Collector's keys, and the rustls configuration for them.
//!
//! Each connection uses the current configuration, so that certificates that were renewed on disk are used by the
//! next connection without closing others.

mod client;
mod config;
mod material;
mod names;
mod server;

pub use self::config::{ClientTlsConfig, CommonTlsConfig, ServerTlsConfig, TpmConfig};
pub use client::ClientTls;
pub use material::TlsError;
pub use server::ServerTls;
