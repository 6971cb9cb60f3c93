//! The metrics of the child about itself. It sends them over OTLP, and the Prometheus reader of our own metrics adds the last
//! ones to its answers.
//!
//! The Collector's own exporter cannot use a Unix socket, so it sends to a port of this machine, to which other users could send, too: a
//! random token tells them apart. Port and token are environment variables of the child, so that its configuration stays the
//! same.

use std::net::TcpListener;
use std::sync::Arc;

use component::status::State;
use component::{
    BoxFuture, BuildContext, Code, ComponentId, Consumer, Host, Refused, Running, StartResult, context,
};
use config::{Node, Section};
use pdata::{Data, Signal};
use serde_json::json;
use tokio_util::sync::CancellationToken;

use super::crossing;
use crate::prepare::VERSION;
use crate::telemetry;

/// How often the child sends its metrics, ms.
const EVERY_MS: u64 = 5_000;

/// Environment variables of the child.
const ENDPOINT: &str = "WARPTAP_METRICS_ENDPOINT";
const TOKEN: &str = "WARPTAP_METRICS_TOKEN";
/// The header with the token.
const HEADER: &str = "x-warptap-token";

/// Returns the reader that sends the child's metrics, as an item of `service::telemetry::metrics::readers`.
pub(super) fn reader() -> Node {
    // Without the variables, as when the configuration is only checked, it is an address that nothing listens at.
    crossing::node(json!({ "periodic": { "interval": EVERY_MS, "exporter": { "otlp": {
        "protocol": "grpc",
        "endpoint": reference(ENDPOINT, "http://localhost:1"),
        "insecure": true,
        "headers": [{ "name": HEADER, "value": reference(TOKEN, "none") }],
    }}}}))
}

/// Returns a reference that the child resolves, in place of those that are resolved already.
fn reference(variable: &str, default: &str) -> String {
    format!("{}{{env:{variable}:-{default}}}", super::text::REFERENCE)
}

/// Listens for the metrics of the child until `stop`. Returns the environment variables of the child and the work.
pub(super) async fn receive(
    state: Arc<State>,
    stop: CancellationToken,
) -> StartResult<(Vec<(&'static str, String)>, Running)> {
    let token = telemetry::random_id();
    let address = TcpListener::bind("127.0.0.1:0")?.local_addr()?;
    let node = crossing::node(json!({
        "protocols": { "grpc": { "endpoint": address, "include_metadata": true } },
    }));
    let id = ComponentId::parse("otlp/own-metrics").expect("a type and a name are an id");
    let build = BuildContext { id, version: VERSION };
    let receiver = (otlp_receiver::FACTORY.build)(&build, Section::new("own-metrics", &node))?;
    let next: Arc<dyn Consumer> = Arc::new(Latest { state, token: token.clone() });
    let running = receiver.start(vec![(Signal::Metrics, next)], &Host::detached(), stop).await?;
    Ok((vec![(ENDPOINT, format!("http://{address}")), (TOKEN, token)], running))
}

/// Takes metrics with the token in place of the former ones.
struct Latest {
    state: Arc<State>,
    token: String,
}

impl Consumer for Latest {
    fn consume(&self, data: Data) -> BoxFuture<'_, Result<(), Refused>> {
        Box::pin(async move {
            if context::current().metadata.get(HEADER) != [self.token.as_str()] {
                return Err(Refused::new(Code::PermissionDenied, "these are not the metrics of the child"));
            }
            self.state.set_child_metrics(Some(data));
            Ok(())
        })
    }
}
