//! Peers that are not ours, for tests: a real OpenTelemetry Collector, and OTLP in Python and JavaScript.
//!
//! The one idea: what two programs of one family agree on proves little; what a stranger receives proves that
//! it was sent. [`real_collector`] runs a Collector put together by the Collector's own builder,
//! [`python_server`] a server on Google's protobuf and gRPC, [`python_client`] their clients, [`python_sdk`] and
//! [`javascript`] OpenTelemetry's own SDKs. Where a peer cannot be had, a [`Skip`] says why. All are installed
//! once, below the target folder: packages when first asked for, the Collector (minutes of work) only where
//! the variable `WARPTAP_PEERS` is `build`. What is compared, and how, is left to the tests.

mod collector;
mod node;
mod ours;
mod peers;
mod python;
mod same;

pub use collector::{Collector, CollectorConfig, collector_program, real_collector};
pub use node::{Response, Written, javascript};
pub use ours::{Exporting, Sink, build_exporter, processed};
pub use peers::Skip;
pub use python::{
    Exported, Protocol, PythonServer, Received, json_by_python, python_client, python_sdk, python_server,
    python_server_answering, python_temporality,
};
pub use same::{normalised, without_indexes};
