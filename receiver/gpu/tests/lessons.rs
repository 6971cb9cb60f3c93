//! Regression tests of defects of published agents in their reports of collectives, through the whole receiver.

mod common;

use std::collections::BTreeSet;

use common::job::{Job, Rank, events_until, job_events};
use common::*;
use event::{Event, ExitStatus, ProcessId};
use gpu::Settings;
use opentelemetry_proto::tonic::metrics::v1::metric;
use probe_abi::counters::DropReason;

const ON_TIME: fn(u32) -> Option<u64> = |_| Some(0);

fn sum(output: &Output, pid: u32, name: &str) -> f64 {
    values(output.last_of(pid), name).values().sum()
}

/// `ncclUniqueId` was read as a pointer: rank, number of ranks and communicator were 0 for every collective.
#[test]
fn rank_is_known_if_the_id_is_passed_by_value() {
    let mut job = Job::new(3, 1_000);
    job.rounds(2, ON_TIME);
    let mut settings = Settings::default();
    settings.collectives.engine.trace.rate = 1.0;
    let output = analysed(&job_events(&job), settings);
    let spans: Vec<_> = output.spans().into_iter().filter(|(_, s)| s.name == "nccl.rank.AllReduce").collect();
    assert_eq!(spans.len(), 6);
    for (resource, span) in spans {
        let rank = pid_of(Some(resource)).unwrap() - 1_000;
        assert_eq!(text(&span.attributes, "nccl.rank"), rank.to_string());
        assert_eq!(text(&span.attributes, "nccl.nranks"), "3");
        assert_eq!(text(&span.attributes, "nccl.rank_source"), "init");
        assert_eq!(text(&span.attributes, "nccl.communicator.source"), "nccl");
        let hash = nccl::hash::of_unique_id(&job.id);
        assert_eq!(text(&span.attributes, "nccl.communicator.hash"), format!("{hash:#x}"));
    }
}

/// Collectives had monotonic times and waits had wall times, so they never matched. Tests with small times missed
/// it.
#[test]
fn collectives_and_waits_match_after_a_year_of_uptime() {
    let mut job = Job::new(4, 1_000);
    job.now_ns = 365 * 86_400 * SECOND + 123_456_789;
    job.rounds(10, ON_TIME);
    let begin = job.now_ns - SECOND;
    job.events.sort_by_key(Event::at_ns);
    let mut events: Vec<Event> =
        events_until(job.ranks.iter().map(Rank::info).collect(), Vec::new(), 2 * SECOND);
    for (n, event) in job.events.into_iter().enumerate() {
        let to_unix_ns = UNIX as i64 + n as i64 * MS as i64;
        events.push(Event::Clock(event::ClockOffsets { at_ns: begin, to_unix_ns, to_boottime_ns: 0 }));
        events.push(event);
    }
    let output = analysed(&events, Settings::default());
    for pid in 1_000..1_004 {
        let [waits] = distributions(output.last_of(pid), "nccl.collective.barrier.wait") else {
            panic!("one series")
        };
        assert_eq!(waits.count, 10);
        assert!(waits.max.unwrap() < 0.005, "{waits:?}");
    }
}

/// The entry of a wait was taken for its end, so the wait was attributed to the next collective.
#[test]
fn a_wait_is_attributed_to_its_collective() {
    let mut rank = Rank::new(1_000, 0);
    let mut events = vec![rank.init(2 * SECOND, MS, 1, &[3; 128])];
    for n in 0..10u64 {
        let at_ns = 3 * SECOND + n * 100 * MS;
        let wait_ns = if n % 2 == 0 { 50 * MS } else { 5 * MS };
        let event = if n % 2 == 0 { rank.all_reduce(at_ns, US) } else { rank.all_gather(at_ns, US) };
        events.extend([event, rank.sync(at_ns, at_ns + US, at_ns + US + wait_ns)]);
    }
    let output = analysed(&events_until(vec![rank.info()], events, 5 * SECOND), Settings::default());
    for point in distributions(output.last_of(1_000), "nccl.collective.barrier.wait") {
        let expected = if text(&point.attributes, "nccl.operation") == "AllReduce" { 0.050 } else { 0.005 };
        assert_eq!((point.count, point.max), (5, Some(expected)), "{point:?}");
    }
}

/// Collectives in a step were taken for a sign of a prefill; tensor-parallel decodes have them, too.
#[test]
fn decodes_may_have_collectives() {
    let phases = |with_collectives: bool| {
        let mut server = Program::new(1_000);
        let rank = Rank { process: server.info.process, ..Rank::new(1_000, 0) };
        let mut calls = vec![rank.init(2 * SECOND, US, 1, &[3; 128])];
        for step in 0..200 {
            if step % 20 == 7 {
                server.prefill(20 * MS);
            }
            (0..64).for_each(|n| calls.push(rank.all_reduce(server.now_ns + n * US, 1)));
            server.decode(5 * MS);
        }
        let mut events = events(&[server], false);
        if with_collectives {
            events.extend(calls);
            events[2..].sort_by_key(Event::at_ns);
        }
        let output = analysed(&events, Settings::default());
        let steps = distributions(output.last_of(1_000), "gpu.step.duration").iter();
        steps.map(|p| (text(&p.attributes, "gpu.step.phase"), p.count)).collect::<BTreeSet<_>>()
    };
    let without = phases(false);
    assert!(without.iter().any(|(phase, count)| phase == "decode" && *count > 150), "{without:?}");
    assert_eq!(phases(true), without);
}

/// Element counts were exported as bytes.
#[test]
fn bytes_are_elements_times_type_size() {
    let sizes = [1, 1, 4, 4, 8, 8, 2, 4, 8, 2, 1, 1u64];
    let rank = Rank::new(1_000, 0);
    let mut events = vec![rank.init(2 * SECOND, MS, 1, &[3; 128])];
    for datatype in 0..sizes.len() as u64 + 1 {
        events.push(rank.call_args("ncclAllGather", 3 * SECOND + datatype * MS, US, |t| {
            t.arguments = [0x10, 0x20, 1_000, datatype, rank.comm, 7, 0, 0];
        }));
    }
    let output = analysed(&events_until(vec![rank.info()], events, 4 * SECOND), Settings::default());
    let bytes = values(output.last_of(1_000), "nccl.collective.io");
    assert_eq!(bytes.values().sum::<f64>(), 1_000.0 * sizes.iter().sum::<u64>() as f64);
    let unknown: Vec<f64> = bytes.iter().filter(|(k, _)| k.contains("=unknown")).map(|(_, v)| *v).collect();
    assert_eq!(unknown, [0.0]);
    assert_eq!(
        values(output.account(), "warptap.collective.anomalies")["warptap.collective.anomaly=unknown_size"],
        1.0
    );
}

/// A nested call overwrote the thread's only slot: `ncclBcast` calls `ncclBroadcast`.
#[test]
fn nested_calls_are_one_operation() {
    let rank = Rank::new(1_000, 0);
    let mut events = vec![rank.init(2 * SECOND, MS, 1, &[3; 128])];
    for n in 0..5 {
        let at_ns = 3 * SECOND + n * MS;
        events.push(rank.call_args("ncclBroadcast", at_ns + US, 5 * US, |t| {
            t.arguments = [0x10, 0x20, 8, 7, 0, rank.comm, 7, 0];
        }));
        events.push(rank.call_args("ncclBcast", at_ns, 8 * US, |t| {
            t.arguments = [0x10, 8, 7, 0, rank.comm, 7, 0, 0];
        }));
    }
    let output = analysed(&events_until(vec![rank.info()], events, 4 * SECOND), Settings::default());
    assert_eq!(sum(&output, 1_000, "nccl.collective.count"), 5.0);
    let nested = values(output.account(), "warptap.collective.operations");
    assert_eq!(nested["warptap.collective.outcome=nested"], 5.0);
}

/// Losses were not counted, and incomplete data was compared as if it were complete.
#[test]
fn no_rank_is_blamed_after_a_loss() {
    let mut job = Job::new(4, 1_000);
    job.rounds(20, ON_TIME);
    let lost_ns = job.now_ns;
    job.rounds(60, ON_TIME);
    let mut events = job_events(&job);
    // Two collectives of rank 2 are lost.
    let mut gone = 0;
    events.retain(|e| {
        let is_it = matches!(e, Event::CallArgs(t) if t.header.pid == 1_002 && t.header.entry_ns > lost_ns);
        gone += u32::from(is_it);
        !is_it || gone > 2
    });
    let at = events.iter().position(|e| e.at_ns() > Some(lost_ns + 15 * MS)).unwrap();
    events.insert(at, Event::Lost { at_ns: lost_ns + 15 * MS, reason: DropReason::RingFull, count: 2 });
    let output = analysed(&events, Settings::default());
    assert_eq!(values(output.account(), "warptap.event.dropped")["warptap.drop.reason=ring_full"], 2.0);
    let flaws = values(output.account(), "warptap.collective.anomalies");
    assert!(flaws["warptap.collective.anomaly=round_evicted"] > 0.0, "{flaws:?}");
    for verdict in ["nccl.straggler", "nccl.hang", "nccl.mismatch"] {
        assert!(output.logs(verdict).is_empty(), "{verdict}");
    }
}

/// As above with counted calls of each rank: no rank is blamed, whenever the loss is noticed, and what
/// comes after it is compared as ever.
#[test]
fn a_counted_loss_does_not_shift_later_collectives() {
    let mut job = Job::new(4, 1_000);
    job.rounds(20, ON_TIME);
    let lost_ns = job.now_ns;
    job.rounds(60, ON_TIME);
    let (mut events, mut calls) = (job_events(&job), [0u64; 4]);
    for event in &mut events {
        if let Event::CallArgs(args) = event
            && probe_abi::row(args.header.row).is_some_and(|row| row.wiring.args.is_operation())
        {
            let next = &mut calls[(args.header.pid - 1_000) as usize];
            args.ordinal = Some(*next);
            *next += 1;
        }
    }
    let mut gone = 0;
    events.retain(|e| {
        let is_it = matches!(e, Event::CallArgs(t) if t.header.pid == 1_002 && t.header.entry_ns > lost_ns);
        gone += u32::from(is_it);
        !is_it || gone > 2
    });
    let output = analysed(&events, Settings::default());
    let flaws = values(output.account(), "warptap.collective.anomalies");
    assert_eq!(flaws["warptap.collective.anomaly=lost"], 2.0);
    for verdict in ["nccl.straggler", "nccl.hang", "nccl.mismatch"] {
        assert!(output.logs(verdict).is_empty(), "{verdict}");
    }
    let skews =
        (1_000..1_004).flat_map(|pid| distributions(output.last_of(pid), "nccl.collective.arrival.skew"));
    let (mut compared, mut longest) = (0, 0.0f64);
    for skew in skews {
        compared += skew.count;
        longest = longest.max(skew.max.unwrap());
    }
    assert_eq!(compared, 78, "all but the two that were not seen whole");
    assert!(longest < 0.001, "{longest}");
}

/// A reused handle or pid continued the series of its former owner.
#[test]
fn reused_handles_and_pids_are_new_series() {
    let first = Rank::new(1_000, 0);
    let again = Rank { process: ProcessId { pid: 1_000, start_ns: 77 }, ..first };
    let mut events = vec![
        first.init(2 * SECOND, MS, 1, &[3; 128]),
        first.all_reduce(3 * SECOND, US),
        first.of_comm("ncclCommDestroy", 3 * SECOND + MS),
        first.init(3 * SECOND + 2 * MS, MS, 1, &[4; 128]),
        first.all_reduce(3 * SECOND + 5 * MS, US),
        first.all_reduce(3 * SECOND + 6 * MS, US),
        Event::Exit { process: first.process, at_ns: 4 * SECOND, status: ExitStatus::Unknown },
    ];
    events.extend([again.init(5 * SECOND, MS, 1, &[5; 128]), again.all_reduce(6 * SECOND, US)]);
    let mut later = again.info();
    later.at_ns = 5 * SECOND;
    let mut events = events_until(vec![first.info()], events, 7 * SECOND);
    let at = events.iter().position(|e| e.at_ns() > Some(5 * SECOND)).unwrap();
    events.insert(at, Event::Process(Box::new(later)));
    let output = analysed(&events, Settings::default());
    let hash = |byte: u8| format!("nccl.communicator.hash={:#x}", nccl::hash::of_unique_id(&[byte; 128]));
    let mut counts: Vec<(String, f64)> = Vec::new();
    let of_pid = output.collections().into_iter().filter(|r| pid_of(r.resource.as_ref()) == Some(1_000));
    for collected in of_pid {
        let of = values(collected, "nccl.collective.count").into_iter();
        counts.extend(of.map(|(key, count)| (key.split(',').next().unwrap().to_owned(), count)));
    }
    counts.sort_by(|a, b| a.0.cmp(&b.0));
    let mut expected = vec![(hash(3), 1.0), (hash(4), 2.0), (hash(5), 1.0)];
    expected.sort_by(|a, b| a.0.cmp(&b.0));
    assert_eq!(counts, expected);
}

/// Pids, threads and addresses were attributes of metrics, so series were unbounded.
#[test]
fn metrics_have_no_pids_threads_or_addresses() {
    let mut job = Job::new(4, 1_000);
    job.rounds(40, |rank| Some(if rank == 2 { 20 * MS } else { 0 }));
    let output = analysed(&job_events(&job), Settings::default());
    let bounded = ["datatype", "hash", "kind", "operation", "rank", "reduction"];
    for metric in output.collections().into_iter().flat_map(metrics).filter(|m| m.name.starts_with("nccl.")) {
        let attributes: Vec<_> = match metric.data.as_ref().unwrap() {
            metric::Data::Sum(s) => s.data_points.iter().flat_map(|p| &p.attributes).collect(),
            metric::Data::Gauge(g) => g.data_points.iter().flat_map(|p| &p.attributes).collect(),
            metric::Data::ExponentialHistogram(h) => {
                h.data_points.iter().flat_map(|p| &p.attributes).collect()
            }
            other => panic!("{other:?}"),
        };
        for attribute in attributes {
            let last = attribute.key.rsplit('.').next().unwrap();
            assert!(bounded.contains(&last), "{}: {}", metric.name, attribute.key);
        }
    }
}

/// Failed operations were counted as completed.
#[test]
fn refused_operations_are_errors_only() {
    let rank = Rank::new(1_000, 0);
    let mut events = vec![rank.init(2 * SECOND, MS, 1, &[3; 128])];
    for n in 0..4 {
        events.push(rank.call_args("ncclAllReduce", 3 * SECOND + n * MS, US, |t| {
            t.arguments = [0x10, 0x20, 8, 7, 0, rank.comm, 7, 0];
            // 7 is "in progress", which is not an error.
            t.result = if n == 3 { 7 } else { 5 };
        }));
    }
    let output = analysed(&events_until(vec![rank.info()], events, 4 * SECOND), Settings::default());
    assert_eq!(sum(&output, 1_000, "nccl.collective.count"), 1.0);
    let errors = values(output.last_of(1_000), "nccl.errors");
    assert_eq!(errors["error.type=ncclInvalidUsage,nccl.function=ncclAllReduce"], 3.0);
    assert_eq!(errors.len(), 1);
}
