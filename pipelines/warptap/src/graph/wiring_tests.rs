//! Connectors: the pipelines they connect, and the errors in their use.

use std::time::Duration;

use component::Host;
use pdata::Signal;

use crate::graph::Graph;
use crate::graph::testing::{batch, happened, plan};

/// Returns a configuration of fakes with these pipelines.
fn yaml(pipelines: &str) -> String {
    format!(
        "{{receivers: {{source: }}, processors: {{step: }}, exporters: {{sink: }}, connectors: {{link: , link/b: }},
          service: {{pipelines: {{ {pipelines} }}}}}}"
    )
}

#[track_caller]
fn refuse(pipelines: &str, want: &str) {
    let error = plan(&yaml(pipelines)).err().expect("the plan is refused");
    assert_eq!(error.problems().iter().map(|p| p.message.clone()).collect::<Vec<_>>(), [want]);
}

/// Sends one batch of logs into the first pipeline, and returns the batches that the sinks receive.
fn taken(pipelines: &str) -> Vec<String> {
    let long = Duration::from_secs(60);
    let plan = plan(&yaml(pipelines)).unwrap().without_receivers();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let graph = Graph::start(plan, &Host::detached(), long).await.unwrap();
        happened();
        let first = graph.heads.first().unwrap().1.clone();
        component::Consumer::consume(&*first, batch(Signal::Logs, "caller")).await.unwrap();
        let taken = happened();
        graph.stop(long).await;
        taken
    })
}

#[test]
fn a_connector_feeds_every_pipeline_that_lists_it() {
    let pipelines = "logs/in: {receivers: [source], exporters: [link]},
        logs/a: {receivers: [link], processors: [step], exporters: [sink]},
        logs/b: {receivers: [link], exporters: [sink]},
        traces: {receivers: [link], exporters: [sink]}";
    assert_eq!(
        taken(pipelines),
        ["sink takes logs caller step", "sink takes logs caller", "sink takes traces "]
    );
}

#[test]
fn connectors_can_be_chained() {
    let pipelines = "logs/in: {receivers: [source], exporters: [link, sink]},
        logs/a: {receivers: [link], processors: [step], exporters: [link/b]},
        traces: {receivers: [link/b], exporters: [sink]}";
    assert_eq!(taken(pipelines), ["sink takes traces ", "sink takes logs caller"]);
}

#[test]
fn a_dangling_connector_is_refused() {
    refuse(
        "logs: {receivers: [source], exporters: [link]}",
        r#"connector "link" used as exporter in [logs] pipeline but not used in any supported receiver pipeline"#,
    );
    refuse(
        "logs: {receivers: [source, link], exporters: [sink]}",
        r#"connector "link" used as receiver in [logs] pipeline but not used in any supported exporter pipeline"#,
    );
    refuse(
        "traces: {receivers: [source], exporters: [link]}, logs: {receivers: [source], exporters: [link]},
         logs/b: {receivers: [link], exporters: [sink]}",
        r#"connector "link" used as exporter in [traces] pipeline but not used in any supported receiver pipeline"#,
    );
}

#[test]
fn a_cycle_of_pipelines_is_refused() {
    refuse(
        "logs: {receivers: [source, link/b], processors: [step], exporters: [link]},
         logs/b: {receivers: [link], exporters: [link/b]}",
        concat!(
            r#"cycle detected: connector "link" (logs to logs) -> connector "link/b" (logs to logs)"#,
            r#" -> processor "step" in pipeline "logs" -> connector "link" (logs to logs)"#
        ),
    );
}
