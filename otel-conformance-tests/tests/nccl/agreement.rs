//! Independent agents, each tracing some of the ranks, that send to one real Collector.

use std::collections::{BTreeMap, BTreeSet};

use otel_conformance_tests::{CollectorConfig, peer, real_collector};
use pdata::Data;

use crate::job::Job;
use crate::live::agent::Agent;
use crate::live::binary::binary;
use crate::live::inbox::{ReportedItem, spans};

const RANKS: usize = 6;
const COLLECTIVES: usize = 120;

/// Returns the spans of ranks by collective: communicator, number.
fn parts(batches: &[Data]) -> BTreeMap<(String, u64), Vec<ReportedItem>> {
    let mut parts: BTreeMap<_, Vec<ReportedItem>> = BTreeMap::new();
    for span in batches.iter().flat_map(spans).filter(|span| span.name == "nccl.rank.AllReduce") {
        let key = (span.text("nccl.communicator.hash").to_owned(), span.number("nccl.sequence"));
        parts.entry(key).or_default().push(span);
    }
    parts
}

#[test]
fn spans_of_a_collective_from_several_agents_are_one_trace() {
    let Some(binary) = binary() else { return };
    let Some(collector) = peer(real_collector(&CollectorConfig::default())) else { return };
    let script = format!(
        "ranks {RANKS}\ncomm world\nrepeat {COLLECTIVES}\npace world 15ms\nallreduce world 512 bfloat16 sum\n\
         sync\nend\n"
    );
    let mut job = Job::start(&binary, &script);
    let exporter = format!("endpoint: '{}', tls: {{insecure: true}}", collector.grpc);
    let receiver = ", nccl: {traces: {rate: 0.25, skew_min: 0s}}";
    let agents: Vec<Agent> = (job.ranks.chunks(RANKS / 3))
        .map(|some| Agent::start(&binary, job.dir.path(), some, receiver, &exporter))
        .collect();
    job.go();
    job.done();
    // Once all agents reported the last one chosen, all before it were reported.
    let is_whole = |batches: &[Data]| {
        let parts = parts(batches);
        let roots = batches.iter().flat_map(spans).filter(|s| s.name == "nccl.collective.AllReduce").count();
        parts.len() > COLLECTIVES / 10 && roots == parts.len() && parts.values().all(|of| of.len() == RANKS)
    };
    let batches = collector.received(is_whole);
    drop(agents);
    let parts = parts(&batches);
    let hash = job.hash("world");
    println!("{} of {COLLECTIVES} collectives are traced", parts.len());
    assert!((COLLECTIVES / 8..COLLECTIVES / 2).contains(&parts.len()), "a quarter of them");
    let mut traces = BTreeSet::new();
    for ((communicator, seq), of) in &parts {
        assert_eq!(*communicator, hash);
        let ids: BTreeSet<_> = of.iter().map(|span| (&span.ids.0, &span.ids.2)).collect();
        assert_eq!(ids.len(), 1, "#{seq}: one trace, one parent: {of:#?}");
        let (trace, parent) = ids.into_iter().next().unwrap();
        assert!(traces.insert(trace.clone()), "#{seq} has a trace of its own");
        let ranks: BTreeSet<u32> = of.iter().map(|span| span.number("nccl.rank")).collect();
        assert_eq!(ranks, (0..RANKS as u32).collect(), "#{seq}");
        let all = batches.iter().flat_map(spans).filter(|span| span.ids.0 == *trace).collect::<Vec<_>>();
        let roots: Vec<&ReportedItem> = all.iter().filter(|span| span.ids.2.is_empty()).collect();
        assert!(roots.len() == 1 && roots[0].ids.1 == *parent, "#{seq}: {roots:#?}");
        assert_eq!(
            all.len(),
            1 + 3 * RANKS,
            "#{seq}: the whole, and of each rank its part, its call, its wait"
        );
    }
}
