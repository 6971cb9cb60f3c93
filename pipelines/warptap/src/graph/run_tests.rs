//! The order of starts and stops, and the paths of data.

use std::time::Duration;

use component::Host;
use pdata::Signal;

use super::{Graph, Stopped};
use crate::graph::testing::{batch, happened, plan};

const LONG: Duration = Duration::from_secs(60);

/// Runs a test on this thread with a paused clock, so that no timeout takes real time.
fn run<T>(test: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .start_paused(true)
        .build()
        .unwrap()
        .block_on(test)
}

/// Waits until the receivers have sent.
async fn settle() {
    tokio::time::sleep(Duration::from_millis(1)).await;
}

const DIAMOND: &str =
    "{receivers: {source/a: , source/b: }, processors: {step/1: , step/2: }, exporters: {sink/x: , sink/y: },
    service: {pipelines: {
      logs: {receivers: [source/a, source/b], processors: [step/1, step/2], exporters: [sink/x, sink/y]},
      logs/b: {receivers: [source/b], exporters: [sink/x]},
      traces: {receivers: [source/b], exporters: [sink/y]}}}}";

#[test]
fn starts_from_the_sinks_and_stops_from_the_sources() {
    run(async {
        let graph = Graph::start(plan(DIAMOND).unwrap(), &Host::detached(), LONG).await.unwrap();
        let starts: Vec<String> = happened().into_iter().filter(|l| l.starts_with("start")).collect();
        let want = ["sink/x", "sink/y", "step/2", "step/1", "source/a", "source/b"];
        assert_eq!(starts, want.map(|name| format!("start {name}")));
        settle().await;
        happened();
        assert_eq!(graph.stop(LONG).await, Stopped::default());
        let want = ["source/a", "source/b", "step/1", "step/2", "sink/x", "sink/y"];
        assert_eq!(happened(), want.map(|name| format!("stop {name}")));
    });
}

#[test]
fn data_passes_processors_in_order_to_every_exporter() {
    run(async {
        let graph = Graph::start(plan(DIAMOND).unwrap(), &Host::detached(), LONG).await.unwrap();
        settle().await;
        let mut taken: Vec<String> = happened().into_iter().filter(|l| l.contains("takes")).collect();
        taken.sort();
        assert_eq!(
            taken,
            [
                "sink/x takes logs source/a step/1 step/2",
                // The processors of one pipeline changed their own copy.
                "sink/x takes logs source/b",
                "sink/x takes logs source/b step/1 step/2",
                "sink/y takes logs source/a step/1 step/2",
                "sink/y takes logs source/b step/1 step/2",
                "sink/y takes traces ",
            ]
        );
        graph.stop(LONG).await;
    });
}

#[test]
fn a_failed_start_stops_what_was_started() {
    run(async {
        let yaml = DIAMOND.replace("source/b: }", "source/b: {refuse: true} }");
        let error = Graph::start(plan(&yaml).unwrap(), &Host::detached(), LONG).await.err().unwrap();
        assert_eq!(
            error.to_string(),
            r#"cannot start pipelines: failed to start "source/b" receiver: refused"#
        );
        let stops: Vec<String> = happened().into_iter().filter(|l| l.starts_with("stop")).collect();
        let want = ["source/a", "step/1", "step/2", "sink/x", "sink/y"];
        assert_eq!(stops, want.map(|name| format!("stop {name}")));
    });
}

#[test]
fn a_component_that_hangs_is_abandoned_and_others_stop() {
    run(async {
        let yaml = DIAMOND.replace("step/1: ", "step/1: {hang: true}");
        let graph = Graph::start(plan(&yaml).unwrap(), &Host::detached(), LONG).await.unwrap();
        settle().await;
        happened();
        assert_eq!(graph.stop(LONG).await.abandoned, [r#""step/1" processor of pipeline logs"#]);
        let want = ["source/a", "source/b", "step/2", "sink/x", "sink/y"];
        assert_eq!(happened(), want.map(|name| format!("stop {name}")));
    });
}

#[test]
fn a_panic_is_reported_with_its_component() {
    run(async {
        let yaml = DIAMOND.replace("sink/y: ", "sink/y: {panic: true}");
        let mut graph = Graph::start(plan(&yaml).unwrap(), &Host::detached(), LONG).await.unwrap();
        assert_eq!(graph.failed().await, r#""sink/y" exporter"#);
        assert_eq!(graph.stop(LONG).await, Stopped::default());
    });
}

#[test]
fn a_caller_can_feed_the_pipelines_itself() {
    run(async {
        let graph =
            Graph::start(plan(DIAMOND).unwrap().without_receivers(), &Host::detached(), LONG).await.unwrap();
        happened();
        graph.consumer(Signal::Logs).unwrap().consume(batch(Signal::Logs, "caller")).await.unwrap();
        let want = [
            "sink/x takes logs caller step/1 step/2",
            "sink/y takes logs caller step/1 step/2",
            "sink/x takes logs caller",
        ];
        assert_eq!(happened(), want);
        assert!(graph.consumer(Signal::Metrics).is_none());
        graph.stop(LONG).await;
    });
}
