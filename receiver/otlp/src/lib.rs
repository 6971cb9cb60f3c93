//! The `otlp` receiver: OTLP over gRPC and over HTTP, as the Collector's.
//!
//! The one idea: both protocols come down to "a signal and its bytes"; what decodes well is handed to the next
//! component, and its answer travels back as a status of the protocol, so that a sender learns whether to try
//! again. This file is the configuration and the start; `grpc` and `http` speak the protocols, `serve` accepts
//! connections. What becomes of the data is left to the pipelines.

mod config;
mod counts;
mod grpc;
mod http;
mod serve;

use std::net::SocketAddr;
use std::sync::Arc;

use component::config::{ConfigError, Section};
use component::{
    BoxFuture, BuildContext, ComponentId, Consumer, Host, Receiver, ReceiverFactory, Running, Signal,
    Stability, StartResult,
};
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

pub use config::{GrpcConfig, HttpConfig, OtlpConfig, Protocols};
pub use counts::{Counts, CountsSnapshot};

/// The row of this receiver.
pub const FACTORY: ReceiverFactory = ReceiverFactory {
    kind: "otlp",
    aliases: &[],
    signals: &Signal::STABLE,
    stability: Stability::Stable,
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
    /// HTTP/1.1.
    Http,
}

/// An `otlp` receiver that has not started.
#[derive(Debug)]
pub struct OtlpReceiver {
    id: ComponentId,
    config: OtlpConfig,
    counts: Arc<Counts>,
    bound: Option<mpsc::UnboundedSender<(Protocol, SocketAddr)>>,
}

impl OtlpReceiver {
    /// A receiver by a configuration that was checked.
    pub fn new(id: ComponentId, config: OtlpConfig) -> Self {
        OtlpReceiver { id, config, counts: Arc::default(), bound: None }
    }

    /// Tells `bound` the address of each protocol once it listens: an endpoint may leave the port open.
    #[must_use]
    pub fn telling(mut self, bound: mpsc::UnboundedSender<(Protocol, SocketAddr)>) -> Self {
        self.bound = Some(bound);
        self
    }

    /// What it has accepted and refused, to be looked at while it runs.
    pub fn counts(&self) -> Arc<Counts> {
        self.counts.clone()
    }

    fn listening(&self, protocol: Protocol, listener: &TcpListener) {
        let Ok(address) = listener.local_addr() else { return };
        tracing::info!(receiver = %self.id, ?protocol, %address, "listening");
        if let Some(bound) = &self.bound {
            let _ = bound.send((protocol, address));
        }
    }
}

impl Receiver for OtlpReceiver {
    fn start(
        self: Box<Self>,
        next: Vec<(Signal, Arc<dyn Consumer>)>,
        _: &Host,
        stop: CancellationToken,
    ) -> BoxFuture<'static, StartResult<Running>> {
        Box::pin(async move {
            let sink = |protocol| Sink::new(next.clone(), protocol, self.counts.clone());
            let mut servers = tokio::task::JoinSet::new();
            if let Some(grpc) = self.config.protocols.grpc.get() {
                let listener = serve::listen(&grpc.endpoint).await?;
                self.listening(Protocol::Grpc, &listener);
                let service = grpc::Service::new(grpc, sink(Protocol::Grpc));
                servers.spawn(serve::run(listener, service, self.id.clone(), stop.clone()));
            }
            if let Some(http) = self.config.protocols.http.get() {
                let listener = serve::listen(&http.endpoint).await?;
                self.listening(Protocol::Http, &listener);
                let service = http::Service::new(http, sink(Protocol::Http));
                servers.spawn(serve::run(listener, service, self.id.clone(), stop.clone()));
            }
            let running: Running = Box::pin(async move { while servers.join_next().await.is_some() {} });
            Ok(running)
        })
    }
}

/// Where the data of one protocol goes, by signal in the order of [`Signal::STABLE`], and its counts.
#[derive(Clone)]
pub(crate) struct Sink {
    next: [Option<Arc<dyn Consumer>>; 3],
    protocol: Protocol,
    counts: Arc<Counts>,
}

impl Sink {
    fn new(next: Vec<(Signal, Arc<dyn Consumer>)>, protocol: Protocol, counts: Arc<Counts>) -> Self {
        let mut by_signal = [None, None, None];
        for (signal, consumer) in next {
            by_signal[signal as usize] = Some(consumer);
        }
        Sink { next: by_signal, protocol, counts }
    }

    /// True where a pipeline wants the signal.
    pub(crate) fn wants(&self, signal: Signal) -> bool {
        self.next[signal as usize].is_some()
    }

    /// Hands data on. What is empty is taken without a word to anyone, as OTLP asks.
    pub(crate) async fn take(&self, data: component::Data) -> Result<(), component::Refused> {
        let (signal, items) = (data.signal(), data.items());
        let Some(next) = &self.next[signal as usize] else {
            return Err(component::Refused::permanent(format!("no pipeline for {}", signal.name())));
        };
        if items == 0 {
            return Ok(());
        }
        let outcome = next.consume(data).await;
        self.counts.add(self.protocol, signal, items, outcome.is_ok());
        outcome
    }
}

#[cfg(test)]
mod tests;
