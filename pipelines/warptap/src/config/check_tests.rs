//! Problems that are found before components decode their sections.

use config::{ConfigError, Node, Seen};

use crate::config::gates::Gates;
use crate::config::testing::FakeEnvironment;
use crate::config::{LogLevel, PipelineId, Sections, Sources, load};

fn root(yaml: &str) -> Node {
    load(&[format!("yaml:{yaml}")], &FakeEnvironment::default()).unwrap().root
}

/// Returns a configuration with one pipeline, merged with `change`.
fn changed(change: &str) -> Node {
    let base =
        "{receivers: {otlp: }, processors: {batch: }, exporters: {debug: }, service: {pipelines: {traces:
        {receivers: [otlp], processors: [batch], exporters: [debug]}}}}";
    let locations = [base, change].map(|yaml| format!("yaml:{yaml}"));
    load(&locations, &FakeEnvironment::default()).unwrap().root
}

/// Checks the exact problems of a configuration, without positions.
#[track_caller]
fn refuse(root: &Node, want: &[&str]) {
    let error = ConfigError::from(Sections::read(root).problems);
    let found: Vec<String> = error.problems().iter().map(ToString::to_string).collect();
    let found: Vec<&str> = found.iter().map(|line| line.split_once(": ").unwrap().1).collect();
    assert_eq!(found, want);
}

#[test]
fn valid_configuration_is_accepted() {
    let root = changed(
        "{exporters: {file/x: }, service::pipelines::logs/a: {receivers: [otlp], exporters: [debug, file/x]}}",
    );
    let sections = Sections::read(&root);
    let ids: Vec<String> = sections.components.iter().map(|c| c.path.clone()).collect();
    assert_eq!(ids, ["exporters::debug", "exporters::file/x", "processors::batch", "receivers::otlp"]);
    let pipelines: Vec<String> = sections.service.pipelines.iter().map(|p| p.id.to_string()).collect();
    assert_eq!(pipelines, ["traces", "logs/a"]);
    assert_eq!(sections.service.pipelines[1].exporters.len(), 2);
    assert!(sections.problems.is_empty());
}

#[test]
fn empty_configuration_is_refused() {
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
fn pipelines_need_receivers_and_exporters() {
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
fn references_must_be_configured() {
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
fn ids_are_checked_with_their_position() {
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
        let loaded = load(
            &Sources { locations: locations.to_vec(), gates, ..Sources::default() },
            &FakeEnvironment::default(),
        )
        .unwrap();
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
fn a_gate_permits_no_pipelines() {
    for (yaml, gates, count) in [
        ("yaml:{extensions: {zpages: }, service: {extensions: [zpages]}}", "", 3),
        ("yaml:{extensions: {zpages: }, service: {extensions: [zpages]}}", "service.AllowNoPipelines", 0),
        ("yaml:{}", "service.AllowNoPipelines", 1),
    ] {
        let (locations, gates) = (vec![yaml.to_owned()], Gates::parse(&[gates]).unwrap());
        let loaded =
            load(&Sources { locations, gates, ..Sources::default() }, &FakeEnvironment::default()).unwrap();
        assert_eq!(loaded.sections(&Seen::default()).problems.len(), count, "{yaml}");
    }
}

#[test]
fn unknown_keys_are_reported_with_a_suggestion() {
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
fn sections_must_be_mappings() {
    refuse(
        &changed("{receivers: [otlp], service::pipelines: x}"),
        &[
            r#"receivers: expected a map or struct, got "[]interface {}""#,
            "service::pipelines: service must have at least one pipeline",
        ],
    );
}

#[test]
fn log_level_must_be_known() {
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
