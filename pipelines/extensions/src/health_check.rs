//! `health_check`: a page that reports whether every pipeline accepts data, for probes and load balancers.

use component::status::State;
use component::{
    BoxFuture, BuildContext, Capabilities, Extension, ExtensionFactory, Host, Running, Stability, StartResult,
};
use config::unused::{self, Unused};
use config::{ConfigError, GoDuration, Headers, Node, Optional, Problems, Section};
use go_format::rfc3339;
use http::StatusCode;
use serde::Deserialize;
use tokio_util::sync::CancellationToken;
use transport::listen::Transport;

use transport::keys::{CorsConfig, DialerConfig};

use crate::server::{Bound, JSON, Page, Pages, TEXT, served_section, warn_unused};

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
    build,
};

served_section! {
    /// The section of the extension.
    HealthCheckConfig {
        /// The path that is answered; `/` is every path.
        path: String,
        /// What to answer in place of the default.
        response_body: Option<ResponseBody>,
        /// Unused: it does not work in the Collector either.
        check_collector_pipeline: CheckCollectorPipeline,
        /// Refused: the form of another version of the extension.
        use_v2: bool,
        /// Refused: the form of another version of the extension.
        http: Option<Node>,
        /// Refused: the form of another version of the extension.
        grpc: Option<Node>,
        /// Unused: it belongs to another version of the extension.
        component_health: Option<Node>,
    }
}

impl Default for HealthCheckConfig {
    fn default() -> Self {
        HealthCheckConfig {
            path: "/".to_owned(),
            response_body: None,
            check_collector_pipeline: CheckCollectorPipeline::default(),
            use_v2: false,
            http: None,
            grpc: None,
            component_health: None,
            endpoint: "localhost:13133".to_owned(),
            transport: Transport::Tcp,
            dialer: DialerConfig::default(),
            tls: Optional::none(),
            cors: Optional::<CorsConfig, _>::none(),
            auth: Optional::none(),
            max_request_body_size: 0,
            include_metadata: false,
            response_headers: Headers::default(),
            compression_algorithms: Vec::new(),
            read_timeout: GoDuration::default(),
            read_header_timeout: GoDuration::default(),
            write_timeout: GoDuration::default(),
            idle_timeout: GoDuration::default(),
            keep_alives_enabled: false,
            middlewares: Vec::new(),
        }
    }
}

/// The section `response_body`.
#[derive(Clone, Debug, Default, Deserialize, PartialEq)]
#[serde(default)]
pub struct ResponseBody {
    /// The body while every pipeline takes data.
    pub healthy: String,
    /// The body otherwise.
    pub unhealthy: String,
}

/// The section `check_collector_pipeline`.
#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(default)]
pub struct CheckCollectorPipeline {
    /// Unused.
    pub enabled: bool,
    /// Unused.
    pub interval: String,
    /// Unused.
    pub exporter_failure_threshold: i64,
}

impl Default for CheckCollectorPipeline {
    fn default() -> Self {
        CheckCollectorPipeline { enabled: false, interval: "5m".to_owned(), exporter_failure_threshold: 5 }
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
        problems.require(!self.endpoint.is_empty(), "endpoint", "http endpoint required");
        problems.require(self.path.starts_with('/'), "path", "path must start with /");
        self.server().check(problems);
    }
}

fn build(context: &BuildContext, section: Section<'_>) -> Result<Box<dyn Extension>, ConfigError> {
    let config: HealthCheckConfig = section.decode()?;
    let mut problems = section.problems();
    config.check(&mut problems);
    problems.finish()?;
    unused::warn(&section, &UNUSED);
    warn_unused(&section);
    Ok(Box::new(HealthCheck { name: context.id.to_string(), config }))
}

/// Keys without effect, in addition to those of every server.
const UNUSED: [Unused; 2] = [
    ("check_collector_pipeline", "it is deprecated and does not work: readiness is what is answered"),
    ("component_health", "it belongs to another version of the extension"),
];

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
            let bound = Bound::open(self.config.server(), &self.name, &host).await?;
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
