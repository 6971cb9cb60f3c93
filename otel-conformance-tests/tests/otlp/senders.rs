//! Other senders with our receiver, and the whole path: a Collector, the real binary, a Collector.

use std::net::SocketAddr;
use std::path::Path;
use std::process::{Command, Stdio};

use component::testing::{Sink, Started};
use otel_conformance_tests::{
    Collector, CollectorConfig, Program, free_address, normalised, python_sdk, real_collector,
    warptap_program,
};
use pdata::Data;
use serde_json::json;
use tokio::task::block_in_place;

use crate::common::{batches, json};
use crate::peer;
use crate::receiving::Receiving;

#[tokio::test(flavor = "multi_thread")]
async fn data_of_pythons_exporters_arrives_unchanged() {
    let sink = Sink::new();
    let receiving = Receiving::before(&sink).await;
    let Some(sent) = peer(block_in_place(|| python_sdk(false, receiving.grpc, receiving.http))) else {
        return;
    };
    let got = sink.got();
    for (got, sent) in got.iter().zip(&sent) {
        assert!(sent.is_sent && sent.data.items() >= 2, "{sent:?}");
        assert_eq!(json(got), json(&sent.data));
    }
    assert_eq!((got.len(), sent.len()), (15, 15), "three signals by five ways");
    receiving.end().await;
}

/// Starts the binary with an OTLP receiver at two addresses and two exporters, and waits until it is ready.
fn between(binary: &Path, [grpc, http]: [SocketAddr; 2], behind: &Collector) -> Program {
    let pipeline = "{receivers: [otlp], processors: [batch], exporters: [otlp_grpc, otlp_http]}";
    let yaml = format!(
        "{{receivers: {{otlp: {{protocols: {{grpc: {{endpoint: '{grpc}'}}, http: {{endpoint: '{http}'}}}}}}}}, \
         processors: {{batch: {{timeout: 1ms, send_batch_size: 1}}}}, \
         exporters: {{otlp_grpc: {{endpoint: '{}', tls: {{insecure: true}}}}, \
         otlp_http: {{endpoint: 'http://{}', encoding: json, compression: zstd}}}}, \
         service: {{telemetry: {{metrics: {{level: none}}}}, \
         pipelines: {{traces: {pipeline}, metrics: {pipeline}, logs: {pipeline}}}}}}}",
        behind.grpc, behind.http
    );
    let mut command = Command::new(binary);
    command.arg("--config").arg(format!("yaml:{yaml}")).stdout(Stdio::null());
    Program::start(&mut command).ready().expect("it starts")
}

#[tokio::test(flavor = "multi_thread")]
async fn b10_data_through_two_collectors_is_unchanged() {
    let Some(binary) = peer(warptap_program()) else { return };
    let Some(behind) = peer(real_collector(&CollectorConfig::default())) else { return };
    let at = [free_address(), free_address()];
    let _agent = between(&binary, at, &behind);
    let common = json!({"enabled": false});
    let grpc = json!({"endpoint": at[0].to_string(), "tls": {"insecure": true}, "sending_queue": common});
    let proto = json!({"endpoint": format!("http://{}", at[1]), "sending_queue": common});
    let text = json!({"endpoint": format!("http://{}", at[1]), "sending_queue": common, "encoding": "json"});
    let exporters = vec![
        ("otlp_grpc/ours", grpc.to_string()),
        ("otlp_http/ours", proto.to_string()),
        ("otlp_http/json", text.to_string()),
    ];
    // Each batch is sent to us in three ways, and by us in two.
    let ways = exporters.len() * 2;
    let Some(front) = peer(real_collector(&CollectorConfig { exporters, ..CollectorConfig::default() }))
    else {
        return;
    };
    let settings =
        json!({"endpoint": front.grpc.to_string(), "tls": {"insecure": true}, "sending_queue": common});
    let exporter = Started::exporter(&exporters::otlp_grpc::FACTORY, &settings.to_string()).await;
    let sent = batches(8);
    for data in &sent {
        exporter.send(data.clone()).await.unwrap();
    }
    exporter.end().await;
    let items = |batches: &[Data]| batches.iter().map(Data::items).sum::<usize>();
    let want = items(&sent) * ways;
    let received = block_in_place(|| behind.received(|got| items(got) >= want));
    let mut got = crate::grouping::items(&received);
    let mut expected: Vec<String> = Vec::new();
    for _ in 0..ways {
        expected.extend(crate::grouping::items(&sent.iter().map(normalised).collect::<Vec<_>>()));
    }
    got.sort();
    expected.sort();
    for (got, want) in got.iter().zip(&expected) {
        assert_eq!(got, want);
    }
    assert_eq!(got.len(), expected.len());
}
