//! The command line of the binary: exit codes, standard output and error, and a run until a signal.

use std::io::{BufRead as _, BufReader, Read as _};
use std::process::{Command, Output, Stdio};

use warptap::components::RECEIVERS;

fn warptap(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_warptap"));
    command.args(args);
    command
}

#[track_caller]
fn check(args: &[&str], code: i32, stdout: &str, stderr: &str) {
    let Output { status, stdout: out, stderr: err } = warptap(args).output().expect("the binary runs");
    let (out, err) = (String::from_utf8_lossy(&out), String::from_utf8_lossy(&err));
    assert_eq!((status.code(), &*out, &*err), (Some(code), stdout, stderr), "{args:?}");
}

#[test]
fn a_run_needs_a_configuration() {
    let stderr = "Error: at least one config flag must be provided:\n  \
        warptap demo             shows slow steps of a simulated inference server\n  \
        warptap check            checks that this machine can run the gpu receiver\n  \
        warptap --config FILE    runs a configuration; config-examples/quick-start.yaml is a small one\n  \
        warptap --help           lists all commands\n";
    check(&[], 1, "", stderr);
    check(&["validate"], 1, "", stderr);
}

#[test]
fn every_problem_is_a_line_that_begins_with_its_position() {
    let yaml = "yaml:{receivers: {nope: }, exporters: {debug: {verbosty: basic}}, \
        service: {pipelines: {traces: {receivers: [nope], exporters: [debgu]}}}}";
    let Output { status, stdout, stderr } = warptap(&["validate", "--config", yaml]).output().unwrap();
    assert_eq!((status.code(), stdout), (Some(1), Vec::new()));
    let stderr = String::from_utf8(stderr).unwrap();
    let starts = [
        "Error: invalid configuration:",
        "yaml:1:14: receivers::nope: unknown type: \"nope\" for id: \"nope\" (valid values: [",
        "yaml:1:43: exporters::debug: has invalid keys: verbosty (did you mean \"verbosity\"?)",
        "yaml:1:124: service::pipelines::traces: references exporter \"debgu\" which is not configured \
         (did you mean \"debug\"?)",
    ];
    let lines: Vec<&str> = stderr.lines().collect();
    assert_eq!(lines.len(), starts.len(), "{stderr}");
    for (line, start) in lines.iter().zip(starts) {
        assert!(line.starts_with(start), "{line}\nshould begin with\n{start}");
    }
}

#[test]
fn a_missing_file_is_named() {
    let stderr = "Error: invalid configuration:\n\
        absent.yaml: unable to read the file \"absent.yaml\": No such file or directory (os error 2)\n";
    check(&["validate", "--config=absent.yaml"], 1, "", stderr);
}

#[test]
fn a_valid_configuration_validates_silently_and_runs_until_a_signal() {
    if !RECEIVERS.iter().any(|row| row.kind == "otlp") {
        return println!("skipped: the otlp receiver is not built in yet");
    }
    let yaml = "yaml:{receivers: {otlp: {protocols: {http: {endpoint: '127.0.0.1:0'}}}}, exporters: {debug: }, \
        service: {telemetry: {metrics: {level: none}}, pipelines: {traces: {receivers: [otlp], exporters: [debug]}}}}";
    check(&["validate", "--config", yaml], 0, "", "");
    let mut child = warptap(&["--config", yaml]).stderr(Stdio::piped()).spawn().unwrap();
    let mut stderr = BufReader::new(child.stderr.take().unwrap());
    let mut line = String::new();
    while !line.contains("Everything is ready. Begin running and processing data.") {
        line.clear();
        assert_ne!(stderr.read_line(&mut line).unwrap(), 0, "it ended before it was ready");
    }
    let kill = Command::new("kill").args(["-TERM", &child.id().to_string()]).status().unwrap();
    assert!(kill.success());
    let mut rest = String::new();
    stderr.read_to_string(&mut rest).unwrap();
    assert!(child.wait().unwrap().success(), "{rest}");
    assert!(rest.contains("SIGTERM") && rest.contains("Shutdown complete."), "{rest}");
}

#[test]
fn a_replay_lists_every_counted_step() {
    let dir = tempfile::tempdir().unwrap();
    let (steps, recording) = (dir.path().join("steps"), "recordings/slow-decode.rec.gz");
    let run = warptap(&["replay", recording, "--steps"]).arg(&steps).output().unwrap();
    let output = String::from_utf8(run.stdout).unwrap();
    let lines = std::fs::read_to_string(&steps).unwrap();
    let counted = format!("{recording}: {} steps, ", lines.lines().count());
    assert!(output.lines().any(|line| line.starts_with(&counted)), "{output}");
    let slow: Vec<serde_json::Value> = lines
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .filter(|step: &serde_json::Value| step["outlier"] == "3x")
        .collect();
    assert!(!slow.is_empty() && slow.iter().all(|step| step["phase"] == "decode"), "{slow:?}");
}
