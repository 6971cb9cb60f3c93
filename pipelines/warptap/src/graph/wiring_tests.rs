//! Connectors: the pipelines they connect, and the errors in their use. Bridges: the order of nodes.

use std::time::Duration;

use component::Host;
use pdata::Signal;

use super::{Bridge, wire};
use crate::config::Sections;
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

fn id(text: &str) -> component::ComponentId {
    component::ComponentId::parse(text).unwrap()
}

/// Returns the names of the nodes of pipelines of traces by level, the lowest first.
fn levels(pipelines: &str, bridge: &Bridge) -> Vec<String> {
    let root: config::Node = serde_yaml::from_str(&yaml(pipelines)).unwrap();
    let sections = Sections::read(&root);
    let wiring = wire(&sections.service.pipelines, &|_, _| None, Some(bridge)).unwrap();
    let top = wiring.levels.values().max().unwrap();
    let at =
        |level| wiring.levels.iter().filter(move |(_, l)| **l == level).map(|(key, _)| key.id().to_string());
    (0..=*top).map(|level| at(level).collect::<Vec<_>>().join(" ")).collect()
}

#[test]
fn nodes_behind_a_bridge_start_before_it_and_those_in_front_of_it_after() {
    let pipelines = "traces: {receivers: [source], processors: [step], exporters: [sink/in]},
        traces/b: {receivers: [source/out], processors: [step], exporters: [sink]}";
    let bridge =
        Bridge { extension: id("bridge"), inputs: vec![id("sink/in")], outputs: vec![id("source/out")] };
    let got = levels(pipelines, &bridge);
    assert_eq!(got, ["", "sink", "step", "source/out", "bridge", "sink/in", "step", "", "source"]);
}

/// It starts once: what it is sent again comes after it.
#[test]
fn data_may_pass_a_bridge_twice() {
    let pipelines = "traces: {receivers: [source], exporters: [sink/in]},
        traces/b: {receivers: [source/out], exporters: [sink/again]},
        traces/c: {receivers: [source/last], exporters: [sink]}";
    let [inputs, outputs] =
        [["sink/in", "sink/again"], ["source/out", "source/last"]].map(|ids| ids.map(id).to_vec());
    let got = levels(pipelines, &Bridge { extension: id("bridge"), inputs, outputs });
    assert_eq!(got, ["", "sink sink/again", "source/last source/out", "bridge", "sink/in", "", "source"]);
}
