//! Data of a real Collector's exporters as our receiver forwards it: gRPC, and HTTP in both encodings.

mod common;

use std::sync::Arc;

use common::{batches, json};
use component::{ComponentId, Consumer, Receiver};
use otel_conformance_tests::{CollectorConfig, Exporting, Sink, normalised, real_collector};
use otlp_receiver::{GrpcConfig, HttpConfig, OtlpConfig, OtlpReceiver, Protocol, Protocols};
use pdata::Signal;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

#[tokio::test(flavor = "multi_thread")]
async fn data_of_a_collector_is_received() {
    let anywhere = || "127.0.0.1:0".to_owned();
    let grpc = GrpcConfig { endpoint: anywhere(), ..GrpcConfig::default() };
    let mut http = HttpConfig::default();
    http.server.endpoint = anywhere();
    let protocols = Protocols { grpc: config::Optional::some(grpc), http: config::Optional::some(http) };
    let (bound, mut addresses) = mpsc::unbounded_channel();
    let id = ComponentId::parse("otlp").unwrap();
    let receiver = OtlpReceiver::new(id, OtlpConfig { protocols }).with_bound_addresses(bound);
    let (sink, stop) = (Arc::new(Sink::default()), CancellationToken::new());
    let next = Signal::STABLE.map(|signal| (signal, sink.clone() as Arc<dyn Consumer>)).to_vec();
    let running = Box::new(receiver).start(next, &component::Host::detached(), stop.clone()).await.unwrap();
    let (Some((Protocol::Grpc, grpc)), Some((Protocol::Http, http))) =
        (addresses.recv().await, addresses.recv().await)
    else {
        panic!("both protocols listen")
    };

    // Without a queue and one at a time, so that the order is that of sending.
    let common = r#""sending_queue": {"enabled": false}"#;
    let mut exporters = vec![
        ("otlp_grpc/x", format!(r#"{{"endpoint": "{grpc}", "tls": {{"insecure": true}}, {common}}}"#)),
        ("otlp_http/proto", format!(r#"{{"endpoint": "http://{http}", "compression": "none", {common}}}"#)),
        ("otlp_http/json", format!(r#"{{"endpoint": "http://{http}", "encoding": "json", {common}}}"#)),
    ];
    for (kind, to, compressions) in [
        ("otlp_grpc", &grpc.to_string(), &["snappy", "zstd"][..]),
        (
            "otlp_http",
            &format!("http://{http}"),
            &["deflate", "lz4", "snappy", "x-snappy-framed", "zlib", "zstd"],
        ),
    ] {
        for compression in compressions {
            let settings = format!(
                r#"{{"endpoint": "{to}", "tls": {{"insecure": true}}, "compression": "{compression}", {common}}}"#
            );
            exporters.push((format!("{kind}/{compression}").leak(), settings));
        }
    }
    let ways = exporters.len();
    let collector = match real_collector(&CollectorConfig { exporters, ..CollectorConfig::default() }) {
        Ok(collector) => collector,
        Err(reason) => return println!("skipped: {reason}"),
    };
    let settings = format!(
        r#"{{"endpoint": "{}", "tls": {{"insecure": true}}, "sending_queue": {{"enabled": false}}}}"#,
        collector.grpc
    );
    let exporter = Exporting::by(&exporters::otlp_grpc::FACTORY, &settings).await;
    let mut got = 0;
    for data in batches(12) {
        exporter.send(data.clone()).await.unwrap();
        let arrived = sink.got();
        assert_eq!(arrived.len() - got, ways, "it answers once all its exporters have sent");
        for one in &arrived[got..] {
            assert_eq!(json(&normalised(one)), json(&normalised(&data)));
        }
        got = arrived.len();
    }
    exporter.end().await;
    stop.cancel();
    drop(collector);
    running.await;
}
