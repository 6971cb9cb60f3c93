//! The components at the two ends of a crossing: an exporter of OTLP over a Unix socket, and a receiver that listens there.
//!
//! Neither end acknowledges what the other has not taken. The own exporter has a queue in front of the child, in which callers wait for the
//! answer. The exporter of the child has none: it retries while this collector refuses, and its caller waits.

use std::path::Path;

use config::Node;
use serde_json::{Value, json};

/// Largest message of a crossing, in MiB. Data has passed the limits of its receiver.
const MESSAGE_MIB_MAX: u32 = 256;

/// How long data is offered again that the other end refuses for now, as by default in the Collector.
const RETRY_MAX: &str = "5m";

/// Returns the section of the receiver that listens at a socket.
pub(super) fn receiver(socket: &Path) -> Node {
    node(json!({
        "protocols": {
            "grpc": {
                "endpoint": socket,
                "transport": "unix",
                "max_recv_msg_size_mib": MESSAGE_MIB_MAX,
                "include_metadata": true,
            },
        },
    }))
}

/// Returns the section of this collector's exporter to a socket of the child. The extension `auth` sets headers.
pub(super) fn exporter(socket: &Path, auth: Option<&str>) -> Node {
    node(sending(socket, auth, json!({ "wait_for_result": true, "block_on_overflow": true })))
}

/// Returns the section of the child's exporter to a socket of this collector. The extension `auth` sets headers.
pub(super) fn child_exporter(socket: &Path, auth: Option<&str>) -> Node {
    node(sending(socket, auth, json!({ "enabled": false })))
}

/// Returns the settings that both exporters have. There is no timeout: an answer takes as long as the other pipelines, and the
/// connection ends with the process.
fn sending(socket: &Path, auth: Option<&str>, queue: Value) -> Value {
    let mut settings = json!({
        "endpoint": format!("unix://{}", socket.display()),
        "tls": { "insecure": true },
        "compression": "none",
        "timeout": "0s",
        "sending_queue": queue,
        "retry_on_failure": { "initial_interval": "100ms", "max_interval": "5s", "max_elapsed_time": RETRY_MAX },
    });
    if let Some(id) = auth {
        settings["auth"] = json!({ "authenticator": id });
    }
    settings
}

/// Converts JSON to a tree.
pub(super) fn node(json: Value) -> Node {
    serde_json::from_value(json).expect("JSON is a tree without duplicate keys")
}
