//! Our OTLP receiver on loopback, before a consumer of a test.

use std::net::SocketAddr;
use std::sync::Arc;

use component::{ComponentId, Consumer, Host, Receiver as _, Running};
use config::Optional;
use otlp_receiver::{GrpcConfig, HttpConfig, OtlpConfig, OtlpReceiver, Protocols};
use pdata::Signal;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

/// A running OTLP receiver of both protocols on free ports of this machine.
pub struct Receiving {
    /// Address of the gRPC endpoint.
    pub grpc: SocketAddr,
    /// Address of the HTTP endpoint.
    pub http: SocketAddr,
    stop: CancellationToken,
    running: Running,
}

impl Receiving {
    /// Starts a receiver that sends to a consumer, with the default limits.
    pub async fn before(sink: &Arc<impl Consumer + 'static>) -> Self {
        Receiving::limited(sink, 0, 0).await
    }

    /// Starts a receiver with limits: of a message in MiB, of a body in bytes. 0 is the default.
    pub async fn limited(sink: &Arc<impl Consumer + 'static>, message_mib: i64, body_bytes: i64) -> Self {
        let endpoint = "127.0.0.1:0".to_owned();
        let grpc = GrpcConfig {
            endpoint: endpoint.clone(),
            max_recv_msg_size_mib: message_mib,
            ..GrpcConfig::default()
        };
        let mut http = HttpConfig::default();
        http.server.endpoint = endpoint;
        http.server.max_request_body_size = body_bytes;
        let protocols = Protocols { grpc: Optional::some(grpc), http: Optional::some(http) };
        let (bound, mut addresses) = mpsc::unbounded_channel();
        let id = ComponentId::parse("otlp").expect("an id");
        let receiver = OtlpReceiver::new(id, OtlpConfig { protocols }).with_bound_addresses(bound);
        let next = Signal::STABLE.map(|signal| (signal, sink.clone() as Arc<dyn Consumer>)).to_vec();
        let stop = CancellationToken::new();
        let running =
            Box::new(receiver).start(next, &Host::detached(), stop.clone()).await.expect("it starts");
        let mut address =
            async || addresses.recv().await.expect("it listens").1.to_string().parse().expect("an address");
        Receiving { grpc: address().await, http: address().await, stop, running }
    }

    /// Stops the receiver and waits for its end.
    pub async fn end(self) {
        self.stop.cancel();
        self.running.await;
    }
}
