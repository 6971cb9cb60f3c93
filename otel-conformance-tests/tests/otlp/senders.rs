//! Other senders with our receiver, and the whole path: a Collector, the real binary, a Collector.

use std::io::{BufRead as _, BufReader};
use std::net::{SocketAddr, TcpListener};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

use otel_conformance_tests::{
    Collector, CollectorConfig, Exporting, Sink, normalised, python_sdk, real_collector,
};
use pdata::Data;
use serde_json::json;
use tokio::task::block_in_place;

use crate::common::{batches, json};
use crate::peer;
use crate::receiving::Receiving;

#[tokio::test(flavor = "multi_thread")]
async fn data_of_pythons_exporters_arrives_unchanged() {
    let sink = Arc::new(Sink::default());
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

/// The running binary, killed on drop.
struct Agent(Child);

impl Drop for Agent {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Agent {
    /// Starts the binary with an OTLP receiver at two addresses and two exporters, and waits until it is ready.
    fn between(binary: &PathBuf, [grpc, http]: [SocketAddr; 2], behind: &Collector) -> Agent {
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
        command.arg("--config").arg(format!("yaml:{yaml}"));
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut process = command.spawn().unwrap();
        let mut lines = BufReader::new(process.stderr.take().unwrap()).lines().map_while(Result::ok);
        let agent = Agent(process);
        assert!(lines.any(|line| line.contains("Everything is ready")), "it does not start");
        std::thread::spawn(move || lines.for_each(drop));
        agent
    }
}

fn warptap() -> Option<PathBuf> {
    let path = std::env::current_exe().ok()?.parent()?.parent()?.join("warptap");
    path.is_file().then_some(path)
}

fn free() -> SocketAddr {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn b10_data_through_two_collectors_is_unchanged() {
    let Some(binary) = warptap() else { return println!("skipped: warptap is not built beside this test") };
    let Some(behind) = peer(real_collector(&CollectorConfig::default())) else { return };
    let at = [free(), free()];
    let _agent = Agent::between(&binary, at, &behind);
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
    let exporter = Exporting::by(&exporters::otlp_grpc::FACTORY, &settings.to_string()).await;
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
