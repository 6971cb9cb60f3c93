//! Telemetry data of one signal, as OTLP's messages: the bytes that arrived, or decoded.
//!
//! Decoding is lazy: protobuf is checked on arrival ([`Data::decode`]), forwarded as the same bytes, and decoded when
//! a component first reads it.
//!
//! - `data`, `payload`: one batch, its bytes and its decoded form;
//! - `wire`: the check of arriving bytes;
//! - [`shape`]: the nesting of OTLP's messages, declared once for all signals;
//! - `items`, `split`: visiting, filtering and splitting the items of a batch;
//! - [`json`]: the encoding as OTLP JSON; [`otlp`]: paths and media types of OTLP requests.
//!
//! This crate knows no component, pipeline or transport.

mod data;
mod items;
pub mod json;
pub mod otlp;
mod payload;
pub mod shape;
mod signal;
mod split;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
mod wire;

pub use data::{Data, DataError};
pub use items::{ItemKind, ItemMut, ItemRef, Origin, for_each_item};
pub use payload::Payload;
pub use signal::{PerSignal, Signal};
pub use split::Unit;
pub use wire::WireError;
