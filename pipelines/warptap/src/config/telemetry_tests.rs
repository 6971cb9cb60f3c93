use std::time::Duration;

use config::{Problem, Seen, Value};

use super::*;
use crate::config::LogLevel;
use crate::config::yaml;

/// Reads a section in YAML; returns it with problems and warnings.
fn read(text: &str) -> (TelemetryConfig, Vec<String>, Vec<String>) {
    let node = yaml::parse(text, &"telemetry".into()).expect(text);
    let seen = Seen::default();
    let section = Section::new("service::telemetry", &node).noting(&seen);
    let (telemetry, error) = TelemetryConfig::read(section);
    let texts =
        |problems: Vec<Problem>| problems.iter().map(|p| format!("{}: {}", p.path, p.message)).collect();
    (telemetry, texts(error.into_problems()), texts(seen.warnings()))
}

#[track_caller]
fn check(text: &str, problems: &[&str], warnings: &[&str]) -> TelemetryConfig {
    let (telemetry, wrong, odd) = read(text);
    for (got, want) in [(&wrong, problems), (&odd, warnings)] {
        assert_eq!(got.len(), want.len(), "{text}: {got:#?}");
        for (got, want) in got.iter().zip(want) {
            assert!(got.starts_with(&format!("service::telemetry::{want}")), "{text}: {got}");
        }
    }
    telemetry
}

#[test]
fn empty_section_has_the_defaults_of_the_collector() {
    for text in ["", "{logs: , metrics: , traces: , resource: }", "{metrics: {level: normal, readers: }}"] {
        assert_eq!(check(text, &[], &[]), TelemetryConfig::default(), "{text}");
    }
    let default = TelemetryConfig::default();
    assert_eq!(default.metrics.level, MetricsLevel::Normal);
    let [ReaderConfig::Pull(prometheus)] = default.metrics.readers.as_slice() else { panic!("one reader") };
    assert_eq!((&*prometheus.host, prometheus.port, prometheus.has_suffixes), ("localhost", 8888, false));
    assert_eq!(default.logs.sampling, Some(Sampling::default()));
}

#[test]
fn log_settings_are_read() {
    let logs = check(
        "logs: {level: WARN, encoding: json, disable_caller: true, disable_zap_resource: true, disable_stacktrace: true, \
         sampling: {initial: 3}, output_paths: [stdout, file:///tmp/x], initial_fields: {b: 1, a: [x]}}",
        &[],
        &[],
    )
    .logs;
    assert_eq!((logs.level, logs.encoding), (LogLevel::Warn, LogEncoding::Json));
    assert_eq!((logs.has_caller, logs.has_resource), (false, false));
    assert_eq!(logs.sampling, Some(Sampling { initial: 3, ..Sampling::default() }));
    assert_eq!(logs.output_paths, ["stdout", "/tmp/x"]);
    let names: Vec<&str> = logs.initial_fields.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["a", "b"]);
    assert_eq!(check("logs: {sampling: {enabled: false}}", &[], &[]).logs.sampling, None);
}

#[test]
fn level_none_disables_metrics() {
    assert_eq!(check("metrics: {level: none}", &[], &[]).metrics.readers, []);
    assert_eq!(check("metrics: {level: None, readers: []}", &[], &[]).metrics.level, MetricsLevel::None);
}

#[test]
fn readers_are_read() {
    let metrics = check(
        "metrics: {level: Detailed, readers: [{pull: {exporter: {prometheus: {host: '', port: 0, without_type_suffix: false, \
         with_resource_constant_labels: {included: [service.name]}}}}}, \
         {periodic: {interval: 500, exporter: {otlp: {protocol: grpc, endpoint: 'h:1', insecure: true, temporality_preference: delta}}}}, \
         {periodic: {exporter: {console: {}}}}]}",
        &[],
        &[],
    )
    .metrics;
    let [
        ReaderConfig::Pull(prometheus),
        ReaderConfig::Periodic { interval, exporter: ExporterConfig::Otlp(otlp), .. },
        ReaderConfig::Periodic { .. },
    ] = metrics.readers.as_slice()
    else {
        panic!("{metrics:?}")
    };
    assert!(prometheus.has_suffixes && !prometheus.has_scope_labels);
    let labels = prometheus.resource_labels.as_ref().unwrap();
    assert!(labels.takes("service.name") && !labels.takes("host.name"));
    assert_eq!(*interval, Duration::from_millis(500));
    assert_eq!((&*otlp.endpoint, otlp.temporality), ("http://h:1", Temporality::Delta));
}

#[test]
fn processors_have_the_defaults_of_the_go_sdk() {
    let text = "traces: {processors: [{batch: {exporter: {otlp: {protocol: http/protobuf, endpoint: 'https://h/x', \
        headers: [{name: a, value: b}], headers_list: 'c=d, e=f'}}}}]}";
    let traces = check(text, &[], &[]).traces;
    let [
        ProcessorConfig {
            delay,
            batch_size_max: 512,
            queue_size_max: 2048,
            exporter: ExporterConfig::Otlp(otlp),
            ..
        },
    ] = traces.as_slice()
    else {
        panic!("{traces:?}")
    };
    assert_eq!((*delay, otlp.timeout), (Duration::from_secs(5), Duration::from_secs(10)));
    assert_eq!(otlp.headers.iter().collect::<Vec<_>>(), [("a", "b")]);
    assert_eq!(otlp.headers_list.len(), 2);
    let off = text.replace("traces: {", "traces: {level: none, ");
    assert_eq!(check(&off, &[], &[]).traces, []);
}

#[test]
fn resource_is_a_list_or_keys() {
    let text = |text: &str| Value::String(text.to_owned());
    let list = check("resource: {attributes: [{name: a, value: b}, {name: n, value: 3}]}", &[], &[]).resource;
    assert_eq!(list.attributes, [("a".to_owned(), text("b")), ("n".to_owned(), Value::Int(3))]);
    let keys =
        check("resource: {a: b, service.version: null}", &[], &["resource: legacy inline map"]).resource;
    assert_eq!(
        (keys.attributes, keys.removed),
        (vec![("a".to_owned(), text("b"))], vec!["service.version".to_owned()])
    );
}

#[test]
fn wrong_values_are_problems_with_positions() {
    for (text, problems) in [
        ("logs: {encoding: xml}", &["logs::encoding: unsupported value \"xml\""] as &[&str]),
        ("logs: {output_paths: ['http://x']}", &["logs::output_paths[0]: \"http://x\" cannot be opened"]),
        ("logs: {sampling: {initial: -1}}", &["logs::sampling::initial: -1 is negative: expected 0 or more"]),
        ("metrics: {level: high}", &["metrics::level: unsupported value \"high\""]),
        ("metrics: {readers: []}", &["metrics::readers: collector telemetry metrics reader should exist"]),
        ("metrics: {views: []}", &["metrics::views: service::telemetry::metrics::views can only be set"]),
        ("metrics: {readers: [{}]}", &["metrics::readers[0]: no valid metric reader"]),
        (
            "metrics: {readers: [{pull: {exporter: {prometheus: {}}}}]}",
            &[
                "metrics::readers[0]::pull::exporter::prometheus: host must be specified",
                "metrics::readers[0]::pull::exporter::prometheus: port must be specified",
            ],
        ),
        (
            "metrics: {readers: [{periodic: {interval: 5s, exporter: {console: {}}}}]}",
            &["metrics::readers[0]::periodic::interval: expected type 'uint64'"],
        ),
        (
            "metrics: {readers: [{periodic: {exporter: {console: }}}]}",
            &["metrics::readers[0]::periodic::exporter: no valid metric exporter"],
        ),
        (
            "metrics: {readers: [{periodic: {exporter: {otlp: {protocol: http/json, endpoint: h}}}}]}",
            &["metrics::readers[0]::periodic::exporter::otlp::protocol: unsupported value \"http/json\""],
        ),
        ("traces: {processors: [{}]}", &["traces::processors[0]: unsupported span processor type"]),
        (
            "traces: {processors: [{simple: {exporter: {otlp: {protocol: grpc, temporality_preference: delta}}}}]}",
            &["traces::processors[0]::simple::exporter::otlp: has invalid keys: temporality_preference"],
        ),
        (
            "resource: {attributes_list: a=b}",
            &["resource::attributes_list: resource::attributes_list is not"],
        ),
        ("metrics: {level: detailed, views: [{}]}", &["metrics::views[0]: view: no selector provided"]),
    ] {
        check(text, problems, &[]);
    }
    check(
        "traces: {propagators: [x]}",
        &["traces::propagators[0]: unsupported value \"x\": expected one of \"tracecontext\", \"b3\""],
        &["traces::propagators: accepted without effect"],
    );
    let number = "resource: {a: 3}";
    check(
        number,
        &["resource::a: legacy resource attribute \"a\" must be string or null"],
        &["resource: legacy"],
    );
    let both = "resource: {attributes: [{name: a, value: b}], c: d}";
    check(both, &["resource: resource::attributes cannot be used together"], &["resource: legacy inline"]);
}

#[test]
fn keys_without_effect_are_reported() {
    for (text, warnings) in [
        (
            "metrics: {readers: [{producers: [x], periodic: {exporter: {console: {}}}}]}",
            &["metrics::readers[0]::producers: accepted without effect"] as &[&str],
        ),
        ("logs: {development: true}", &["logs::development: accepted without effect"]),
        ("logs: {disable_stacktrace: false}", &["logs::disable_stacktrace: accepted without effect"]),
        (
            "traces: {propagators: [b3], sampler: {always_on: }}",
            &["traces::propagators: ", "traces::sampler: "],
        ),
        ("resource: {schema_url: x, detectors: {x: }}", &["resource::schema_url: ", "resource::detectors: "]),
    ] {
        check(text, &[], warnings);
    }
}
