//! Nodes that a reload leaves running, restarts and holds.

use std::time::Duration;

use component::Host;
use pdata::Signal;

use crate::graph::testing::{batch, happened, plan};
use crate::graph::{Graph, Reloaded};

const LONG: Duration = Duration::from_secs(60);

const OLD: &str = "{receivers: {source: }, processors: {step/1: , step/2: }, exporters: {sink/x: , sink/y: },
    extensions: {aid: , aid/b: },
    service: {extensions: [aid, aid/b], pipelines: {
      logs: {receivers: [source], processors: [step/1, step/2], exporters: [sink/x]},
      logs/b: {receivers: [source], exporters: [sink/y]}}}}";

/// Runs `OLD`, reloads it with `from` replaced by `to`, and returns the outcome and the events of the fakes.
fn check(from: &str, to: &str) -> (Reloaded, Vec<String>) {
    check_from(OLD, from, to)
}

fn check_from(old: &str, from: &str, to: &str) -> (Reloaded, Vec<String>) {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
    assert!(old.contains(from), "{from}");
    runtime.block_on(async {
        let mut graph = Graph::start(plan(old).unwrap(), &Host::detached(), LONG).await.unwrap();
        tokio::time::sleep(Duration::from_millis(1)).await;
        let new = plan(&old.replace(from, to)).unwrap();
        happened();
        let reloaded = graph.reload(new, LONG).await.unwrap();
        tokio::time::sleep(Duration::from_millis(1)).await;
        let events = happened();
        let data = batch(Signal::Logs, "caller");
        graph.consumer(Signal::Logs).unwrap().consume(data).await.unwrap();
        let taken = happened();
        graph.stop(LONG).await;
        (reloaded, events.into_iter().chain(taken).collect())
    })
}

#[test]
fn the_same_configuration_restarts_nothing() {
    let (reloaded, events) = check("source: }", "source: } ");
    assert_eq!(reloaded, Reloaded { unchanged: 7, ..Reloaded::default() });
    assert_eq!(events, ["sink/x takes logs caller step/1 step/2", "sink/y takes logs caller"]);
}

#[test]
fn only_changed_nodes_are_restarted_and_data_passes_them() {
    let (reloaded, events) = check("sink/x: ", "sink/x: {size: 2}");
    assert_eq!(
        (reloaded.unchanged, reloaded.started.as_slice()),
        (6, &[r#""sink/x" exporter"#.to_owned()][..])
    );
    let want =
        ["stop sink/x", "start sink/x", "sink/x takes logs caller step/1 step/2", "sink/y takes logs caller"];
    assert_eq!(events, want);
}

#[test]
fn processors_can_be_added_and_removed() {
    let (reloaded, events) = check("processors: [step/1, step/2]", "processors: [step/2]");
    assert_eq!(reloaded.stopped, [r#""step/1" processor of pipeline logs"#]);
    assert_eq!(events, ["stop step/1", "sink/x takes logs caller step/2", "sink/y takes logs caller"]);
    let (_, events) = check(
        "receivers: [source], exporters: [sink/y]",
        "receivers: [source], processors: [step/1], exporters: [sink/y]",
    );
    assert_eq!(
        events,
        ["start step/1", "sink/x takes logs caller step/1 step/2", "sink/y takes logs caller step/1"]
    );
}

#[test]
fn users_of_a_changed_extension_are_restarted() {
    let (reloaded, events) = check("aid/b: }", "aid/b: {size: 3} }");
    assert_eq!(reloaded.unchanged, 6);
    assert_eq!(events[..2], ["stop aid/b", "start aid/b"]);
    // The name of an extension anywhere in a section counts as a reference to it.
    let old = OLD.replace("sink/x: ", "sink/x: {note: aid/b}");
    let (reloaded, events) = check_from(&old, "aid/b: }", "aid/b: {size: 3} }");
    assert_eq!(reloaded.started, [r#""aid/b" extension"#, r#""sink/x" exporter"#]);
    assert_eq!(events[..4], ["stop sink/x", "stop aid/b", "start aid/b", "start sink/x"]);
    // An extension that uses another one starts after it, and is restarted with it.
    let old = old.replace("extensions: {aid: ,", "extensions: {aid: {note: aid/b},");
    let old = old.replace("sink/y: }", "sink/y: {note: aid} }");
    let (reloaded, _) = check_from(&old, "aid/b: }", "aid/b: {size: 3} }");
    let want = [r#""aid/b" extension"#, r#""aid" extension"#, r#""sink/x" exporter"#, r#""sink/y" exporter"#];
    assert_eq!(reloaded.started, want);
}

#[test]
fn a_receiver_that_changed_is_stopped_before_its_successor_starts() {
    let (_, events) = check("{source: }", "{source: {size: 1} }");
    let position = |line: &str| events.iter().position(|l| l == line);
    assert!(position("stop source") < position("start source"), "{events:?}");
}

#[test]
fn a_reload_to_the_old_plan_repairs_a_failed_one() {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
    runtime.block_on(async {
        let mut graph = Graph::start(plan(OLD).unwrap(), &Host::detached(), LONG).await.unwrap();
        let bad = plan(&OLD.replace("sink/x: ", "sink/x: {refuse: true}")).unwrap();
        assert!(graph.reload(bad, LONG).await.is_err());
        let reloaded = graph.reload(plan(OLD).unwrap(), LONG).await.unwrap();
        assert_eq!(reloaded.started, [r#""sink/x" exporter"#]);
        tokio::time::sleep(Duration::from_millis(1)).await;
        happened();
        graph.consumer(Signal::Logs).unwrap().consume(batch(Signal::Logs, "caller")).await.unwrap();
        assert_eq!(happened(), ["sink/x takes logs caller step/1 step/2", "sink/y takes logs caller"]);
        graph.stop(LONG).await;
    });
}
