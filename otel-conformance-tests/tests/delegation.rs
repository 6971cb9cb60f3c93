//! Components that run in a real Collector beside warptap: the output is that of the Collector alone with the same
//! configuration and input, and nothing that was acknowledged is lost whatever is killed.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a test, which says what it found"
)]

#[allow(dead_code, reason = "a part of it is used here")]
#[path = "chaos/backend.rs"]
mod backend;
#[path = "delegation/cases.rs"]
mod cases;
#[allow(dead_code, reason = "a part of it is used here")]
#[path = "chaos/dice.rs"]
mod dice;
#[path = "delegation/inputs.rs"]
mod inputs;
#[path = "delegation/kills.rs"]
mod kills;
#[path = "delegation/life.rs"]
mod life;
#[path = "delegation/processes.rs"]
mod processes;
#[allow(dead_code, reason = "a part of it is used here")]
#[path = "chaos/senders.rs"]
mod senders;
#[path = "delegation/sink.rs"]
mod sink;

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use otel_conformance_tests::{collector_program, peer, warptap_program};

/// Returns the programs of both collectors, if they were built.
fn programs() -> Option<(PathBuf, PathBuf)> {
    Some((peer(warptap_program())?, peer(collector_program())?))
}

/// Runs a command of warptap with a configuration and the real Collector beside it.
fn answer(command: &str, yaml: &str) -> Option<Output> {
    let (warptap, collector) = programs()?;
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("config.yaml");
    std::fs::write(&path, yaml).unwrap();
    let mut run = Command::new(warptap);
    run.arg(command);
    match command {
        "migrate" => run.arg(format!("--collector={}", collector.display())).arg("config.yaml"),
        _ => run.args(["--config", "config.yaml", "--collector"]).arg(collector),
    };
    Some(run.current_dir(dir.path()).output().unwrap())
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

const VALID: &str = "\
receivers:
  otlp:
    protocols: {grpc: }
  zipkin:
    endpoint: localhost:0
processors:
  unroll:
exporters:
  debug:
service:
  pipelines:
    traces: {receivers: [otlp, zipkin], exporters: [debug]}
    logs: {receivers: [otlp], processors: [unroll], exporters: [debug]}
";

#[test]
fn the_collector_checks_its_part() {
    let Some(output) = answer("validate", VALID) else { return };
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert_eq!(text(&output.stdout), "");
}

/// The positions are those of the user's file, although the Collector saw another one.
#[test]
fn problems_that_the_collector_finds_have_the_position_of_the_user() {
    let yaml = VALID.replace("    endpoint: localhost:0\n", "    endpoint: localhost:0\n    foo: 1\n");
    let Some(output) = answer("validate", &yaml) else { return };
    let error = text(&output.stderr);
    assert!(
        !output.status.success() && error.contains("config.yaml:6:10: receivers::zipkin::foo: "),
        "{error}"
    );
    assert!(error.contains("has invalid keys: foo"), "{error}");
}

#[test]
fn components_that_neither_has_are_errors() {
    let yaml = VALID.replace("zipkin", "jeager");
    let Some(output) = answer("validate", &yaml) else { return };
    let error = text(&output.stderr);
    assert!(!output.status.success() && error.contains("unknown type: \"jeager\""), "{error}");
}

#[test]
fn migrate_says_where_each_component_runs() {
    let Some(output) = answer("migrate", VALID) else { return };
    let report = text(&output.stdout);
    assert!(output.status.success(), "{report}{}", text(&output.stderr));
    for line in [
        "config.yaml:2:3: receivers::otlp: runs in warptap",
        "config.yaml:4:3: receivers::zipkin: delegated to otelcol",
        "config.yaml:7:3: processors::unroll: delegated to otelcol",
        "2 components run in warptap, 2 are delegated: run it with the same --collector",
    ] {
        assert!(report.lines().any(|found| found.trim_end() == line), "{line}:\n{report}");
    }
}

/// Replaces `${dir}` and the ports in a configuration.
fn filled(yaml: &str, dir: &Path, ports: &[u16]) -> String {
    let yaml = yaml.replace("${dir}", dir.to_str().unwrap());
    ports
        .iter()
        .enumerate()
        .fold(yaml, |yaml, (at, port)| yaml.replace(&format!("${{port{at}}}"), &port.to_string()))
}
