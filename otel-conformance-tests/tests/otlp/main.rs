//! OTLP's conformance points against peers that are not ours. A test's name begins with its point.
//!
//! | point | here | with whom | also in |
//! |---|---|---|---|
//! | B1 which failures are tried again | `retries` | Python's server and SDK, a Collector that sends | exporters' and receiver's own tests |
//! | B2 RetryInfo and Retry-After are the least that is waited | `retries` | the same | queue's own tests |
//! | B3 a partial success is not sent again | `answers` | Python's server and client, JavaScript | exporters' own tests count it |
//! | B4 what is empty is taken | `answers` | Python's client, a Collector beside us | |
//! | B5 sizes, also after decompression | `limits` | Python's client | the receiver's own tests |
//! | B6 compression both ways, and bombs | `limits` | Python's client | `tests/exporters.rs`, `tests/receiver.rs`: every compression with a Collector; `fuzz` |
//! | B7 refusals are in the request's encoding | `http` | Python's client, a Collector beside us | the receiver's own tests |
//! | B8 JSON | `json` | JavaScript, a Collector beside us | `tests/json.rs`: Google's protobuf reads and writes it |
//! | B9 default paths, connections that are kept | `http` | Python's server | `tests/chaos.rs`: a backend that refuses and resets |
//! | B10 grouping is preserved | `grouping` | a Collector in front and behind | `tests/components.rs`: batch, attributes, resource beside a Collector's |
//! | B11 temporality | `temporality` | Python's SDK with two readers | the processor's own tests |
//! | B12 exponential histograms | `temporality` | Python's SDK | the processor's own tests |
//!
//! `senders` has Python's SDK send by each of its exporters, and the whole path through three programs.
#![allow(
    clippy::panic,
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a test, which says why it is skipped"
)]

mod answers;
#[path = "../common/mod.rs"]
mod common;
mod grouping;
mod http;
mod json;
mod limits;
mod receiving;
mod retries;
mod senders;
mod temporality;

use otel_conformance_tests::peer;
