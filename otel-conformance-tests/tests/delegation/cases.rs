//! Configurations with components that warptap does not have, and what comes out of them.

use std::path::Path;

use pdata::Signal;
use serde_json::Value;

use otel_conformance_tests::normalised;

use crate::inputs::{self, Input};
use crate::processes::{free_ports, start, wait};
use crate::sink::Sink;
use crate::{filled, programs};

/// A configuration, its input, and when all of its output has come.
struct Case {
    name: &'static str,
    /// Sections after the file exporter `file`. `${port0}` is the port of the input, `${port1}` that of a server for exporters, and `${port2}`
    /// that of a page to read.
    yaml: &'static str,
    input: Input,
    output: Read,
    /// Number of items of the output.
    items: usize,
    /// Keys whose values are times of the run.
    times: &'static [&'static str],
}

/// Where the output is.
#[derive(Clone, Copy)]
enum Read {
    /// In the file of the file exporter.
    File,
    /// In the bodies that the server gets, as items of a JSON array.
    Array,
    /// On a page of metrics.
    Page,
}

const CASES: [Case; 8] = [
    Case {
        name: "zipkin receiver and tail sampling around own processors",
        yaml: "\
receivers: {zipkin: {endpoint: 'localhost:${port0}'}}
processors:
  attributes: {actions: [{key: n, action: delete}, {key: env, value: test, action: insert}]}
  tail_sampling: {decision_wait: 1s, policies: [{name: slow, type: latency, latency: {threshold_ms: 6}}]}
  batch: {timeout: 100ms}
service: {pipelines: {traces: {receivers: [zipkin], processors: [attributes, tail_sampling, batch], exporters: [file]}}}
",
        input: inputs::zipkin,
        output: Read::File,
        items: 14,
        times: &[],
    },
    Case {
        name: "jaeger receiver",
        yaml: "\
receivers: {jaeger: {protocols: {thrift_http: {endpoint: 'localhost:${port0}'}}}}
service: {pipelines: {traces: {receivers: [jaeger], exporters: [file]}}}
",
        input: inputs::jaeger,
        output: Read::File,
        items: 10,
        times: &[],
    },
    Case {
        name: "statsd receiver",
        yaml: "\
receivers: {statsd: {endpoint: 'localhost:${port0}', aggregation_interval: 1s, timer_histogram_mapping: []}}
service: {pipelines: {metrics: {receivers: [statsd], exporters: [file]}}}
",
        input: inputs::statsd,
        output: Read::File,
        items: 2,
        times: &["timeUnixNano", "startTimeUnixNano"],
    },
    Case {
        name: "fluent_forward receiver",
        yaml: "\
receivers: {fluent_forward: {endpoint: 'localhost:${port0}'}}
service: {pipelines: {logs: {receivers: [fluent_forward], exporters: [file]}}}
",
        input: inputs::fluent,
        output: Read::File,
        items: 20,
        times: &[],
    },
    Case {
        name: "file_log receiver before an own processor",
        yaml: "\
receivers: {file_log: {include: ['${dir}/app.log'], start_at: beginning, poll_interval: 50ms, operators: [{type: json_parser}]}}
processors: {resource: {attributes: [{key: host, value: a, action: upsert}]}}
service: {pipelines: {logs: {receivers: [file_log], processors: [resource], exporters: [file]}}}
",
        input: inputs::lines,
        output: Read::File,
        items: 200,
        times: &["observedTimeUnixNano"],
    },
    Case {
        name: "span_metrics connector between own pipelines",
        yaml: "\
receivers: {otlp: {protocols: {http: {endpoint: 'localhost:${port0}'}}}}
connectors: {span_metrics: {metrics_flush_interval: 500ms, aggregation_temporality: AGGREGATION_TEMPORALITY_DELTA}}
processors: {attributes: {actions: [{key: collector.instance.id, action: delete}, {key: env, value: test, action: insert}]}}
service:
  pipelines:
    traces: {receivers: [otlp], exporters: [span_metrics]}
    metrics: {receivers: [span_metrics], processors: [attributes], exporters: [file]}
",
        input: inputs::spans,
        output: Read::File,
        items: 2,
        times: &["timeUnixNano", "startTimeUnixNano"],
    },
    Case {
        name: "zipkin exporter",
        yaml: "\
receivers: {otlp: {protocols: {http: {endpoint: 'localhost:${port0}'}}}}
exporters: {zipkin: {endpoint: 'http://localhost:${port1}/api/v2/spans'}}
service: {pipelines: {traces: {receivers: [otlp], exporters: [zipkin]}}}
",
        input: inputs::spans,
        output: Read::Array,
        items: 30,
        times: &[],
    },
    Case {
        name: "prometheus exporter behind a connector and an own processor",
        yaml: "\
receivers: {otlp: {protocols: {http: {endpoint: 'localhost:${port0}'}}}}
connectors: {span_metrics: {metrics_flush_interval: 500ms}}
processors: {attributes: {actions: [{key: collector.instance.id, action: delete}]}}
exporters: {prometheus: {endpoint: 'localhost:${port2}'}}
service:
  pipelines:
    traces: {receivers: [otlp], exporters: [span_metrics]}
    metrics: {receivers: [span_metrics], processors: [attributes], exporters: [prometheus]}
",
        input: inputs::spans,
        output: Read::Page,
        items: 20,
        times: &[],
    },
];

#[test]
fn delegated_components_give_the_output_of_the_collector_alone() {
    let Some((warptap, collector)) = programs() else { return };
    for case in &CASES {
        let alone = case.run(&collector, None);
        let both = case.run(&warptap, Some(&collector));
        assert_eq!(both, alone, "{}", case.name);
        println!("{}: {} equal items", case.name, alone.len());
    }
}

impl Case {
    /// Runs the configuration with its input; returns the items of the output, sorted.
    fn run(&self, program: &Path, beside: Option<&Path>) -> Vec<String> {
        let (dir, sink) = (tempfile::tempdir().unwrap(), Sink::start());
        let [input, page] = free_ports();
        let ports = [input, sink.port, page];
        let yaml = filled(&self.yaml(), dir.path(), &ports);
        let running =
            start(program, beside, &yaml, dir.path()).unwrap_or_else(|log| panic!("{}: {log}", self.name));
        (self.input)(dir.path(), &ports);
        let mut bodies = Vec::new();
        let items = std::cell::RefCell::new(Vec::new());
        let read = std::cell::RefCell::new(|| {
            bodies.extend(sink.take());
            self.items(dir.path(), &bodies, page)
        });
        wait(self.name, || {
            *items.borrow_mut() = (read.borrow_mut())();
            items.borrow().len() >= self.items
        });
        assert!(running.stop().success(), "{}", self.name);
        let mut items = items.into_inner();
        items.sort();
        items
    }

    /// Adds the file exporter where the output is in a file.
    fn yaml(&self) -> String {
        let file = match self.output {
            Read::File => "exporters: {file: {path: '${dir}/out.jsonl', flush_interval: 20ms}}\n",
            Read::Array | Read::Page => "",
        };
        format!("{file}{}service::telemetry::metrics::level: none\n", self.yaml)
    }

    fn items(&self, dir: &Path, bodies: &[String], page: u16) -> Vec<String> {
        match self.output {
            Read::File => {
                let text = std::fs::read_to_string(dir.join("out.jsonl")).unwrap_or_default();
                let whole = text.rfind('\n').map_or("", |end| &text[..end]);
                whole.lines().flat_map(|line| self.otlp_items(line)).collect()
            }
            Read::Array => {
                let items = |body: &String| serde_json::from_str::<Vec<Value>>(body).unwrap_or_default();
                bodies.iter().flat_map(items).map(|item| item.to_string()).collect()
            }
            Read::Page => {
                let text = inputs::get(page, "/metrics").unwrap_or_default();
                text.lines().filter(|line| !line.starts_with("target_info")).map(str::to_owned).collect()
            }
        }
    }

    /// Returns the items of a line of OTLP JSON, each with its resource and scope.
    fn otlp_items(&self, line: &str) -> Vec<String> {
        let keys = [
            ("resourceSpans", Signal::Traces),
            ("resourceMetrics", Signal::Metrics),
            ("resourceLogs", Signal::Logs),
        ];
        // The Collector writes requests without items, too.
        let Some((key, signal)) = keys.into_iter().find(|(key, _)| line.contains(key)) else {
            return Vec::new();
        };
        let data = normalised(&pdata::json::decode(signal, line.as_bytes()).unwrap());
        let root: Value = serde_json::from_slice(&pdata::json::encode(&data)).unwrap();
        let list = |value: &Value, key: &str| value[key].as_array().cloned().unwrap_or_default();
        let mut items = Vec::new();
        for resource in list(&root, key) {
            for scope in list(&resource, &key.replace("resource", "scope")) {
                for mut item in ["spans", "metrics", "logRecords"].iter().flat_map(|name| list(&scope, name))
                {
                    without(&mut item, self.times);
                    items.push(format!("{} {} {item}", resource["resource"], scope["scope"]));
                }
            }
        }
        items
    }
}

/// Removes keys, at every level, and sorts attributes and points, whose order is that of a map of Go.
fn without(value: &mut Value, keys: &[&str]) {
    match value {
        Value::Object(map) => {
            map.retain(|key, _| !keys.contains(&key.as_str()));
            map.values_mut().for_each(|value| without(value, keys));
        }
        Value::Array(items) => {
            items.iter_mut().for_each(|value| without(value, keys));
            if items.iter().all(Value::is_object) {
                items.sort_by_key(Value::to_string);
            }
        }
        _ => {}
    }
}
