use std::io::{Read as _, Write as _};
use std::net::TcpStream;

use component::{BoxFuture, ComponentId, Consumer, Receiver, Refused};
use config::{Node, Section};
use otlp_receiver::{OtlpReceiver, Protocol};
use pdata::{Data, Signal};
use tokio::sync::mpsc::{self, UnboundedReceiver, UnboundedSender};

use super::*;
use crate::config::yaml;

/// Serializes the tests: each start of telemetry replaces the log of the process.
static ONE_AT_A_TIME: tokio::sync::Mutex<()> = tokio::sync::Mutex::const_new(());

/// Parses a section, without its default log output.
fn config(text: &str) -> Config {
    let node: Node = yaml::parse(text, &"telemetry".into()).expect(text);
    let (mut config, error) = Config::read(Section::new("service::telemetry", &node));
    assert_eq!(error.problems(), [], "{text}");
    config.logs.output_paths.clear();
    config
}

fn pull(more: &str) -> Config {
    config(&format!(
        "{{resource: {{attributes: [{{name: service.instance.id, value: me}}]}}, metrics: {{readers: \
         [{{pull: {{exporter: {{prometheus: {{host: 127.0.0.1, port: 0{more}}}}}}}}}]}}}}"
    ))
}

async fn started(config: &Config) -> InternalTelemetry {
    InternalTelemetry::start(config).await.unwrap()
}

/// Requests a path and returns the whole response.
async fn get(address: SocketAddr, path: &str, headers: &str) -> String {
    let request = format!("GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n{headers}\r\n");
    let request = tokio::task::spawn_blocking(move || {
        let mut stream = TcpStream::connect(address).unwrap();
        stream.write_all(request.as_bytes()).unwrap();
        let mut response = String::new();
        stream.read_to_string(&mut response).unwrap();
        response
    });
    request.await.unwrap()
}

#[expect(clippy::disallowed_methods, reason = "a name for the test")]
fn count(host: &Host, name: &'static str) {
    host.meter()
        .u64_counter(name)
        .with_unit("{spans}")
        .build()
        .add(3, &[KeyValue::new("otel.signal", "traces")]);
}

#[tokio::test(flavor = "multi_thread")]
async fn metrics_are_served_for_prometheus() {
    let _one = ONE_AT_A_TIME.lock().await;
    let telemetry = started(&pull("")).await;
    count(&telemetry.host(), "otelcol_receiver_accepted_spans");
    count(&telemetry.host(), "otelcol_exporter_enqueue_size");
    let address = telemetry.addresses()[0];
    let response = get(address, "/metrics", "Accept: application/openmetrics-text\r\n").await;
    for part in [
        "HTTP/1.1 200",
        "content-type: text/plain; version=0.0.4",
        "\n# TYPE otelcol_receiver_accepted_spans counter\notelcol_receiver_accepted_spans{otel_signal=\"traces\"} 3\n",
        "\n# TYPE otelcol_process_memory_rss gauge\n",
        "\ntarget_info{service_instance_id=\"me\",service_name=\"warptap\",service_version=\"",
    ] {
        assert!(response.contains(part), "{part}\n{response}");
    }
    assert!(!response.contains("otelcol_exporter_enqueue_size"), "measured only at level detailed");
    assert!(get(address, "/", "").await.starts_with("HTTP/1.1 404"));
    telemetry.stop(Duration::from_secs(10)).await;
    assert!(TcpStream::connect(address).is_err());
}

#[tokio::test(flavor = "multi_thread")]
async fn names_have_suffixes_and_labels_if_configured() {
    let _one = ONE_AT_A_TIME.lock().await;
    let more = ", without_units: false, without_scope_info: false, with_resource_constant_labels: {included: [service.name]}";
    let telemetry = started(&pull(more)).await;
    count(&telemetry.host(), "otelcol_receiver_accepted_spans");
    let response =
        get(telemetry.addresses()[0], "/metrics", "Accept: application/openmetrics-text\r\n").await;
    let line = format!(
        "\notelcol_receiver_accepted_spans_total{{otel_scope_name=\"warptap\",otel_scope_schema_url=\"\",\
         otel_scope_version=\"{}\",otel_signal=\"traces\",service_name=\"warptap\"}} 3.0\n",
        crate::prepare::VERSION
    );
    assert!(
        response.contains(&line) && response.contains("# TYPE otelcol_process_uptime_seconds counter"),
        "{response}"
    );
    telemetry.stop(Duration::from_secs(10)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_change_of_readers_preserves_counts() {
    let _one = ONE_AT_A_TIME.lock().await;
    let mut telemetry = started(&pull("")).await;
    count(&telemetry.host(), "otelcol_receiver_accepted_spans");
    let before = telemetry.addresses()[0];
    telemetry.reconfigure(&pull("")).await.unwrap();
    assert_eq!(telemetry.addresses(), [before], "nothing changed");

    telemetry.reconfigure(&pull(", without_scope_info: false")).await.unwrap();
    let after = telemetry.addresses()[0];
    assert!(get(after, "/metrics", "").await.contains("otel_scope_name=\"warptap\""));

    // The port is in use: the previous reader is restored, at another free port.
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let mut wrong = pull("");
    let ReaderConfig::Pull(prometheus) = &mut wrong.metrics.readers[0] else { panic!("it is a pull reader") };
    prometheus.port = taken.local_addr().unwrap().port();
    let error = format!("{:#}", anyhow::Error::from(telemetry.reconfigure(&wrong).await.unwrap_err()));
    assert!(error.starts_with("failed to create meter provider: binding address 127.0.0.1:"), "{error}");
    assert_eq!(error.matches("Address already in use").count(), 1, "{error}");
    let response = get(telemetry.addresses()[0], "/metrics", "").await;
    assert!(
        response.contains("otelcol_receiver_accepted_spans{") && response.contains("} 3\n"),
        "{response}"
    );
    telemetry.stop(Duration::from_secs(10)).await;
}

/// A consumer that forwards data to a channel.
struct Sink(UnboundedSender<Data>);

impl Consumer for Sink {
    fn consume(&self, data: Data) -> BoxFuture<'_, Result<(), Refused>> {
        _ = self.0.send(data);
        Box::pin(std::future::ready(Ok(())))
    }
}

/// Starts our OTLP receiver, and returns its gRPC and HTTP addresses and a channel of the data it receives.
async fn receiver(stop: CancellationToken) -> (String, String, UnboundedReceiver<Data>) {
    let settings =
        r#"{"protocols": {"grpc": {"endpoint": "127.0.0.1:0"}, "http": {"endpoint": "127.0.0.1:0"}}}"#;
    let node: Node = serde_json::from_str(settings).unwrap();
    let config = Section::new("receivers::otlp", &node).decode().unwrap();
    let ((bound, mut addresses), (sink, taken)) = (mpsc::unbounded_channel(), mpsc::unbounded_channel());
    let receiver = OtlpReceiver::new(ComponentId::parse("otlp").unwrap(), config).with_bound_addresses(bound);
    let next: Vec<(Signal, Arc<dyn Consumer>)> =
        Signal::ALL.iter().map(|signal| (*signal, Arc::new(Sink(sink.clone())) as _)).collect();
    let running = Box::new(receiver).start(next, &Host::detached(), stop).await.unwrap();
    tokio::spawn(running);
    let (mut grpc, mut http) = (String::new(), String::new());
    for _ in 0..2 {
        let (protocol, address) = addresses.recv().await.unwrap();
        let slot = if protocol == Protocol::Grpc { &mut grpc } else { &mut http };
        *slot = address.to_string();
    }
    (grpc, http, taken)
}

/// Returns the next batch that contains `part`, as JSON.
async fn arrives(taken: &mut UnboundedReceiver<Data>, part: &str) -> String {
    loop {
        let data = taken.recv().await.expect("the receiver runs");
        let json = String::from_utf8(pdata::json::encode(&data)).unwrap();
        if json.contains(part) {
            return json;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn pushed_telemetry_arrives() {
    let _one = ONE_AT_A_TIME.lock().await;
    let stop = CancellationToken::new();
    let (grpc, http, mut taken) = receiver(stop.clone()).await;
    for (protocol, endpoint, more) in [
        ("grpc", grpc, ", insecure: true"),
        ("http/protobuf", format!("http://{http}"), ", compression: gzip"),
    ] {
        let to = format!(
            "exporter: {{otlp: {{protocol: {protocol}, endpoint: '{endpoint}'{more}, headers: [{{name: a, value: b}}]}}}}"
        );
        let config = config(&format!(
            "{{metrics: {{readers: [{{periodic: {{interval: 20, {to}}}}}, \
              {{periodic: {{interval: 3600000, {}}}}}]}}, \
              traces: {{processors: [{{batch: {{schedule_delay: 10, {to}}}}}]}}, \
              logs: {{processors: [{{simple: {{{to}}}}}]}}}}",
            to.replace("headers:", "temporality_preference: delta, headers:")
        ));
        let telemetry = started(&config).await;
        count(&telemetry.host(), "otelcol_receiver_accepted_spans");
        let metrics = arrives(&mut taken, "otelcol_receiver_accepted_spans").await;
        assert!(
            metrics.contains(r#""aggregationTemporality":2"#) && metrics.contains("service.instance.id"),
            "{metrics}"
        );

        let span = telemetry.host().spans().begin(&"receiver/otlp/TraceDataReceived".into()).unwrap();
        span.end(vec![KeyValue::new("accepted_spans", 3)], Some("full".to_owned()));
        let spans = arrives(&mut taken, "receiver/otlp/TraceDataReceived").await;
        assert!(spans.contains("accepted_spans") && spans.contains(r#""message":"full""#), "{spans}");

        tracing::warn!(port = 4317, "logged over {protocol}");
        let record = arrives(&mut taken, &format!("logged over {protocol}")).await;
        assert!(record.contains("\"severityText\":\"warn\"") && record.contains("\"port\""), "{record}");

        // The stop sends the remaining data: the delta reader has not exported yet.
        telemetry.stop(Duration::from_secs(10)).await;
        arrives(&mut taken, r#""aggregationTemporality":1"#).await;
    }
    stop.cancel();
}

#[tokio::test(flavor = "multi_thread")]
async fn level_none_measures_nothing_and_serves_no_metrics() {
    let _one = ONE_AT_A_TIME.lock().await;
    let telemetry = started(&config("metrics: {level: none}")).await;
    count(&telemetry.host(), "otelcol_receiver_accepted_spans");
    assert_eq!(telemetry.addresses(), []);
    assert!(!telemetry.host().spans().is_on());
    telemetry.stop(Duration::from_secs(10)).await;
}
