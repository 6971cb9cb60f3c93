//! The exporters: the last components of pipelines.
//!
//! An exporter implements a sender, which sends one request once. The crate [`queue`] puts the queue, the
//! batches, the metrics and the retries in front of it. Every exporter is one folder or file with one row, its
//! `FACTORY`; the binary lists the rows.

pub mod debug;
pub mod file;
pub mod nop;
mod otlp;
pub mod otlp_grpc;
pub mod otlp_http;
mod unusable;

/// The exporters, sorted by type.
pub const EXPORTERS: &[component::ExporterFactory] =
    &[debug::FACTORY, file::FACTORY, nop::FACTORY, otlp_grpc::FACTORY, otlp_http::FACTORY];

#[cfg(test)]
mod testing;
