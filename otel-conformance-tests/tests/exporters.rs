//! Data of our exporters as other implementations receive it: over gRPC and HTTP, compressed and not, in both
//! encodings. The Python server decodes it with Google's protobuf; the Collector writes it to a file.

mod common;

use std::net::SocketAddr;

use common::{batches, json};
use component::ExporterFactory;
use component::testing::Started;
use otel_conformance_tests::{CollectorConfig, Protocol, normalised, peer, python_server, real_collector};
use pdata::Data;

/// An exporter, settings in addition to its endpoint, and the protocol and compression that a server sees.
type Way = (ExporterFactory, &'static str, Protocol, bool);

const WAYS: [Way; 6] = [
    (exporters::otlp_grpc::FACTORY, r#""compression": "gzip""#, Protocol::Grpc, true),
    (exporters::otlp_grpc::FACTORY, r#""compression": "none""#, Protocol::Grpc, false),
    (exporters::otlp_http::FACTORY, r#""compression": "gzip""#, Protocol::HttpProto, true),
    (exporters::otlp_http::FACTORY, r#""compression": "none""#, Protocol::HttpProto, false),
    (exporters::otlp_http::FACTORY, r#""encoding": "json""#, Protocol::HttpJson, true),
    (
        exporters::otlp_http::FACTORY,
        r#""encoding": "json", "compression": "none""#,
        Protocol::HttpJson,
        false,
    ),
];

/// Compressions that only the Collector supports.
const COMPRESSED: [Way; 8] = [
    (exporters::otlp_grpc::FACTORY, r#""compression": "snappy""#, Protocol::Grpc, true),
    (exporters::otlp_grpc::FACTORY, r#""compression": "zstd""#, Protocol::Grpc, true),
    (exporters::otlp_http::FACTORY, r#""compression": "deflate""#, Protocol::HttpProto, true),
    (exporters::otlp_http::FACTORY, r#""compression": "lz4""#, Protocol::HttpProto, true),
    (exporters::otlp_http::FACTORY, r#""compression": "snappy""#, Protocol::HttpProto, true),
    (exporters::otlp_http::FACTORY, r#""compression": "x-snappy-framed""#, Protocol::HttpProto, true),
    (exporters::otlp_http::FACTORY, r#""compression": "zlib""#, Protocol::HttpProto, true),
    (exporters::otlp_http::FACTORY, r#""compression": "zstd""#, Protocol::HttpProto, true),
];

async fn exporting((factory, more, protocol, _): &Way, grpc: SocketAddr, http: SocketAddr) -> Started {
    let settings = match protocol {
        Protocol::Grpc => format!(r#"{{"endpoint": "{grpc}", "tls": {{"insecure": true}}, {more}}}"#),
        _ => format!(r#"{{"endpoint": "http://{http}", "headers": {{"X-Tenant": "a b"}}, {more}}}"#),
    };
    Started::exporter(factory, &settings).await
}

#[tokio::test(flavor = "multi_thread")]
async fn python_receives_sent_data() {
    let Some(server) = peer(python_server()) else { return };
    for way in &WAYS {
        let exporter = exporting(way, server.grpc, server.http).await;
        for data in batches(12) {
            exporter.send(data.clone()).await.unwrap();
            let received = tokio::task::block_in_place(|| server.next());
            assert_eq!(received.protocol, way.2);
            assert_eq!(json(&received.data), json(&data), "{:?} {}", way.2, way.1);
            if way.2 != Protocol::Grpc {
                assert_eq!(received.is_gzip, way.3, "{}", way.1);
                assert!(received.headers.contains(&("x-tenant".to_owned(), "a b".to_owned())));
            }
        }
        exporter.end().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn collector_receives_sent_data() {
    for way in WAYS.iter().chain(&COMPRESSED) {
        let Some(collector) = peer(real_collector(&CollectorConfig::default())) else { return };
        let exporter = exporting(way, collector.grpc, collector.http).await;
        let sent = batches(12);
        for data in &sent {
            exporter.send(data.clone()).await.unwrap();
        }
        exporter.end().await;
        let received = tokio::task::block_in_place(|| collector.received(|got| got.len() >= sent.len()));
        // Several consumers send concurrently, so the order varies.
        let sorted = |batches: &[Data]| {
            let mut texts: Vec<String> = batches.iter().map(|data| json(&normalised(data))).collect();
            texts.sort();
            texts
        };
        let (got, want) = (sorted(&received), sorted(&sent));
        for (got, want) in got.iter().zip(&want) {
            assert_eq!(got, want, "{:?} {}", way.2, way.1);
        }
        assert_eq!(got.len(), want.len());
    }
}
