//! The life of the Collector beside warptap: reloads, limits, and its own metrics.

use std::path::Path;
use std::process::Command;

use otel_conformance_tests::Program;

use crate::processes::{descendants, free_ports, is_running, start, start_with, wait};
use crate::{filled, inputs, programs};

const YAML: &str = "\
receivers: {otlp: {protocols: {http: {endpoint: '127.0.0.1:${port0}'}}}}
processors:
  attributes: {actions: [{key: env, value: first, action: insert}]}
  tail_sampling: {decision_wait: 100ms, policies: [{name: all, type: always_sample}]}
exporters: {file: {path: '${dir}/out.jsonl', flush_interval: 20ms}}
service:
  collector: {memory_limit_mib: 300, cpus: 1}
  pipelines: {traces: {receivers: [otlp], processors: [attributes, tail_sampling], exporters: [file]}}
";

fn child_of(running: &Program) -> u32 {
    let [_guard, child] = descendants(running.pid())[..] else { panic!("a guard and a Collector") };
    child
}

fn written(dir: &Path) -> String {
    std::fs::read_to_string(dir.join("out.jsonl")).unwrap_or_default()
}

/// Sends spans until the output has a text.
fn send_until(dir: &Path, ports: &[u16], text: &str) {
    wait(text, || {
        inputs::spans(dir, ports);
        written(dir).contains(text)
    });
}

fn reload(running: &Program, dir: &Path, yaml: &str) {
    std::fs::write(dir.join("config.yaml"), yaml).unwrap();
    assert!(Command::new("kill").args(["-HUP", &running.pid().to_string()]).status().unwrap().success());
}

#[test]
fn a_reload_restarts_the_collector_only_if_its_part_has_changed() {
    let Some((warptap, collector)) = programs() else { return };
    let dir = tempfile::tempdir().unwrap();
    let ports = free_ports::<1>();
    let yaml = filled(YAML, dir.path(), &ports);
    let running = start(&warptap, Some(&collector), &yaml, dir.path()).unwrap();
    let child = child_of(&running);
    send_until(dir.path(), &ports, "first");
    reload(&running, dir.path(), &yaml.replace("first", "second"));
    send_until(dir.path(), &ports, "second");
    assert!(is_running(child) && child_of(&running) == child);
    reload(&running, dir.path(), &yaml.replace("first", "third").replace("100ms", "110ms"));
    send_until(dir.path(), &ports, "third");
    wait("the end of the former Collector", || !is_running(child));
    assert_ne!(child_of(&running), child);
    assert!(running.stop().success());
}

#[test]
fn memory_and_cores_of_the_collector_are_limited() {
    let Some((warptap, collector)) = programs() else { return };
    let dir = tempfile::tempdir().unwrap();
    let yaml = filled(YAML, dir.path(), &free_ports::<1>());
    let running = start(&warptap, Some(&collector), &yaml, dir.path()).unwrap();
    let child = child_of(&running);
    let read = |file: &str| {
        String::from_utf8_lossy(&std::fs::read(format!("/proc/{child}/{file}")).unwrap()).into_owned()
    };
    let environment = read("environ");
    let soft = (300 << 20) / 100 * 80;
    for variable in ["GOMAXPROCS=1".to_owned(), format!("GOMEMLIMIT={soft}")] {
        assert!(environment.split('\0').any(|found| found == variable), "{variable}: {environment:?}");
    }
    let limit = (300 << 20).to_string();
    let limits = read("limits");
    let data = limits.lines().find(|line| line.starts_with("Max data size")).unwrap();
    assert!(data.split_whitespace().filter(|word| *word == limit).count() == 2, "{data}");
    // The limit does not prevent it from working.
    assert!(running.stop().success());
}

#[test]
fn health_and_metrics_are_those_of_both() {
    let Some((warptap, collector)) = programs() else { return };
    let dir = tempfile::tempdir().unwrap();
    let [input, health, metrics] = free_ports();
    let yaml = filled(YAML, dir.path(), &[input]);
    let more = format!(
        "  extensions: [health_check]\n  telemetry: {{metrics: {{level: normal, readers: [{{pull: {{exporter: {{prometheus: {{host: 127.0.0.1, port: {metrics}}}}}}}}}]}}}}\n\
         extensions: {{health_check: {{endpoint: '127.0.0.1:{health}'}}}}\n"
    );
    let running = start_with(&warptap, Some(&collector), &format!("{yaml}{more}"), dir.path(), &[]).unwrap();
    let is_healthy = || inputs::get(health, "/").is_some_and(|body| body.contains("Server available"));
    assert!(is_healthy());
    let own = "otelcol_process_uptime ";
    let of_child = "otelcol_process_uptime{delegated=\"true\"} ";
    wait("metrics of both", || {
        let page = inputs::get(metrics, "/metrics").unwrap_or_default();
        [own, of_child, "warptap_collector_restarts 0"]
            .iter()
            .all(|start| page.lines().any(|line| line.starts_with(start)))
    });
    crate::processes::kill(&[child_of(&running)]);
    wait("its end to be seen", || !is_healthy());
    wait("the next Collector", is_healthy);
    let page = inputs::get(metrics, "/metrics").unwrap();
    assert!(page.lines().any(|line| line == "warptap_collector_restarts 1"), "{page}");
    assert!(running.stop().success());
}

/// The guard is not in the way of the kernel's notice: the Collector ends with whichever of its parents ends first.
#[test]
fn the_collector_ends_when_its_guard_is_killed() {
    let Some((warptap, collector)) = programs() else { return };
    let dir = tempfile::tempdir().unwrap();
    let yaml = filled(YAML, dir.path(), &free_ports::<1>());
    let running = start(&warptap, Some(&collector), &yaml, dir.path()).unwrap();
    let [guard, child] = descendants(running.pid())[..] else { panic!("a guard and a Collector") };
    crate::processes::kill(&[guard]);
    wait("the end of the Collector", || !is_running(child));
    wait("the next Collector", || descendants(running.pid()).len() == 2);
    assert!(running.stop().success());
}
