//! Data of a real Collector's exporters as our receiver forwards it: gRPC, and HTTP in both encodings.

mod common;

use common::{batches, json};
use component::testing::{Sink, Started};
use otel_conformance_tests::{CollectorConfig, Receiving, normalised, peer, real_collector};

#[tokio::test(flavor = "multi_thread")]
async fn data_of_a_collector_is_received() {
    let sink = Sink::new();
    let receiving = Receiving::before(&sink).await;
    let (grpc, http) = (receiving.grpc, receiving.http);

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
    let config = CollectorConfig { exporters, ..CollectorConfig::default() };
    let Some(collector) = peer(real_collector(&config)) else { return };
    let settings = format!(
        r#"{{"endpoint": "{}", "tls": {{"insecure": true}}, "sending_queue": {{"enabled": false}}}}"#,
        collector.grpc
    );
    let exporter = Started::exporter(&exporters::otlp_grpc::FACTORY, &settings).await;
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
    drop(collector);
    receiving.end().await;
}
