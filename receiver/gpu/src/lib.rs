//! The `gpu` receiver: events of GPU processes in, OpenTelemetry out.
//!
//! The one idea: an [`Analyzer`] that knows no clock but the events', no thread and no file, between two shells: the
//! component of [`FACTORY`], which reads a live kernel, and [`replay`], which reads whatever was recorded. Both give
//! the same telemetry for the same events.
//!
//! Names are values of `semconv`; what a step means is for `steps` to say; how calls are seen, for `capture`.

mod account;
mod analyzer;
mod batch;
mod clock;
mod collectives;
mod config;
mod contexts;
mod detail;
mod emit;
mod errors;
mod instruments;
mod memory;
mod meters;
mod operations;
mod outlier;
mod persistence;
mod points;
mod receiver;
mod replay;
mod resource;
mod service;
mod source;
mod traced;

pub use self::config::{
    CaptureConfig, ClassifierConfig, Config, DetailConfig, NcclConfig, OutliersConfig, PhasesConfig,
    RulesConfig, SourceConfig, StragglersConfig, TracesConfig,
};
pub use analyzer::{Analyzer, Found, Look, Settings};
pub use collectives::CollectiveSettings;
pub use contexts::Relation;
pub use detail::DetailSettings;
pub use instrumentation::{Backpressure, Batch, DroppedItems, Sink};
pub use receiver::{build, factory, receiver, receiver_with_storage};
pub use replay::replay;
pub use source::{AnySource, Open, SourceError};
