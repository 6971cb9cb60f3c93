//! `health_check`: a page that reports whether every pipeline accepts data, for probes and load balancers.

use component::status::State;
use component::{
    BoxFuture, BuildContext, Capabilities, Extension, ExtensionFactory, Host, Running, Stability, StartResult,
};
use config::{ConfigError, GoDuration, Node, Problems, Section};
use go_format::rfc3339;
use http::StatusCode;
use tokio_util::sync::CancellationToken;
use transport::keys::HttpServerConfig;

use crate::server::{self, Bound, JSON, Page, Pages, TEXT};

/// The row of this extension.
pub const FACTORY: ExtensionFactory = ExtensionFactory {
    kind: "health_check",
    aliases: &[],
    signals: &[],
    stability: Stability::Alpha,
    about: "Answers over HTTP whether every pipeline takes data.",
    example: "\
endpoint: localhost:13133
path: /health
",
    keys: config::keys::<HealthCheckConfig>,
    build,
};

config::section! {
    /// The section of the extension.
    #[derive(Clone, Debug, PartialEq)]
    pub struct HealthCheckConfig {
        ..server: HttpServerConfig = HttpServerConfig {
            endpoint: "localhost:13133".to_owned(),
            keep_alives_enabled: false,
            ..HttpServerConfig::default()
        } => unused server::UNUSED,
        /// Path that is answered, with all paths below it; `/` answers every path.
        pub path: String = "/".to_owned(),
        /// Bodies of the responses instead of the default ones.
        pub response_body: Option<HealthResponseBody>,
        /// Health by failures of exporters.
        pub check_collector_pipeline: CheckCollectorPipeline
            => unused "it is deprecated and does not work: readiness is reported",
        /// Whether the form of version 2 of the extension is used. True is refused.
        pub use_v2: bool,
        /// HTTP server of version 2 of the extension. Refused.
        pub http: Option<Node>,
        /// gRPC server of version 2 of the extension. Refused.
        pub grpc: Option<Node>,
        /// Component health of version 2 of the extension.
        pub component_health: Option<Node> => unused "it belongs to another version of the extension",
    }

    /// The section `response_body`.
    #[derive(Clone, Debug, PartialEq)]
    pub struct HealthResponseBody {
        /// Body while every pipeline accepts data.
        pub healthy: String,
        /// Body otherwise.
        pub unhealthy: String,
    }

    /// The section `check_collector_pipeline`.
    #[derive(Clone, Debug, PartialEq)]
    pub struct CheckCollectorPipeline {
        /// Whether the check is on.
        pub enabled: bool,
        /// Interval of the check.
        pub interval: String = "5m".to_owned(),
        /// Number of failures that make the collector unhealthy.
        pub exporter_failure_threshold: i64 = 5,
    }
}

impl HealthCheckConfig {
    fn check(&self, problems: &mut Problems<'_>) {
        let is_v2 = self.http.is_some() || self.grpc.is_some();
        problems.require(!is_v2, "", {
            "v2 healthcheck configuration (http/grpc fields) detected but feature gate is disabled. \
             Either remove the v2 config fields or use the keys endpoint and path"
        });
        problems.require(is_v2 || !self.use_v2, "use_v2", "must specify at least one protocol");
        problems.require(self.path.starts_with('/'), "path", "path must start with /");
        self.server.check("", problems);
    }
}

fn build(context: &BuildContext, section: Section<'_>) -> Result<Box<dyn Extension>, ConfigError> {
    let (config, mut problems) = section.read::<HealthCheckConfig>();
    config.check(&mut problems);
    problems.finish()?;
    Ok(Box::new(HealthCheck { name: context.id.to_string(), config }))
}

struct HealthCheck {
    name: String,
    config: HealthCheckConfig,
}

impl Extension for HealthCheck {
    fn start(
        self: Box<Self>,
        host: &Host,
        stop: CancellationToken,
    ) -> BoxFuture<'static, StartResult<(Capabilities, Running)>> {
        let host = host.clone();
        Box::pin(async move {
            let bound = Bound::open(&self.config.server, &self.name, &host).await?;
            let running: Running = Box::pin(bound.run(HealthPage { config: self.config, host }, stop));
            Ok((Capabilities::default(), running))
        })
    }
}

struct HealthPage {
    config: HealthCheckConfig,
    host: Host,
}

impl Pages for HealthPage {
    fn page(&self, path: &str, _: &str) -> Page {
        if !covers(&self.config.path, path) {
            return Page::not_found();
        }
        let state = self.host.state();
        let status = match state.is_ready() {
            true => StatusCode::OK,
            false => StatusCode::SERVICE_UNAVAILABLE,
        };
        match &self.config.response_body {
            Some(body) if status.is_success() => Page::new(status, TEXT, &body.healthy),
            Some(body) => Page::new(status, TEXT, &body.unhealthy),
            None => Page::new(status, JSON, default_body(state)),
        }
    }
}

/// Returns true if a configured path serves the requested one. A path that ends in a slash serves all paths
/// below it, as in Go's server.
fn covers(path: &str, requested: &str) -> bool {
    requested == path || (path.ends_with('/') && requested.starts_with(path))
}

/// Returns the default body, the same as the Collector's.
fn default_body(state: &State) -> String {
    let (status, since, uptime) = match state.ready_since() {
        Some((at, uptime)) => ("Server available", rfc3339(at), GoDuration(uptime).to_string()),
        None => ("Server not available", GO_NEVER.to_owned(), String::new()),
    };
    format!(r#"{{"status":"{status}","upSince":"{since}","uptime":"{uptime}"}}"#)
}

/// The text of Go's zero time.
const GO_NEVER: &str = "0001-01-01T00:00:00Z";

#[cfg(test)]
#[path = "health_check/tests.rs"]
mod tests;
