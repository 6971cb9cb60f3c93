//! Telemetry data of one signal, as OTLP's messages: as the bytes it arrived in, or decoded.
//!
//! Decoding is lazy: protobuf is checked on arrival ([`Data::decode`]), forwarded as the same bytes, and decoded when
//! a component first reads it. [`json`] is the encoding as OTLP JSON. This crate knows no component, pipeline or
//! transport.

mod data;
pub mod json;
mod payload;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
mod wire;

pub use data::{Data, DataError, Signal};
pub use payload::Payload;
pub use wire::WireError;
