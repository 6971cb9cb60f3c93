//! The exporters: the sink end of pipelines.
//!
//! The one idea: sending is a stack of consumers, each of which does one thing — a queue, the count of what
//! became of the data, retries, one attempt — so that an exporter is written as one attempt and the rest is
//! stacked on it by [`queue`]. Every exporter is one folder or file with one row, its `FACTORY`; the binary
//! lists the rows. What reaches an exporter, and in what batches, is left to the pipeline before it.

pub mod debug;
pub mod file;
pub mod nop;
pub mod otlp_grpc;
pub mod otlp_http;
mod wire;

#[cfg(test)]
mod testing;
