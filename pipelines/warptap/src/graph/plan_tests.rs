//! The problems a plan is refused for, and the components built for it.

use crate::graph::testing::{happened, plan};

/// Returns a configuration of one pipeline of fakes, with additions to its sections.
fn yaml(exporters: &str, processors: &str, pipelines: &str) -> String {
    format!(
        "{{receivers: {{source: }}, processors: {{step: , {processors} }}, exporters: {{sink: , {exporters} }},
          service: {{pipelines: {{logs: {{receivers: [source], processors: [step], exporters: [sink]}}, {pipelines} }}}}}}"
    )
}

#[track_caller]
fn refuse(yaml: &str, want: &[&str]) {
    let error = plan(yaml).err().expect("the plan is refused");
    let lines: Vec<String> = error.problems().iter().map(ToString::to_string).collect();
    let lines: Vec<&str> = lines.iter().map(|line| line.split_once(": ").unwrap().1).collect();
    assert_eq!(lines, want, "{yaml}");
}

#[test]
fn every_component_is_built_and_processors_once_per_pipeline() {
    let plan = plan(&yaml(
        "sink/unused: ",
        "",
        "logs/b: {receivers: [source, source], processors: [step], exporters: [sink]}",
    ));
    assert!(plan.is_ok());
    assert_eq!(
        happened(),
        [
            "build sink",
            "build sink/unused",
            "build step",
            "build source",
            // The components that run.
            "build sink",
            "build step",
            "build step",
            "build source"
        ]
    );
}

#[test]
fn an_unused_component_is_not_planned() {
    let plan = plan(&yaml("sink/unused: ", "", "")).unwrap();
    let planned: Vec<String> = plan.nodes.iter().map(|n| n.key.to_string()).collect();
    assert_eq!(
        planned,
        [r#""sink" exporter"#, r#""step" processor of pipeline logs"#, r#""source" receiver"#]
    );
}

#[test]
fn an_unused_component_must_be_valid() {
    refuse(
        &yaml("sink/unused: {size: x}", "", ""),
        &["exporters::sink/unused::size: expected type 'uint64', got unconvertible type 'string'"],
    );
}

#[test]
fn problems_of_all_components_are_reported_once_and_together() {
    let two = "logs/b: {receivers: [source], processors: [step/x], exporters: [sink]},
        logs/c: {receivers: [source], processors: [step/x], exporters: [sink]}";
    refuse(
        &yaml("sink/x: {sise: 1, size: 2}", "step/x: {size: 10}", two),
        &[
            "processors::step/x::size: 10 is too large: expected 9 at most",
            "exporters::sink/x: has invalid keys: sise",
        ],
    );
}

#[test]
fn section_and_component_problems_are_reported_in_file_order() {
    refuse(
        &yaml("sink/x: {size: 10}", "", "logs/b: {receivers: [source/x], exporters: [sink]}"),
        &[
            "exporters::sink/x::size: 10 is too large: expected 9 at most",
            concat!(
                r#"service::pipelines::logs/b: references receiver "source/x" which is not configured"#,
                r#" (did you mean "source"?)"#
            ),
        ],
    );
}

#[test]
fn an_unknown_type_is_reported_with_the_known_types() {
    refuse(
        &yaml("sinc/x: , other: , logging: ", "", ""),
        &[
            r#"exporters::sinc/x: unknown type: "sinc" for id: "sinc/x" (valid values: [sink]) (did you mean "sink"?)"#,
            r#"exporters::other: unknown type: "other" for id: "other" (valid values: [sink])"#,
            "exporters::logging: the logging exporter has been deprecated, use the debug exporter instead",
        ],
    );
    let connectors =
        "{connectors: {forward: }, extensions: {help: }, receivers: {source: }, exporters: {sink: },
        service: {pipelines: {logs: {receivers: [source], exporters: [sink]}}}}";
    refuse(
        connectors,
        &[
            r#"connectors::forward: unknown type: "forward" for id: "forward": exists in otelcol, not in warptap: run that Collector beside it with --collector PATH, or remove the component"#,
            r#"extensions::help: unknown type: "help" for id: "help" (valid values: [aid])"#,
        ],
    );
}

#[test]
fn a_deprecated_name_builds_with_a_warning() {
    let plan = plan(&yaml("sinkold/x: ", "", "")).unwrap();
    let warnings: Vec<String> = plan.warnings.iter().map(|w| format!("{}: {}", w.path, w.message)).collect();
    assert_eq!(warnings, [r#"exporters::sinkold/x: "sinkold" is a deprecated name of "sink""#]);
}

#[test]
fn a_component_must_support_the_signal_of_its_pipeline() {
    let path = "service::pipelines::metrics";
    let end = "does not support metrics: expected a pipeline of logs, traces";
    refuse(
        &yaml("", "", "metrics: {receivers: [source], processors: [step], exporters: [sink]}"),
        &[
            &format!(r#"{path}: receiver "source" {end}"#),
            &format!(r#"{path}: processor "step" {end}"#),
            &format!(r#"{path}: exporter "sink" {end}"#),
        ],
    );
}
