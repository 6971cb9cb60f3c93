//! The `otlp` receiver: OTLP over gRPC and HTTP.
//!
//! Both protocols decode a signal from bytes and pass it to the next component. A refusal is returned as a status
//! of the protocol with the same code, so that the sender knows whether to retry. `grpc` and `http` implement the
//! protocols, and `sink` passes the data on.

mod config;
mod counts;
mod grpc;
mod http;
mod sink;

use std::sync::Arc;

use ::config::{ConfigError, Section};
use component::auth::ServerAuth;
use component::{
    BoxFuture, BuildContext, ComponentId, Consumer, Host, Receiver, ReceiverFactory, Running, Stability,
    StartResult,
};
use pdata::Signal;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use transport::listen::{Address, Listener, Transport};
use transport::serve;
use transport::tls::{ServerTls, ServerTlsConfig};

pub use self::config::{
    EnforcementPolicy, GrpcConfig, HttpConfig, KeepaliveConfig, OtlpConfig, Protocols, ServerParameters,
};

use counts::Counts;
use sink::Sink;

/// The row of this receiver.
pub const FACTORY: ReceiverFactory = ReceiverFactory {
    kind: "otlp",
    aliases: &[],
    signals: &Signal::ALL,
    stability: Stability::Stable,
    about: "Receives OTLP over gRPC and HTTP.",
    example: "\
protocols:
  grpc:
    endpoint: localhost:4317
  http:
    endpoint: localhost:4318
",
    keys: ::config::keys::<OtlpConfig>,
    build,
};

fn build(context: &BuildContext, section: Section<'_>) -> Result<Box<dyn Receiver>, ConfigError> {
    Ok(Box::new(OtlpReceiver::new(context.id.clone(), config::decode(section)?)))
}

/// A protocol of OTLP.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Protocol {
    /// gRPC.
    Grpc,
    /// HTTP.
    Http,
}

impl Protocol {
    /// Returns the name in the configuration and in metrics.
    pub fn name(self) -> &'static str {
        match self {
            Protocol::Grpc => "grpc",
            Protocol::Http => "http",
        }
    }
}

/// An `otlp` receiver that has not started.
#[derive(Debug)]
pub struct OtlpReceiver {
    id: ComponentId,
    config: OtlpConfig,
    bound: Option<mpsc::UnboundedSender<(Protocol, Address)>>,
}

impl OtlpReceiver {
    /// Creates a receiver from a checked configuration.
    pub fn new(id: ComponentId, config: OtlpConfig) -> Self {
        OtlpReceiver { id, config, bound: None }
    }

    /// Sends the address of each protocol to `bound` once it listens, with the port that was chosen for port 0.
    #[must_use]
    pub fn with_bound_addresses(mut self, bound: mpsc::UnboundedSender<(Protocol, Address)>) -> Self {
        self.bound = Some(bound);
        self
    }

    fn listening(&self, protocol: Protocol, listener: &Listener) {
        let address = listener.address();
        tracing::info!(receiver = %self.id, protocol = protocol.name(), %address, "listening");
        if let Some(bound) = &self.bound {
            let _ = bound.send((protocol, address.clone()));
        }
    }

    fn name(&self, protocol: Protocol) -> String {
        format!("{}/{}", self.id, protocol.name())
    }
}

impl Receiver for OtlpReceiver {
    fn start(
        self: Box<Self>,
        next: Vec<(Signal, Arc<dyn Consumer>)>,
        host: &Host,
        stop: CancellationToken,
    ) -> BoxFuture<'static, StartResult<Running>> {
        let host = host.clone();
        Box::pin(async move {
            let mut servers = JoinSet::new();
            self.start_grpc(&next, &host, &stop, &mut servers).await?;
            self.start_http(&next, &host, &stop, &mut servers).await?;
            let running: Running = Box::pin(async move { while servers.join_next().await.is_some() {} });
            Ok(running)
        })
    }
}

/// The consumers of a receiver, by signal.
type Next = [(Signal, Arc<dyn Consumer>)];

/// The parameters of a protocol's server.
struct Opening<'a> {
    protocol: Protocol,
    /// The protocols that TLS offers.
    alpn: &'static [&'static str],
    endpoint: &'a str,
    transport: Transport,
    tls: Option<&'a ServerTlsConfig>,
    authenticator: Option<ComponentId>,
    includes_metadata: bool,
}

/// A server that listens and does not serve yet.
struct Bound {
    listener: Listener,
    tls: Option<ServerTls>,
    sink: Sink,
}

impl OtlpReceiver {
    async fn open(&self, opening: Opening<'_>, next: &Next, host: &Host) -> StartResult<Bound> {
        let auth = authenticator(opening.authenticator, host)?;
        let tls = opening.tls.map(|tls| ServerTls::open(tls, opening.alpn)).transpose()?;
        let counts = Counts::new(host, &self.id, opening.protocol);
        let sink = Sink::new(next, counts, auth, opening.includes_metadata);
        let listener = Listener::bind(opening.endpoint, opening.transport).await?;
        self.listening(opening.protocol, &listener);
        Ok(Bound { listener, tls, sink })
    }

    async fn start_grpc(
        &self,
        next: &Next,
        host: &Host,
        stop: &CancellationToken,
        servers: &mut JoinSet<()>,
    ) -> StartResult<()> {
        let Some(config) = self.config.protocols.grpc.get() else { return Ok(()) };
        let Bound { listener, tls, sink } = self.open(config.opening(), next, host).await?;
        let settings = grpc::settings(self.name(Protocol::Grpc), config);
        let service = grpc::Service::new(config, sink);
        servers.spawn(serve::run(listener, tls, settings, service, stop.clone()));
        Ok(())
    }

    async fn start_http(
        &self,
        next: &Next,
        host: &Host,
        stop: &CancellationToken,
        servers: &mut JoinSet<()>,
    ) -> StartResult<()> {
        let Some(config) = self.config.protocols.http.get() else { return Ok(()) };
        let Bound { listener, tls, sink } = self.open(config.opening(), next, host).await?;
        let settings = http::settings(self.name(Protocol::Http), config);
        let service = http::Service::new(config, sink);
        servers.spawn(serve::run(listener, tls, settings, service, stop.clone()));
        Ok(())
    }
}

fn authenticator(id: Option<ComponentId>, host: &Host) -> StartResult<Option<Arc<dyn ServerAuth>>> {
    let Some(id) = id else { return Ok(None) };
    let found = host.server_auth(&id);
    found.map(Some).map_err(|e| format!("failed to resolve authenticator \"{id}\": {e}").into())
}

#[cfg(test)]
mod tests;
