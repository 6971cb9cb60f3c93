//! The `gpu` receiver: converts events of GPU processes to OpenTelemetry.
//!
//! An [`Analyzer`] reads no clock except event time, no file and no socket. The component of [`FACTORY`] feeds it
//! from the kernel, and [`replay`] from a recording; equal events give equal telemetry.
//!
//! Names are values of `semconv`. Steps are analyzed by `steps`, and calls are captured by `capture`.

mod account;
mod analyzer;
mod batch;
mod clock;
mod collectives;
mod config;
mod contexts;
mod detail;
mod discovery;
mod emit;
mod errors;
mod functions;
mod instruments;
mod memory;
mod meters;
mod model;
mod operations;
mod outlier;
mod overhead;
mod persistence;
mod points;
mod receiver;
mod replay;
mod source;
mod traced;

pub use self::config::{
    CaptureConfig, ClassifierConfig, Config, DetailConfig, NcclConfig, OutliersConfig, OverheadConfig,
    PhasesConfig, RulesConfig, SourceConfig, StragglersConfig, TracesConfig,
};
pub use analyzer::{Analyzer, Found, Look, Settings};
pub use collectives::CollectiveSettings;
pub use contexts::Relation;
pub use detail::DetailSettings;
pub use instrumentation::{Backpressure, Batch, DroppedItems, Sink};
pub use receiver::{build, factory, receiver, receiver_with_storage};
pub use replay::replay;
pub use source::{AnySource, Open, SourceError};
