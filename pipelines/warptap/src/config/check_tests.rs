//! What a configuration is refused with before any component looks at its section.

use config::{ConfigError, Node, Seen};

use crate::config::gates::Gates;
use crate::config::testing::Made;
use crate::config::{LogLevel, PipelineId, Sections, Sources, load};

fn root(yaml: &str) -> Node {
    load(&[format!("yaml:{yaml}")], &Made::default()).unwrap().root
}

/// A configuration with one pipeline, and with `change` laid on top of it.
fn changed(change: &str) -> Node {
    let base =
        "{receivers: {otlp: }, processors: {batch: }, exporters: {debug: }, service: {pipelines: {traces:
        {receivers: [otlp], processors: [batch], exporters: [debug]}}}}";
    let locations = [base, change].map(|yaml| format!("yaml:{yaml}"));
    load(&locations, &Made::default()).unwrap().root
}

/// A configuration is refused with exactly these lines, without their places.
#[track_caller]
fn refuse(root: &Node, want: &[&str]) {
    let error = ConfigError::from(Sections::read(root).problems);
    let found: Vec<String> = error.problems().iter().map(ToString::to_string).collect();
    let found: Vec<&str> = found.iter().map(|line| line.split_once(": ").unwrap().1).collect();
    assert_eq!(found, want);
}

#[test]
fn a_good_configuration_is_read() {
    let root = changed(
        "{exporters: {file/x: }, service::pipelines::logs/a: {receivers: [otlp], exporters: [debug, file/x]}}",
    );
    let sections = Sections::read(&root);
    let ids: Vec<String> = sections.components.iter().map(|c| c.path.clone()).collect();
    assert_eq!(ids, ["exporters::debug", "exporters::file/x", "processors::batch", "receivers::otlp"]);
    let pipelines: Vec<String> = sections.service.pipelines.iter().map(|p| p.id.to_string()).collect();
    assert_eq!(pipelines, ["traces", "logs/a"]);
    assert_eq!(sections.service.pipelines[1].exporters.len(), 2);
    assert!(sections.warnings.is_empty() && sections.problems.is_empty());
}

#[test]
fn there_must_be_something_to_run() {
    refuse(&root("{}"), &["empty configuration file"]);
    refuse(&root("{receivers: {}, exporters: }"), &["empty configuration file"]);
    refuse(
        &root("{processors: {batch: }}"),
        &[
            "no receiver configuration specified in config",
            "no exporter configuration specified in config",
            "service::pipelines: service must have at least one pipeline",
        ],
    );
    refuse(&changed("service: "), &["service::pipelines: service must have at least one pipeline"]);
    refuse(
        &changed("service::pipelines: "),
        &["service::pipelines: service must have at least one pipeline"],
    );
}

#[test]
fn a_pipeline_has_both_ends() {
    let path = "service::pipelines::traces";
    refuse(
        &changed("service::pipelines::traces::receivers: []"),
        &[&format!("{path}: must have at least one receiver")],
    );
    refuse(
        &changed("service::pipelines::traces::exporters: "),
        &[&format!("{path}: must have at least one exporter")],
    );
    refuse(
        &changed("service::pipelines::logs: "),
        &[
            "service::pipelines::logs: must have at least one receiver",
            "service::pipelines::logs: must have at least one exporter",
        ],
    );
}

#[test]
fn references_lead_to_what_is_configured() {
    let path = "service::pipelines::traces";
    refuse(
        &changed(
            "service::pipelines::traces: {receivers: [otpl], processors: [batch/x], exporters: [debug, x]}",
        ),
        &[
            &format!(r#"{path}: references receiver "otpl" which is not configured (did you mean "otlp"?)"#),
            &format!(
                r#"{path}: references processor "batch/x" which is not configured (did you mean "batch"?)"#
            ),
            &format!(r#"{path}: references exporter "x" which is not configured"#),
        ],
    );
    refuse(
        &changed("service::pipelines::traces::processors: [batch, batch]"),
        &[&format!(r#"{path}: references processor "batch" multiple times"#)],
    );
    refuse(
        &changed("service::extensions: [health_check]"),
        &[r#"service::extensions: references extension "health_check" which is not configured"#],
    );
}

#[test]
fn ids_are_checked_where_they_are_written() {
    refuse(
        &changed("receivers: {9x: , 'otlp ': }"),
        &[
            concat!(
                r#"receivers::9x: in "9x" id: invalid character(s) in type "9x": "#,
                "expected a letter, then letters, digits or '_', 63 at most"
            ),
            r#"receivers::otlp : duplicate name "otlp " after unmarshaling otlp"#,
        ],
    );
    refuse(
        &changed("service::pipelines::traces::receivers: [otlp, '']"),
        &["service::pipelines::traces::receivers[1]: id must not be empty"],
    );
}

#[test]
fn pipelines_are_named_by_their_signal() {
    for (text, want) in [
        ("traces", Ok("traces")),
        (" logs / x/y ", Ok("logs/x/y")),
        ("metrics/", Err("the part after /")),
        ("", Err("id must not be empty")),
        (
            "metric",
            Err(
                r#"unknown pipeline signal: "metric": expected one of logs, metrics, traces, profiles (did you mean "metrics"?)"#,
            ),
        ),
        ("profiles/x", Ok("profiles/x")),
    ] {
        match (PipelineId::parse(text), want) {
            (Ok(id), Ok(want)) => assert_eq!(id.to_string(), want),
            (Err(found), Err(want)) => assert!(found.contains(want), "{text}: {found}"),
            (got, want) => panic!("{text}: {got:?}, expected {want:?}"),
        }
    }
    refuse(
        &changed("service::pipelines: {'traces ': {receivers: [otlp], exporters: [debug]}}"),
        &[r#"service::pipelines::traces : duplicate name "traces " after unmarshaling traces"#],
    );
}

#[test]
fn profiles_need_their_gate() {
    let locations = [
        "yaml:{receivers: {otlp: }, exporters: {debug: }}".to_owned(),
        "yaml:service::pipelines::profiles: {receivers: [otlp], exporters: [debug]}".to_owned(),
    ];
    let problems = |gates: &[&str]| {
        let gates = Gates::parse(gates).unwrap();
        let loaded = load(&Sources { locations: locations.to_vec(), gates }, &Made::default()).unwrap();
        loaded.sections(&Seen::default()).problems
    };
    assert!(problems(&["service.profilesSupport"]).is_empty());
    let found = problems(&[]);
    let want = concat!(
        r#"pipeline "profiles": profiling signal support is at alpha level, "#,
        r#"gated under the "service.profilesSupport" feature gate"#
    );
    assert_eq!((found[0].path.as_str(), found[0].message.as_str()), ("service::pipelines", want));
}

#[test]
fn a_gate_allows_to_have_no_pipelines() {
    for (yaml, gates, count) in [
        ("yaml:{extensions: {zpages: }, service: {extensions: [zpages]}}", "", 3),
        ("yaml:{extensions: {zpages: }, service: {extensions: [zpages]}}", "service.AllowNoPipelines", 0),
        ("yaml:{}", "service.AllowNoPipelines", 1),
    ] {
        let (locations, gates) = (vec![yaml.to_owned()], Gates::parse(&[gates]).unwrap());
        let loaded = load(&Sources { locations, gates }, &Made::default()).unwrap();
        assert_eq!(loaded.sections(&Seen::default()).problems.len(), count, "{yaml}");
    }
}

#[test]
fn unknown_keys_are_reported_with_the_nearest() {
    refuse(
        &changed(
            "{exporter: {}, service: {pipeline: {}, pipelines::traces::exporter: [], telemetry: {logs: {levle: x}, log: 1}}}",
        ),
        &[
            r#"has invalid keys: exporter"#,
            r#"service: has invalid keys: pipeline"#,
            r#"service::pipelines::traces: has invalid keys: exporter"#,
            r#"service::telemetry::logs: has invalid keys: levle (did you mean "level"?)"#,
            r#"service::telemetry: has invalid keys: log"#,
        ],
    );
}

#[test]
fn sections_are_mappings() {
    refuse(
        &changed("{receivers: [otlp], service::pipelines: x}"),
        &[
            r#"receivers: expected a map or struct, got "[]interface {}""#,
            "service::pipelines: service must have at least one pipeline",
        ],
    );
}

#[test]
fn the_log_level_is_one_of_the_collectors() {
    for (text, want) in [("debug", LogLevel::Debug), ("WARN", LogLevel::Warn), ("fatal", LogLevel::Error)] {
        let root = changed(&format!("service::telemetry::logs::level: {text}"));
        assert_eq!(Sections::read(&root).service.telemetry.logs.level, want, "{text}");
    }
    refuse(
        &changed("service::telemetry::logs::level: wran"),
        &[concat!(
            r#"service::telemetry::logs::level: unsupported value "wran": "#,
            r#"expected one of "debug", "info", "warn", "error" (did you mean "warn"?)"#
        )],
    );
}
