//! The whole path with the real binary: a slow decode of a stub server is observed by real probes and received by
//! other implementations as one outlier span, over gRPC and HTTP.
//!
//! Needs root, and the Collector for its part. Missing requirements are printed.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "a test, which says why it is skipped"
)]

#[path = "live/mod.rs"]
mod live;

use std::path::Path;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::trace::v1::Span;
use otel_conformance_tests::{CollectorConfig, Protocol, python_server, real_collector};
use pdata::Data;
use simulator::oracle::{Line, StepLine, read};

use crate::live::agent::{Agent, player, turn};
use crate::live::binary::binary;

/// Decodes of 8 ms with a prefill of 25 ms after every five, and one decode that is six times slower.
const SCRIPT: &str = "\
stream main
graph decode main nodes=40
event done
thread engine
  repeat 400
    step prefill main every=5
      repeat 60
        launch main grid=2000 block=256 gpu=400us
      end
      record done main
      sync event done
    end
    step decode main
      fault slow gpu=6x at=320
      copy h2d 2KiB main
      launch main grid=32 block=128
      graphlaunch decode main gpu=8ms
      record done main
      sync event done
    end
  end
end
";

/// Maximum delay of a span after the end of its step.
const LATE_MAX: Duration = Duration::from_secs(2);
const PATIENCE: Duration = Duration::from_secs(30);

/// Returns the slow step.
fn slow_step(dir: &Path) -> StepLine {
    let lines = read(&dir.join("slow.oracle")).unwrap();
    let slow =
        |line| if let Line::Step(step) = line { (!step.fault.is_empty()).then_some(step) } else { None };
    let mut slow: Vec<StepLine> = lines.into_iter().filter_map(slow).collect();
    assert_eq!(slow.len(), 1, "{slow:?}");
    slow.remove(0)
}

fn config(pid: u32, exporters: &[(&str, String)]) -> String {
    let names: Vec<&str> = exporters.iter().map(|(name, _)| *name).collect();
    let settings: String = exporters.iter().map(|(name, text)| format!("  {name}: {text}\n")).collect();
    let pipeline =
        |signal| format!("    {signal}: {{receivers: [gpu], exporters: [{}]}}\n", names.join(", "));
    format!(
        "receivers:\n  gpu: {{pin: {{enabled: false}}, overhead: {{budget: 100%}}, capture: {{trace_all: false, pids: [{pid}]}}}}\nexporters:\n{settings}service:\n  telemetry: {{metrics: {{level: none}}}}\n  pipelines:\n{}{}{}",
        pipeline("traces"),
        pipeline("metrics"),
        pipeline("logs")
    )
}

fn spans(data: &Data) -> Vec<Span> {
    let Data::Traces(traces) = data else { return Vec::new() };
    let scopes = traces.resource_spans.iter().flat_map(|r| &r.scope_spans);
    scopes.flat_map(|s| &s.spans).filter(|s| s.name.starts_with("infer.outlier.")).cloned().collect()
}

fn unix_ns() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos() as u64
}

fn text(span: &Span, key: &str) -> String {
    let attribute = span.attributes.iter().find(|a| a.key == key);
    match attribute.and_then(|a| a.value.as_ref()?.value.as_ref()) {
        Some(Value::StringValue(text)) => text.clone(),
        Some(Value::DoubleValue(number)) => number.to_string(),
        other => panic!("{key}: {other:?} of {span:?}"),
    }
}

/// Returns the spans that overlap the slow step; noise of the machine may cause others.
fn of_step<'a>(spans: &'a [Span], step: &StepLine) -> Vec<&'a Span> {
    let to_unix = capture::offsets().to_unix_ns;
    let unix = |ns: u64| ns.wrapping_add_signed(to_unix);
    let overlaps = |s: &&Span| {
        s.start_time_unix_nano < unix(step.exit_ns) && s.end_time_unix_nano > unix(step.enter_ns) - 1_000_000
    };
    spans.iter().filter(overlaps).collect()
}

/// Checks that there is one span, with the duration, phase and baseline of the player's log.
fn check(spans: &[Span], step: &StepLine) {
    let found = of_step(spans, step);
    let [span] = found.as_slice() else { panic!("{} spans of the slow step: {found:?}", found.len()) };
    assert_eq!(
        (span.name.as_str(), text(span, semconv::attribute::GPU_STEP_PHASE).as_str()),
        ("infer.outlier.3x", "decode")
    );
    let (took, made) = (span.end_time_unix_nano - span.start_time_unix_nano, step.exit_ns - step.first_ns);
    assert!(took.abs_diff(made) < 3_000_000, "span of {took} ns, step of {made} ns");
    let mean: f64 = text(span, semconv::attribute::GPU_STEP_BASELINE_MEAN).parse().unwrap();
    assert!((0.006..0.020).contains(&mean), "the mean of decodes of 8 ms is {mean} s");
}

#[test]
fn slow_decode_reaches_other_receivers_as_one_outlier_span() {
    let Some(warptap) = binary() else { return };
    let _turn = turn();
    let dir = tempfile::tempdir().unwrap();
    let python = python_server().map_err(|why| println!("without Python's server: {why}")).ok();
    let collector = real_collector(&CollectorConfig::default())
        .map_err(|why| println!("without a Collector: {why}"))
        .ok();
    let mut exporters = Vec::new();
    if let Some(server) = &python {
        exporters
            .push(("otlp_grpc/python", format!("{{endpoint: '{}', tls: {{insecure: true}}}}", server.grpc)));
        exporters.push(("otlp_http/python", format!("{{endpoint: 'http://{}'}}", server.http)));
    }
    if let Some(collector) = &collector {
        exporters.push((
            "otlp_grpc/collector",
            format!("{{endpoint: '{}', tls: {{insecure: true}}}}", collector.grpc),
        ));
        exporters.push(("otlp_http/collector", format!("{{endpoint: 'http://{}'}}", collector.http)));
    }
    if exporters.is_empty() {
        return println!("skipped: no receiver is available");
    }
    let mut player = player(&warptap, dir.path(), "slow", SCRIPT);
    let _agent = Agent::run(&warptap, dir.path(), &config(player.pid(), &exporters), &[]);
    player.go().unwrap();
    let done = std::thread::spawn(move || (player.done().unwrap(), player));
    let received = python.map(|server| collect(&server, || done.is_finished()));
    let (_, player) = done.join().unwrap();
    let step = slow_step(dir.path());
    if let Some(received) = received {
        for protocol in [Protocol::Grpc, Protocol::HttpProto] {
            let by: Vec<Span> =
                received.iter().filter(|(p, ..)| *p == protocol).map(|(_, s, _)| s.clone()).collect();
            check(&by, &step);
        }
        let slow = of_step(&received.iter().map(|(_, s, _)| s.clone()).collect::<Vec<_>>(), &step)[0]
            .span_id
            .clone();
        for (protocol, span, at) in received.iter().filter(|(_, s, _)| s.span_id == slow) {
            let late = Duration::from_nanos(at.saturating_sub(span.end_time_unix_nano));
            println!("{protocol:?}: received {late:?} after the step's end");
            assert!(late <= LATE_MAX, "{protocol:?}: {late:?}");
        }
    }
    if let Some(collector) = collector {
        let both =
            |data: &[Data]| of_step(&data.iter().flat_map(spans).collect::<Vec<_>>(), &step).len() >= 2;
        let all: Vec<Span> = collector.received(both).iter().flat_map(spans).collect();
        let found = of_step(&all, &step);
        assert_eq!(found.len(), 2, "once by gRPC and once by HTTP: {found:?}");
        found.into_iter().for_each(|span| check(std::slice::from_ref(span), &step));
    }
    player.finish().unwrap();
}

/// Collects the outlier spans with their times of arrival, until two seconds after the player has finished.
fn collect(
    server: &otel_conformance_tests::PythonServer,
    is_done: impl Fn() -> bool,
) -> Vec<(Protocol, Span, u64)> {
    let (mut received, began) = (Vec::new(), Instant::now());
    let mut end = None;
    while began.elapsed() < PATIENCE && end.is_none_or(|end: Instant| end.elapsed() < LATE_MAX) {
        if end.is_none() && is_done() {
            end = Some(Instant::now());
        }
        if let Some(request) = server.until(Duration::from_millis(50)) {
            let at = unix_ns();
            received.extend(spans(&request.data).into_iter().map(|span| (request.protocol, span, at)));
        }
    }
    received
}
