//! Collectives: counts, times, traces and log records by process.

mod common;

use std::collections::{BTreeMap, BTreeSet};

use common::job::{Job, Rank, events_until, job_events};
use common::*;
use event::{Event, ExitStatus};
use gpu::Settings;
use opentelemetry_proto::tonic::trace::v1::Span;
use probe_abi::counters::DropReason;

const ON_TIME: fn(u32) -> Option<u64> = |_| Some(0);

/// Delays rank 2 by `ns`.
fn late(ns: u64) -> impl Fn(u32) -> Option<u64> {
    move |rank| Some(if rank == 2 { ns } else { 0 })
}

fn traced_at(rate: f64) -> Settings {
    let mut settings = Settings::default();
    settings.collectives.engine.trace.rate = rate;
    settings
}

/// Returns the points of a metric of a process by their attributes, except the communicator, of which there is one.
fn by_rest(output: &Output, pid: u32, name: &str) -> BTreeMap<String, f64> {
    let all = values(output.last_of(pid), name).into_iter();
    all.map(|(key, value)| (key.split_once(',').map_or(String::new(), |(_, rest)| rest.to_owned()), value))
        .collect()
}

#[test]
fn operations_and_bytes_are_counted() {
    let mut job = Job::new(2, 1_000);
    job.rounds(7, ON_TIME);
    let at_ns = job.now_ns;
    let gather = (0..3).map(|n| job.ranks[0].all_gather(at_ns + n * MS, US));
    let all: Vec<Event> = gather.collect();
    job.events.extend(all);
    job.now_ns += 10 * MS;
    let output = analysed(&job_events(&job), Settings::default());
    let reduce = "nccl.datatype=float32,nccl.operation=AllReduce,nccl.rank=0,nccl.reduction=sum";
    let gather = "nccl.datatype=bfloat16,nccl.operation=AllGather,nccl.rank=0";
    let expected = |reduced: f64, gathered: f64| {
        BTreeMap::from([(gather.to_owned(), gathered), (reduce.to_owned(), reduced)])
    };
    assert_eq!(by_rest(&output, 1_000, "nccl.collective.count"), expected(7.0, 3.0));
    assert_eq!(
        by_rest(&output, 1_000, "nccl.collective.io"),
        expected(7.0 * 4.0 * 1_024.0, 3.0 * 2.0 * 512.0)
    );
    let [communicator] =
        &values(output.last_of(1_001), "nccl.collective.count").into_keys().collect::<Vec<_>>()[..]
    else {
        panic!("one operation of one communicator")
    };
    let hash = format!("nccl.communicator.hash={:#x},", nccl::hash::of_unique_id(&job.id));
    assert!(communicator.starts_with(&hash), "{communicator}");
}

#[test]
fn a_wait_has_two_parts() {
    let mut job = Job::new(4, 1_000);
    job.rounds(10, late(20 * MS));
    let output = analysed(&job_events(&job), Settings::default());
    let sum = |pid: u32, name: &str| {
        let [point] = distributions(output.last_of(pid), name) else { panic!("{name} has one series") };
        assert_eq!(point.count, 10, "{name}");
        point.sum.unwrap() / 10.0
    };
    for pid in 1_000..1_004 {
        let (barrier, wait) =
            (sum(pid, "nccl.collective.barrier.wait"), sum(pid, "nccl.collective.wait.duration"));
        let gap = sum(pid, "nccl.collective.issue_gap.duration");
        assert!((barrier - wait - gap).abs() < 1e-9);
        assert!((gap - 10e-6).abs() < 1e-9, "{gap}");
        assert!((sum(pid, "nccl.collective.enqueue.duration") - 20e-6).abs() < 1e-9);
        // The late rank waits least.
        let expected = if pid == 1_002 { 0.002 } else { 0.022 };
        assert!((barrier - expected).abs() < 0.0005, "{pid}: {barrier}");
    }
    // Recorded once per collective, for the rank that arrived last.
    assert!((sum(1_002, "nccl.collective.arrival.skew") - 0.020).abs() < 0.0005);
    assert!(distributions(output.last_of(1_000), "nccl.collective.arrival.skew").is_empty());
    let lateness = |pid: u32| by_rest(&output, pid, "nccl.rank.lateness").into_values().next().unwrap();
    assert!((lateness(1_002) - 0.020).abs() < 0.0005 && lateness(1_000) < 0.0005);
}

#[test]
fn straggler_has_a_record_a_span_and_a_count() {
    let mut job = Job::new(4, 1_000);
    job.rounds(40, ON_TIME);
    job.rounds(20, late(20 * MS));
    job.rounds(80, ON_TIME);
    let output = analysed(&job_events(&job), Settings::default());
    let [(resource, log)] = &output.logs("nccl.straggler")[..] else { panic!("one verdict") };
    assert_eq!(pid_of(Some(resource)), Some(1_002));
    assert_eq!(text(&log.attributes, "nccl.rank"), "2");
    assert_eq!(text(&log.attributes, "nccl.straggler.cause"), "host");
    assert_eq!(text(&log.attributes, "cuda.device.index"), "2");
    assert!((number(&log.attributes, "nccl.straggler.lateness") - 0.020).abs() < 0.001);
    assert!(number(&log.attributes, "gpu.step.duration") > 0.020, "the step in which it was late");
    let spans = output.spans();
    let (of, span) = spans.iter().find(|(_, s)| s.name == "nccl.straggler").expect("a span");
    assert_eq!((&span.trace_id, &span.span_id), (&log.trace_id, &log.span_id));
    assert_eq!(of, resource);
    let recovered = output.logs("nccl.straggler.recovered");
    assert!(matches!(recovered[..], [(of, _)] if of == *resource), "{recovered:?}");
    assert_eq!(by_rest(&output, 1_002, "nccl.stragglers")["nccl.rank=2"], 1.0);
    assert!(find(output.last_of(1_000), "nccl.stragglers").is_none());
}

fn outliers_of(output: &Output, pid: u32) -> Vec<&Span> {
    let all = output.spans().into_iter().filter(|(resource, _)| pid_of(Some(resource)) == Some(pid));
    all.map(|(_, span)| span).filter(|s| s.name.starts_with("infer.outlier.")).collect()
}

#[test]
fn late_rank_is_the_cause_of_an_outlier() {
    let mut job = Job::new(4, 1_000);
    job.rounds(80, ON_TIME);
    let late_ns = job.now_ns;
    job.rounds(5, late(40 * MS));
    let output = analysed(&job_events(&job), Settings::default());
    let causes = |pid: u32| {
        let of = outliers_of(&output, pid);
        let all = of.iter().filter(|s| s.start_time_unix_nano - UNIX >= late_ns);
        all.map(|s| text(&s.attributes, "gpu.step.cause")).collect::<Vec<_>>()
    };
    for pid in [1_000, 1_001, 1_003] {
        assert_eq!(causes(pid), ["collective"; 5], "{pid} waits for another");
        for span in outliers_of(&output, pid) {
            let waited = number(&span.attributes, "gpu.step.collective_wait.duration");
            assert!((waited - 0.040).abs() < 0.0005, "{waited}");
        }
    }
    assert_eq!(causes(1_002), ["host"; 5], "the late one has itself to blame");
    let logged = output.logs("gpu.step.outlier");
    let of_first = logged.iter().filter(|(of, _)| pid_of(Some(of)) == Some(1_000));
    for (_, log) in of_first {
        let causes = text(&log.attributes, "gpu.step.causes");
        assert!(causes.contains("% collective (high): it waited "), "{causes}");
    }
    let outliers = values(output.last_of(1_000), "gpu.step.outliers");
    assert!(
        outliers.iter().any(|(key, count)| key.contains("cause=collective") && *count == 5.0),
        "{outliers:?}"
    );
}

/// A peer wait is not learned by a baseline; it is reported while it lasts, and the late rank's baseline has
/// shifted.
#[test]
fn peer_waits_are_not_learned_by_a_baseline() {
    let mut job = Job::new(4, 1_000);
    job.rounds(80, ON_TIME);
    job.rounds(300, late(40 * MS));
    let output = analysed(&job_events(&job), Settings::default());
    let changed = output.logs("gpu.step.baseline.shift");
    let changed: Vec<_> = changed.iter().map(|(of, _)| pid_of(Some(of))).collect();
    assert_eq!(changed, [Some(1_002)]);
    let outliers = values(output.last_of(1_000), "gpu.step.outliers");
    let of_others = outliers.iter().filter(|(key, _)| key.contains("cause=collective"));
    assert_eq!(of_others.map(|(_, count)| *count).sum::<f64>(), 300.0, "{outliers:?}");
}

/// Returns a job in which rank 3 is missing from collective 5 for `ns`.
fn hung(ns: u64) -> (Job, u64) {
    let mut job = Job::new(4, 1_000);
    job.rounds(5, ON_TIME);
    let came_ns = job.now_ns;
    job.round(|rank| (rank != 3).then_some(0));
    let back_ns = came_ns + ns;
    job.now_ns = back_ns + SECOND;
    job.events.push(job.ranks[3].all_reduce(back_ns, US));
    (job, came_ns)
}

#[test]
fn missing_rank_is_logged_with_flight_records() {
    let (job, came_ns) = hung(60 * SECOND);
    let output = analysed(&job_events(&job), Settings::default());
    let [(resource, hang)] = &output.logs("nccl.hang")[..] else { panic!("one hang") };
    assert_eq!(pid_of(Some(resource)), Some(1_003), "logged for the missing rank");
    assert_eq!(text(&hang.attributes, "nccl.hang.kind"), "missing_rank");
    assert_eq!(text(&hang.attributes, "nccl.operation"), "AllReduce");
    assert_eq!(text(&hang.attributes, "nccl.sequence"), "5");
    assert!(hang.time_unix_nano - UNIX - came_ns <= 31 * SECOND);
    let dumps = output.logs("nccl.flight_record");
    let under_way: BTreeMap<u32, String> = dumps
        .iter()
        .map(|(of, log)| (pid_of(Some(of)).unwrap(), text(&log.attributes, "nccl.outstanding_count")))
        .collect();
    let one = "1".to_owned();
    let expected = [(1_000, one.clone()), (1_001, one.clone()), (1_002, one), (1_003, "0".to_owned())];
    assert_eq!(under_way, BTreeMap::from(expected));
    let (_, first) = dumps.iter().find(|(of, _)| pid_of(Some(of)) == Some(1_000)).unwrap();
    let outstanding = text(&first.attributes, "nccl.outstanding");
    assert!(outstanding.starts_with("#5 AllReduce of 1024 float32, sum, enqueued "), "{outstanding}");
    assert_eq!(text(&first.attributes, "nccl.recent_operations").split(';').count(), 6);
    let [(_, over)] = &output.logs("nccl.hang.recovered")[..] else { panic!("it is over") };
    assert!((number(&over.attributes, "nccl.hang.duration") - 60.0).abs() < 1.0);
    assert_eq!(by_rest(&output, 1_003, "nccl.hangs").into_values().sum::<f64>(), 1.0);
}

#[test]
fn a_hang_names_the_end_of_the_missing_rank() {
    let (mut job, came_ns) = hung(60 * SECOND);
    job.events.pop();
    let (process, status) = (job.ranks[3].process, ExitStatus::Killed(11));
    job.events.push(Event::Exit { process, at_ns: came_ns - MS, status });
    let output = analysed(&job_events(&job), Settings::default());
    let [(_, hang)] = &output.logs("nccl.hang")[..] else { panic!("one hang") };
    let missing = text(&hang.attributes, "nccl.hang.missing_ranks");
    assert!(missing.ends_with("which ended: killed by SIGSEGV"), "{missing}");
}

#[test]
fn only_the_missing_rank_is_idle() {
    let (mut job, _) = hung(25 * SECOND);
    job.events.pop();
    job.now_ns -= 2 * SECOND;
    let output = analysed(&job_events(&job), Settings::default());
    let idle = |pid: u32| by_rest(&output, pid, "nccl.rank.idle.duration").into_values().next().unwrap();
    assert!(idle(1_003) > 20.0);
    assert_eq!([idle(1_000), idle(1_001), idle(1_002)], [0.0; 3]);
}

#[test]
fn outstanding_operations_of_an_ended_process_are_logged() {
    let (mut job, came_ns) = hung(25 * SECOND);
    job.events.pop();
    let process = job.ranks[0].process;
    job.events.push(Event::Exit { process, at_ns: came_ns + SECOND, status: ExitStatus::Unknown });
    let output = analysed(&job_events(&job), Settings::default());
    let [(resource, log)] = &output.logs("nccl.rank.ended")[..] else { panic!("one end") };
    assert_eq!((pid_of(Some(resource)), log.severity_text.as_str()), (Some(1_000), "ERROR"));
    assert_eq!(text(&log.attributes, "nccl.end.reason"), "exited");
    assert_eq!(text(&log.attributes, "nccl.outstanding_count"), "1");
    // The end is in the body and in attributes.
    for (status, end, words, key) in [
        (ExitStatus::Killed(9), "killed", "was killed by SIGKILL with 1 under way", "nccl.end.signal=9"),
        (ExitStatus::Killed(40), "killed", "was killed by signal 40 with 1", "nccl.end.signal=40"),
        (ExitStatus::Exited(1), "exited", "exited 1 with 1 under way", "process.exit.code=1"),
    ] {
        job.events.pop();
        job.events.push(Event::Exit { process, at_ns: came_ns + SECOND, status });
        let output = analysed(&job_events(&job), Settings::default());
        let [(_, log)] = &output.logs("nccl.rank.ended")[..] else { panic!("one end") };
        assert_eq!(
            (text(&log.attributes, "nccl.end.reason"), log.severity_text.as_str()),
            (end.to_owned(), "ERROR")
        );
        let body = show(log.body.as_ref());
        assert!(body.contains(words), "{body}");
        assert!(written(&log.attributes).contains(key), "{:?}", log.attributes);
    }
    // A rank without operations in progress is not logged.
    let mut job = Job::new(1, 2_000);
    job.rounds(3, ON_TIME);
    let exit = Event::Exit { process: job.ranks[0].process, at_ns: job.now_ns, status: ExitStatus::Unknown };
    job.events.push(exit);
    let output = analysed(&job_events(&job), Settings::default());
    let [(_, log)] = &output.logs("nccl.rank.ended")[..] else { panic!("one end") };
    assert_eq!(log.severity_text, "INFO");
}

/// Returns the spans of each trace of collectives.
fn traces(output: &Output) -> BTreeMap<Vec<u8>, Vec<Span>> {
    let mut traces: BTreeMap<Vec<u8>, Vec<Span>> = BTreeMap::new();
    for (_, span) in output.spans().into_iter().filter(|(_, s)| s.name.starts_with("nccl.")) {
        traces.entry(span.trace_id.clone()).or_default().push(span.clone());
    }
    traces
}

#[test]
fn one_collective_is_one_trace_of_all_ranks() {
    let mut job = Job::new(4, 1_000);
    job.rounds(5, ON_TIME);
    let traces = traces(&analysed(&job_events(&job), traced_at(1.0)));
    assert_eq!(traces.len(), 5);
    for spans in traces.values() {
        let named = |name: &str| spans.iter().filter(|s| s.name == name).collect::<Vec<_>>();
        let [root] = named("nccl.collective.AllReduce")[..] else { panic!("one root: {spans:?}") };
        assert!(root.parent_span_id.is_empty());
        let ranks = named("nccl.rank.AllReduce");
        assert!(ranks.len() == 4 && ranks.iter().all(|s| s.parent_span_id == root.span_id));
        let numbers: BTreeSet<String> = ranks.iter().map(|s| text(&s.attributes, "nccl.rank")).collect();
        assert_eq!(numbers.len(), 4);
        for child in named("nccl.rank.enqueue").into_iter().chain(named("nccl.rank.wait")) {
            let [parent] =
                &ranks.iter().filter(|s| s.span_id == child.parent_span_id).collect::<Vec<_>>()[..]
            else {
                panic!("a child of a rank")
            };
            let within = parent.start_time_unix_nano..=parent.end_time_unix_nano;
            assert!(
                within.contains(&child.start_time_unix_nano) && within.contains(&child.end_time_unix_nano)
            );
        }
        assert_eq!(spans.len(), 1 + 3 * 4);
        let ids: BTreeSet<&Vec<u8>> = spans.iter().map(|s| &s.span_id).collect();
        assert_eq!(ids.len(), spans.len());
    }
}

#[test]
fn agents_derive_equal_traces_of_a_collective() {
    let mut job = Job::new(6, 1_000);
    job.rounds(200, ON_TIME);
    let whole = traces(&analysed(&job_events(&job), traced_at(0.1)));
    assert!((5..50).contains(&whole.len()), "{}", whole.len());
    let mut together: BTreeMap<Vec<u8>, Vec<Span>> = BTreeMap::new();
    for part in 0..3 {
        let is_seen = |event: &Event| match event {
            Event::CallArgs(t) => (t.header.pid - 1_000) / 2 == part,
            Event::Step(s) => (s.header.pid - 1_000) / 2 == part,
            Event::Process(p) => (p.process.pid - 1_000) / 2 == part,
            _ => true,
        };
        let seen: Vec<Event> = job_events(&job).into_iter().filter(is_seen).collect();
        for (trace, spans) in traces(&analysed(&seen, traced_at(0.1))) {
            together.entry(trace).or_default().extend(spans);
        }
    }
    let ids = |traces: &BTreeMap<Vec<u8>, Vec<Span>>| -> BTreeSet<(Vec<u8>, Vec<u8>, Vec<u8>)> {
        let all = traces.values().flatten();
        all.map(|s| (s.trace_id.clone(), s.span_id.clone(), s.parent_span_id.clone())).collect()
    };
    assert_eq!(ids(&together), ids(&whole));
}

/// Returns a job of two ranks that exchange `turns` messages, and wait for each.
fn talking(turns: u64) -> Job {
    let mut job = Job::new(2, 1_000);
    for _ in 0..turns {
        let at_ns = job.now_ns;
        for (rank, peer) in [(0, 1), (1, 0)] {
            let rank = &mut job.ranks[rank];
            job.events.push(rank.send(at_ns, peer));
            job.events.push(rank.recv(at_ns + 20 * US, peer));
            job.events.push(rank.sync(at_ns, at_ns + 50 * US, at_ns + 2 * MS));
        }
        job.now_ns += 5 * MS;
    }
    job
}

#[test]
fn a_message_is_one_trace_of_both_sides() {
    let all = traces(&analysed(&job_events(&talking(4)), traced_at(1.0)));
    assert_eq!(all.len(), 8, "four turns, two directions");
    for spans in all.values() {
        let named = |name: &str| spans.iter().find(|s| s.name == name).unwrap();
        let (send, recv) = (named("nccl.rank.Send"), named("nccl.rank.Recv"));
        assert!(send.parent_span_id.is_empty());
        assert_eq!(recv.parent_span_id, send.span_id);
        let ranks_of = |span: &Span| ["nccl.rank", "nccl.peer"].map(|key| text(&span.attributes, key));
        let [from, to] = ranks_of(send);
        assert_eq!(ranks_of(recv), [to, from]);
        assert_eq!(
            text(&send.attributes, "nccl.message.sequence"),
            text(&recv.attributes, "nccl.message.sequence")
        );
        for parent in [send, recv] {
            let children = spans.iter().filter(|s| s.parent_span_id == parent.span_id && s.name != recv.name);
            let names: Vec<&str> = children.map(|s| s.name.as_str()).collect();
            assert_eq!(names, ["nccl.rank.enqueue", "nccl.rank.wait"]);
        }
        let ids: BTreeSet<&Vec<u8>> = spans.iter().map(|s| &s.span_id).collect();
        assert_eq!((spans.len(), ids.len()), (6, 6));
    }
}

#[test]
fn agents_derive_equal_traces_of_a_message() {
    let job = talking(200);
    let side = |pid: u32| {
        let is_seen = |event: &Event| match event {
            Event::CallArgs(t) => t.header.pid == pid,
            Event::Step(s) => s.header.pid == pid,
            Event::Process(p) => p.process.pid == pid,
            _ => true,
        };
        let seen: Vec<Event> = job_events(&job).into_iter().filter(is_seen).collect();
        traces(&analysed(&seen, traced_at(0.1))).into_keys().collect::<BTreeSet<_>>()
    };
    let (one, other) = (side(1_000), side(1_001));
    assert_eq!(one, other);
    assert!((20..70).contains(&one.len()), "{} of 400", one.len());
}

#[test]
fn messages_are_not_traced_after_a_loss() {
    let mut job = talking(4);
    let lost = Event::Lost { at_ns: 2 * SECOND + 500 * MS, reason: DropReason::RingFull, count: 1 };
    job.events.push(lost);
    assert!(traces(&analysed(&job_events(&job), traced_at(1.0))).is_empty());
}

#[test]
fn traces_of_large_skew_are_bounded_and_complete() {
    let mut job = Job::new(4, 1_000);
    job.rounds(300, late(20 * MS));
    let mut settings = traced_at(0.0);
    (settings.collectives.traces_burst, settings.collectives.traces_per_minute) = (7, 0);
    let output = analysed(&job_events(&job), settings);
    let traces = traces(&output);
    let collectives = traces.values().filter(|spans| spans.iter().any(|s| s.name.starts_with("nccl.rank.")));
    let sizes: Vec<usize> = collectives.map(Vec::len).collect();
    assert_eq!(sizes, [1 + 3 * 4; 7]);
    let left_out = values(output.account(), "warptap.collective.suppressed");
    assert_eq!(left_out["warptap.signal=traces"], (300.0 - 7.0) * 4.0);
}

#[test]
fn stragglers_are_limited_and_hangs_are_not() {
    let mut job = Job::new(4, 1_000);
    // Late and on time, alternating.
    for _ in 0..10 {
        job.rounds(20, late(20 * MS));
        job.rounds(80, ON_TIME);
    }
    let mut settings = Settings::default();
    (settings.collectives.verdicts_burst, settings.collectives.verdicts_per_minute) = (3, 0);
    let output = analysed(&job_events(&job), settings);
    let logged = output.logs("nccl.straggler").len() + output.logs("nccl.straggler.recovered").len();
    assert_eq!(logged, 3);
    let verdicts = by_rest(&output, 1_002, "nccl.stragglers")["nccl.rank=2"];
    assert!(verdicts >= 5.0, "{verdicts}");
    let suppressed = values(output.account(), "warptap.collective.suppressed")["warptap.signal=logs"];
    assert!(suppressed >= verdicts - 3.0, "{suppressed}");
    let (job, _) = hung(60 * SECOND);
    assert_eq!(analysed(&job_events(&job), settings_without_records()).logs("nccl.hang").len(), 1);
}

#[test]
fn logs_of_aborted_communicators_are_limited() {
    let rank = Rank::new(1_000, 0);
    let mut events = Vec::new();
    for n in 0..2_000u64 {
        let at_ns = 2 * SECOND + n * MS;
        events.push(rank.init(at_ns, US, 1, &[n as u8; 128]));
        events.push(rank.of_comm("ncclCommAbort", at_ns + 10 * US));
    }
    let output = analysed(&events_until(vec![rank.info()], events, 5 * SECOND), Settings::default());
    let ends = output.logs("nccl.rank.ended").len();
    assert!((256..300).contains(&ends), "{ends}");
    let suppressed = values(output.account(), "warptap.collective.suppressed")["warptap.signal=logs"];
    assert_eq!(ends as f64 + suppressed, 2_000.0);
}

fn settings_without_records() -> Settings {
    let mut settings = Settings::default();
    (settings.collectives.verdicts_burst, settings.collectives.verdicts_per_minute) = (0, 0);
    settings
}

#[test]
fn captured_operations_are_counted_once_and_separately() {
    let mut job = Job::new(1, 1_000);
    let (rank, at_ns) = (job.ranks[0], job.now_ns);
    job.events.push(rank.call("cudaStreamBeginCapture", at_ns, 0));
    job.events.extend((1..4).map(|n| rank.all_reduce(at_ns + n * MS, US)));
    job.events.push(rank.call("cudaStreamEndCapture", at_ns + 5 * MS, 0));
    job.events.push(rank.all_reduce(at_ns + 6 * MS, US));
    job.now_ns += 10 * MS;
    let output = analysed(&job_events(&job), Settings::default());
    let captured = by_rest(&output, 1_000, "nccl.collective.captured");
    assert_eq!(captured["nccl.operation=AllReduce,nccl.rank=0"], 3.0);
    assert_eq!(by_rest(&output, 1_000, "nccl.collective.count").into_values().sum::<f64>(), 1.0);
}

#[test]
fn disabled_collectives_emit_nothing() {
    let (mut job, _) = hung(60 * SECOND);
    let failed = job.ranks[0].call_args("ncclAllReduce", 3 * SECOND, US, |t| t.result = 5);
    job.events.push(failed);
    let mut settings = Settings::default();
    settings.collectives.is_enabled = false;
    let output = analysed(&job_events(&job), settings);
    for collected in output.collections() {
        assert!(metrics(collected).iter().all(|m| !m.name.starts_with("nccl.")));
    }
    assert!(output.logs("nccl.hang").is_empty());
}

#[test]
fn too_many_kinds_of_operations_share_a_series() {
    let rank = Rank::new(1_000, 0);
    let mut events = vec![rank.init(2 * SECOND, MS, 1, &[3; 128])];
    for n in 0..900u64 {
        events.push(rank.call_args("ncclAllReduce", 3 * SECOND + n * MS, US, |t| {
            t.arguments = [0x10, 0x20, 1, n % 30, n / 30, rank.comm, 7, 0];
        }));
    }
    let output = analysed(&events_until(vec![rank.info()], events, 5 * SECOND), Settings::default());
    let counts = values(output.last_of(1_000), "nccl.collective.count");
    assert_eq!((counts.len(), counts.values().sum::<f64>()), (65, 900.0));
    assert!(counts["otel.metric.overflow=true"] > 0.0);
}

#[test]
fn series_of_ten_thousand_communicators_are_bounded() {
    let mut events = Vec::new();
    let mut at_ns = 2 * SECOND;
    let mut made = 0u32;
    let mut rank = Rank::new(1_000, 0);
    for n in 0..10_000u32 {
        rank = rank.of(0x5000_0000 + u64::from(n % 100) * 0x1000);
        let id = std::array::from_fn(|at| (n >> (8 * (at % 4))) as u8);
        events.push(rank.init(at_ns, US, 1, &id));
        events.extend((1..4).map(|k| rank.all_reduce(at_ns + k * MS, US)));
        events.push(rank.sync(at_ns + MS, at_ns + 4 * MS, at_ns + 5 * MS));
        events.push(rank.of_comm("ncclCommDestroy", at_ns + 6 * MS));
        at_ns += 10 * MS;
        made += 3;
    }
    let output = analysed(&events_until(vec![rank.info()], events, at_ns), Settings::default());
    let (mut latest, mut most) = (BTreeMap::new(), 0);
    let of_process = output.collections().into_iter().filter(|r| pid_of(r.resource.as_ref()).is_some());
    for collected in of_process {
        let counts = values(collected, "nccl.collective.count");
        most = most.max(counts.len());
        latest.extend(counts);
    }
    // One series for all above the bound.
    assert!(most <= 33, "{most} series");
    assert_eq!(latest.values().sum::<f64>(), f64::from(made), "every collective is in an exported series");
    let account = output.account();
    let folded = values(account, "warptap.collective.suppressed")["warptap.signal=metrics"];
    assert!(folded > 9_000.0 && folded < 10_000.0, "{folded}");
    let overflow = latest["otel.metric.overflow=true"];
    assert!((overflow - 3.0 * folded).abs() < 200.0, "{overflow} of {folded}");
    assert!(values(account, "warptap.series.overflow")[""] > 0.0);
}
