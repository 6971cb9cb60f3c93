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

/// It recorded nothing and exited 0.
#[test]
fn record_needs_an_existing_process() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("out");
    let args = ["record", "--seconds", "0.1", "--pid", "4294967295", "--out", out.to_str().unwrap()];
    check(&args, 1, "", "Error: --pid 4294967295: there is no such process\n");
    assert!(!out.exists());
}

/// Copies on the device were in no field.
#[test]
fn every_copied_byte_of_a_step_is_in_a_field() {
    let dir = tempfile::tempdir().unwrap();
    let (trace, steps) = (dir.path().join("trace.json"), dir.path().join("steps"));
    let copy = |n: u64, kind: &str, bytes: u64| {
        format!(
            r#"{{"ph": "X", "cat": "cuda_runtime", "name": "cudaMemcpyAsync", "pid": 1, "tid": 1, "ts": {n},
              "dur": 1, "args": {{"correlation": {n}}}}}, {{"ph": "X", "cat": "gpu_memcpy", "name": "Memcpy {kind}",
              "pid": 0, "tid": 7, "ts": {n}, "dur": 1, "args": {{"correlation": {n}, "stream": 7, "bytes": {bytes}}}}}"#
        )
    };
    let copies = [copy(10, "HtoD", 1), copy(20, "DtoH", 10), copy(30, "DtoD", 100)].join(",");
    let sync = r#"{"ph": "X", "cat": "cuda_runtime", "name": "cudaDeviceSynchronize", "pid": 1, "tid": 1, "ts": 40, "dur": 5}"#;
    std::fs::write(&trace, format!(r#"{{"traceEvents": [{copies}, {sync}]}}"#)).unwrap();
    let run = warptap(&["replay"]).arg(&trace).arg("--steps").arg(&steps).output().unwrap();
    assert!(run.status.success(), "{run:?}");
    let step: serde_json::Value = serde_json::from_str(&std::fs::read_to_string(&steps).unwrap()).unwrap();
    assert_eq!((&step["copied_bytes"], &step["device_copied_bytes"]), (&11.into(), &100.into()), "{step}");
}

/// It printed "0 steps" and no reason.
#[test]
fn replay_names_the_categories_of_an_unknown_trace() {
    let dir = tempfile::tempdir().unwrap();
    let trace = dir.path().join("trace.json");
    let entries = r#"{"traceEvents": [{"ph": "X", "cat": "cpu_op", "name": "a", "pid": 1, "tid": 1, "ts": 1},
        {"ph": "X", "cat": "Laufzeit", "name": "b", "pid": 1, "tid": 1, "ts": 2}, {"ph": "M", "name": "c"}]}"#;
    std::fs::write(&trace, entries).unwrap();
    let run = warptap(&["replay"]).arg(&trace).output().unwrap();
    let stdout = String::from_utf8(run.stdout).unwrap();
    let want = "no call of a GPU library is recognised; categories of the trace: none or others (1), Laufzeit (1), \
                cpu_op (1); expected cuda_runtime, cuda_driver, hip_runtime or Runtime";
    assert!(stdout.lines().any(|line| line.trim() == want), "{stdout}");
}

/// One configuration with a mistake of every kind: all of them are reported by one run.
#[test]
fn one_run_reports_mistakes_of_every_kind() {
    let yaml = "\
receivers: {otlp: {protocols: {grpc: {endpont: 'localhost:4317'}}}, oltp: }
processors: {memory_limiter: {check_interval: 1s, limit_percentage: 101}, k8sattributes: }
exporters:
  otlp_grpc: {endpoint: 'localhost:4317', sending_queue: {queue_size: many, num_consumers: 0}}
  debug: {sampling_initial: -3}
connectors: {forward: }
service:
  extensions: [health_check]
  telemetry: {logs: {levle: debug}, metrics: {level: high}}
  pipelines:
    traces: {receivers: [otlp], processors: [batch], exporters: [otlp_grpc, forward]}
    metric: {receivers: [otlp], exporters: [debug]}
";
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("mistakes.yaml");
    std::fs::write(&path, yaml).unwrap();
    let Output { status, stderr, .. } = warptap(&["validate", "--config"]).arg(&path).output().unwrap();
    assert_eq!(status.code(), Some(1));
    let stderr = String::from_utf8(stderr).unwrap().replace(path.to_str().unwrap(), "mistakes.yaml");
    let starts = [
        "Error: invalid configuration:",
        "mistakes.yaml:1:39: receivers::otlp::protocols::grpc: has invalid keys: endpont (did you mean \"endpoint\"?)",
        "mistakes.yaml:1:69: receivers::oltp: unknown type: \"oltp\" for id: \"oltp\" (valid values: [",
        "mistakes.yaml:2:69: processors::memory_limiter::limit_percentage: 101 is out of range: expected 0 to 100",
        "mistakes.yaml:2:75: processors::k8sattributes: unknown type: \"k8sattributes\" for id: \"k8sattributes\": \
         exists in otelcol-k8s, not in warptap",
        "mistakes.yaml:4:71: exporters::otlp_grpc::sending_queue::queue_size: expected type 'int64', \
         got unconvertible type 'string'",
        "mistakes.yaml:4:92: exporters::otlp_grpc::sending_queue::num_consumers: 0 is out of range: expected 1 or more",
        "mistakes.yaml:5:29: exporters::debug::sampling_initial: -3 is negative: expected 0 or more",
        "mistakes.yaml:6:14: connectors::forward: connector \"forward\" used as exporter in [traces] pipeline but not used \
         in any supported receiver pipeline",
        "mistakes.yaml:8:16: service::extensions: references extension \"health_check\" which is not configured",
        "mistakes.yaml:9:22: service::telemetry::logs: has invalid keys: levle (did you mean \"level\"?)",
        "mistakes.yaml:9:54: service::telemetry::metrics::level: unsupported value \"high\"",
        "mistakes.yaml:11:46: service::pipelines::traces: references processor \"batch\" which is not configured",
        "mistakes.yaml:12:5: service::pipelines::metric: in \"metric\" id: unknown pipeline signal: \"metric\"",
    ];
    let lines: Vec<&str> = stderr.lines().collect();
    assert_eq!(lines.len(), starts.len(), "{stderr}");
    for (line, start) in lines.iter().zip(starts) {
        assert!(line.starts_with(start), "{line}\nshould begin with\n{start}\n\n{stderr}");
    }
    assert!(lines[2].ends_with("(did you mean \"otlp\"?)"), "{stderr}");
}

/// Names of files that a process maps reached the terminal as they are: this one sets its title.
#[test]
fn check_escapes_the_names_of_libraries() {
    let dir = tempfile::tempdir().unwrap();
    let library = dir.path().join("libcudart.so.\x1b]0;title\x07");
    std::fs::write(&library, [0; 4096]).unwrap();
    simulator::attacks::map(&library);
    let Output { stdout, stderr, .. } = warptap(&["check"]).output().unwrap();
    let text = String::from_utf8([stdout, stderr].concat()).unwrap();
    assert!(text.contains(r"libcudart.so.\u001b]0;title\u0007"), "{text}");
    assert!(!text.chars().any(|c| c.is_control() && c != '\n'), "{text:?}");
}
