//! Independent peers for tests: a real OpenTelemetry Collector, and OTLP in Python and JavaScript.
//!
//! An independent implementation shows that data was sent correctly; agreement of our own programs does not. [`real_collector`] runs a Collector put together by the Collector's own builder,
//! [`python_server`] a server on Google's protobuf and gRPC, [`python_client`] their clients, [`python_sdk`] and
//! [`javascript`] OpenTelemetry's own SDKs. If a peer is not available, a [`Skip`] gives the reason. All are installed
//! once, in the target folder: packages at first use, the Collector (which takes minutes) only if the variable
//! `WARPTAP_PEERS` is `build`.

mod collector;
mod node;
mod ours;
mod peers;
mod program;
mod python;
mod receiving;
mod same;

pub use collector::{Collector, CollectorConfig, collector_program, real_collector};
pub use node::{Response, Written, javascript};
pub use ours::processed;
pub use peers::{Skip, peer};
pub use program::{Program, free_address, warptap_program};
pub use python::{
    Exported, Protocol, PythonServer, Received, json_by_python, python_client, python_sdk, python_server,
    python_server_answering, python_temporality,
};
pub use receiving::Receiving;
pub use same::{normalised, without_indexes};
