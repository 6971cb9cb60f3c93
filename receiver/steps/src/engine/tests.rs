//! The engine, tested with servers whose steps are known, and with records that no kernel would send.

use event::ExitStatus;
use probe_abi::Probe;
use probe_abi::fold::{COUNTERS, Counter};
use probe_abi::function::{FUNCTIONS_MAX, SIGNATURE, Signature};
use probe_abi::record::{CountParts, NOT_SEEN, flag};
use proptest::prelude::*;

use super::*;
use crate::baseline::{Baseline, Outlier};
use crate::causes::CauseKind;
use crate::finding::{BaselineShift, Step};
use crate::phase::{Classifier, Phase, Rules};
use crate::settings::STREAMS_MAX;
use crate::testing::{Rng, allocated_bytes};

const MS: u64 = 1_000_000;
/// `cudaStreamSynchronize` and `cudaStreamDestroy`.
const STREAM_SYNC: u16 = 30;
const STREAM_DESTROY: u16 = 51;

/// A server on one stream, as the kernel reports it.
#[derive(Clone, Debug)]
struct Server {
    process: ProcessId,
    stream: u64,
    sequence: u64,
    now_ns: u64,
}

impl Server {
    fn new(pid: u32) -> Server {
        let process = ProcessId { pid, start_ns: 5 };
        Server { process, stream: 0xbeef_0000, sequence: 0, now_ns: 10_000 * MS }
    }

    /// Returns the next step: the host enqueues for `enqueue_ns`, then waits.
    fn step(&mut self, work: &[(Counter, u64)], enqueue_ns: u64, wait_ns: u64) -> StepRecord {
        let mut record = StepRecord {
            stream: self.stream,
            sequence: self.sequence,
            previous_exit_ns: if self.sequence == 0 { 0 } else { self.now_ns },
            first_ns: self.now_ns + MS,
            first_tid: self.process.pid,
            ..StepRecord::default()
        };
        record.header.row = STREAM_SYNC;
        record.header.pid = self.process.pid;
        record.header.tid = self.process.pid;
        record.header.process_start_ns = self.process.start_ns;
        record.header.entry_ns = record.first_ns + enqueue_ns;
        record.header.duration_ns = wait_ns;
        work.iter().for_each(|(counter, value)| record.work[*counter as usize] = *value);
        let enqueues = [Counter::Launches, Counter::GraphLaunches, Counter::Copies];
        let enqueues: u64 = enqueues.into_iter().map(|c| record.work[c as usize]).sum();
        record.work[Counter::Enqueues as usize] = enqueues;
        (record.enqueued_since_sync, record.process_enqueued_since_sync) = (enqueues, enqueues);
        self.sequence += 1;
        self.now_ns = record.header.entry_ns + wait_ns;
        record
    }

    /// Returns a decode of `batch` requests by one graph that takes `ns`.
    fn decode(&mut self, batch: u64, ns: f64) -> StepRecord {
        let graph = [(Counter::GraphLaunches, 1), (Counter::Graphs, 0x9000 + batch), (Counter::Copies, 9)];
        let sampling = [(Counter::Launches, 4), (Counter::Threads, 920_000 * batch)];
        self.step(&[&graph[..], &sampling].concat(), MS, ns as u64 - MS)
    }

    /// Returns an eager prefill of `tokens` that takes `ns`.
    fn prefill(&mut self, tokens: u64, ns: f64) -> StepRecord {
        let work = [(Counter::Launches, 768), (Counter::Threads, 768 * 440 * tokens), (Counter::Copies, 20)];
        self.step(&work, 2 * MS, ns as u64 - 2 * MS)
    }
}

#[derive(Debug, Default)]
struct Found {
    steps: Vec<Step>,
    shifts: Vec<BaselineShift>,
}

impl Found {
    fn observe(&mut self, engine: &mut Engine, event: &Event) {
        let mut findings = Vec::new();
        engine.observe(event, &mut findings);
        self.take(findings);
    }

    fn finish(&mut self, engine: &mut Engine) {
        let mut findings = Vec::new();
        engine.finish(&mut findings);
        self.take(findings);
    }

    fn take(&mut self, findings: Vec<Finding>) {
        for finding in findings {
            match finding {
                Finding::Step(step) => self.steps.push(step),
                Finding::BaselineShift(shift) => self.shifts.push(shift),
            }
        }
    }

    fn outliers(&self) -> usize {
        self.steps.iter().filter(|s| s.outlier != Outlier::None).count()
    }
}

fn run(engine: &mut Engine, events: &[Event]) -> Found {
    let mut found = Found::default();
    events.iter().for_each(|event| found.observe(engine, event));
    found.finish(engine);
    found
}

/// Asserts the invariants of all findings.
#[track_caller]
fn check_sound(engine: &Engine, found: &Found, segments: usize) {
    let tally = engine.tally();
    assert_eq!(tally.segments, segments as u64);
    assert_eq!(tally.segments, tally.steps + tally.joined + tally.leftover + tally.unarmed, "{tally:?}");
    assert_eq!(tally.steps, found.steps.len() as u64);
    for step in &found.steps {
        assert_eq!(step.enqueue_ns + step.wait_ns, step.duration_ns, "{step:?}");
        assert_eq!(step.end_ns - step.start_ns, step.duration_ns, "{step:?}");
        assert!((0.0..=1.0).contains(&step.confidence), "{step:?}");
        assert!(step.stream < STREAMS_MAX as u32, "{step:?}");
        assert!(step.causes.iter().map(|c| c.share).sum::<f64>() <= 1.0 + 1e-9, "{step:?}");
        assert!(step.outlier == Outlier::None || step.ratio >= 1.5, "{step:?}");
    }
}

fn check(records: Vec<StepRecord>) -> Found {
    let mut engine = Engine::new(Settings::default());
    let segments = records.len();
    let events: Vec<Event> = records.into_iter().map(Event::Step).collect();
    let found = run(&mut engine, &events);
    check_sound(&engine, &found, segments);
    found
}

/// Asserts that slow steps in mixed traffic, and nothing else, are outliers of their bucket and phase.
#[track_caller]
fn check_injected(factor: f64, share: f64, expected: Outlier) {
    let (mut server, mut rng) = (Server::new(1), Rng::new(7));
    let (mut records, mut slow) = (Vec::new(), Vec::new());
    for k in 0..12_000 {
        let is_slow = k > 400 && rng.chance(share);
        let noise = if is_slow { factor * 1.045 } else { 1.0 } * rng.uniform(0.95, 1.05);
        let is_prefill = rng.chance(0.2);
        records.push(match is_prefill {
            true => server.prefill(888, 90e6 * noise),
            false => server.decode(32, 10e6 * noise),
        });
        slow.push(is_slow.then_some(if is_prefill { Phase::Prefill } else { Phase::Decode }));
    }
    let found = check(records);
    let is_hit = |(step, slow): &(&Step, &Option<Phase>)| {
        slow.is_some_and(|phase| step.phase == phase && step.outlier == expected)
    };
    let hits = found.steps.iter().zip(&slow).filter(is_hit).count() as f64;
    let injected = slow.iter().flatten().count() as f64;
    let (recall, precision) = (hits / injected, hits / found.outliers().max(1) as f64);
    assert!(recall >= 0.99 && precision >= 0.99, "{factor}x, {share}: {recall:.4}, {precision:.4}");
    assert_eq!(found.shifts, []);
}

#[test]
fn slow_steps_of_either_phase_get_their_bucket() {
    for share in [0.001, 0.01, 0.05] {
        check_injected(1.6, share, Outlier::Ratio15);
        check_injected(2.5, share, Outlier::Ratio2);
        check_injected(4.0, share, Outlier::Ratio3);
    }
}

/// Returns the phase of a stream that only launches one graph, with a call of this row before each launch.
fn phase_with_calls_of(row: &Probe) -> Option<Phase> {
    let graph = 0x7000;
    let handle = if row.wiring.handle.0 == 0 { 0 } else { graph };
    let (mut server, mut events) = (Server::new(1), Vec::new());
    for _ in 0..100 {
        let mut call = CallRecord { handle, ..CallRecord::default() };
        (call.header.row, call.header.pid, call.header.process_start_ns) = (row.id, 1, 5);
        let launch = [(Counter::GraphLaunches, 1), (Counter::Graphs, probe_abi::fold::mix(graph))];
        events.extend([Event::Call(call), Event::Step(server.step(&launch, MS, 7 * MS))]);
    }
    let found = run(&mut Engine::new(Settings::default()), &events);
    found.steps.last().map(|s| s.phase)
}

/// Graph updates were recognised by the end of their symbol, which `cuGraphExecUpdate_v2` does not have: the CUDA 12
/// driver's name, and the only one in a program that is linked to the runtime statically. Graphs updated by it between
/// launches still counted as repeated, so prefills by graph were labelled decode.
#[test]
fn graphs_updated_or_destroyed_between_launches_are_not_decodes() {
    for row in probe_abi::PROBES {
        let changes_graph =
            ["GraphExecUpdate", "GraphExecDestroy"].iter().any(|part| row.symbol.contains(part));
        let expected = if changes_graph { Phase::Unknown } else { Phase::Decode };
        assert_eq!(phase_with_calls_of(row), Some(expected), "{}", row.symbol);
    }
}

#[test]
fn changing_load_has_under_one_outlier_in_ten_thousand_steps() {
    for noise in [0.05, 0.1] {
        let (mut server, mut rng) = (Server::new(1), Rng::new(11));
        let mut records = Vec::new();
        for k in 0..40_000u64 {
            // The load varies within minutes; so do the lengths of prompts.
            let load = 1.0 + (k as f64 / 2_500.0).sin();
            let batch = 1u64 << rng.below(2 + (load * 2.5) as u64);
            let jitter = rng.uniform(1.0 - noise, 1.0 + noise);
            let tokens = (400.0 * (0.7 * rng.normal()).exp()).clamp(64.0, 8_000.0);
            records.push(match rng.chance(0.05 + 0.1 * load) {
                true => server.prefill(tokens as u64, (15e6 + tokens * 60e3) * jitter),
                false => server.decode(batch, (8e6 + batch as f64 * 120e3) * jitter),
            });
        }
        let found = check(records);
        assert!(found.outliers() < 4, "noise {noise}: {} outliers", found.outliers());
        assert_eq!(found.shifts, [], "noise {noise}");
    }
}

#[test]
fn a_lasting_slowdown_is_reported_once_and_then_normal() {
    let (mut server, mut rng, mut records) = (Server::new(1), Rng::new(3), Vec::new());
    for k in 0..3_000 {
        let factor = if k < 1_000 { 1.0 } else { 2.0 } * rng.uniform(0.95, 1.05);
        records.push(server.decode(32, 10e6 * factor));
        if k % 5 == 0 {
            records.push(server.prefill(888, 90e6 * rng.uniform(0.95, 1.05)));
        }
    }
    let found = check(records);
    let decodes: Vec<&Step> = found.steps.iter().filter(|s| s.phase == Phase::Decode).collect();
    assert!(
        decodes[1_000..1_100].iter().all(|s| s.outlier == Outlier::Ratio15 || s.outlier == Outlier::Ratio2)
    );
    assert!(decodes[1_200..].iter().all(|s| s.outlier == Outlier::None));
    let [shift] = &found.shifts[..] else { panic!("{:?}", found.shifts) };
    assert_eq!(shift.phase, Phase::Decode);
    assert!((shift.after.p95_ns / shift.before.p95_ns - 2.0).abs() < 0.05, "{shift:?}");
}

#[test]
fn an_outlier_has_its_baseline_and_causes() {
    let (mut server, mut records) = (Server::new(1), Vec::new());
    records.extend((0..200).map(|_| server.decode(32, 10e6)));
    let mut contended = server.decode(32, 34e6);
    // The host enqueued 25 ms instead of 1, and had no CPU for 20 of them.
    contended.header.entry_ns += 24 * MS;
    contended.header.duration_ns -= 24 * MS;
    contended.run_queue.enqueue = 20 * MS;
    records.push(contended);
    let found = check(records);
    // The first step, seen alone, had no phase.
    let slow = &found.steps[200];
    let level = slow.baseline.unwrap();
    assert_eq!((level.p95_ns, level.mean_ns, level.count), (10e6, 10e6, 200));
    assert_eq!((slow.outlier, slow.ratio, slow.phase), (Outlier::Ratio3, 3.4, Phase::Decode));
    assert_eq!((slow.cause(), slow.causes.len()), (CauseKind::Host, 2));
    assert!((slow.causes[0].share - 20.0 / 24.0).abs() < 1e-6, "{:?}", slow.causes);
    assert!((slow.host_bound_share() - 25.0 / 34.0).abs() < 1e-6);
    assert!(found.steps[..200].iter().all(|s| s.causes.is_empty()));
}

#[test]
fn cpu_contention_never_becomes_normal() {
    let mut server = Server::new(1);
    let mut step = |k: u64| {
        let mut record = server.decode(32, 10e6);
        if (200..800).contains(&k) {
            // 15 ms without a CPU in the middle of enqueueing.
            record.header.entry_ns += 15 * MS;
            server.now_ns += 15 * MS;
            record.run_queue.enqueue = 15 * MS;
        }
        record
    };
    let found = check((0..1_000).map(&mut step).collect());
    let flagged: Vec<bool> = found.steps.iter().map(|s| s.outlier == Outlier::Ratio2).collect();
    assert_eq!(flagged, (0..1_000).map(|k| (200..800).contains(&k)).collect::<Vec<_>>());
    assert!(found.steps[200..800].iter().all(|s| s.cause() == CauseKind::Host));
    assert_eq!(found.shifts, []);
}

#[test]
fn peer_wait_never_becomes_normal() {
    let (mut engine, mut server) = (Engine::new(Settings::default()), Server::new(1));
    let mut found = Found::default();
    for k in 0..1_000 {
        let is_late = (200..800).contains(&k);
        let record = server.decode(32, if is_late { 25e6 } else { 10e6 });
        let entry_ns = record.header.entry_ns;
        let waited_ns = if is_late { 15 * MS } else { MS / 10 };
        engine.record_peer_wait(server.process, entry_ns, entry_ns + waited_ns);
        found.observe(&mut engine, &Event::Step(record));
    }
    found.finish(&mut engine);
    let flagged: Vec<bool> = found.steps.iter().map(|s| s.outlier == Outlier::Ratio2).collect();
    assert_eq!(flagged, (0..1_000).map(|k| (200..800).contains(&k)).collect::<Vec<_>>());
    assert!(found.steps[200..800].iter().all(|s| s.cause() == CauseKind::Collective));
    assert_eq!(found.shifts, []);
}

#[test]
fn any_event_past_the_deadline_reports_a_pending_step() {
    let (mut engine, mut server) = (Engine::new(Settings::default()), Server::new(1));
    let mut found = Found::default();
    for _ in 0..20 {
        found.observe(&mut engine, &Event::Step(server.decode(32, 10e6)));
    }
    assert_eq!(found.steps.len(), 19, "the last is pending");
    let pending_ns = Settings::default().joining.trailing_ns;
    found.observe(&mut engine, &Event::Tick { at_ns: server.now_ns + pending_ns });
    assert_eq!(found.steps.len(), 19);
    let mut other = Server { now_ns: server.now_ns + pending_ns, ..Server::new(2) };
    found.observe(&mut engine, &Event::Step(other.decode(1, 5e6)));
    assert_eq!(found.steps.len(), 20);
}

#[test]
fn the_mode_is_decided_in_bounded_time_or_at_exit() {
    let mut server = Server::new(1);
    let first = server.decode(32, 10e6);
    let decided_ns = server.now_ns + Settings::default().joining.undecided_ns + 1;
    let ends = [
        Event::Tick { at_ns: decided_ns },
        Event::Exit { process: server.process, at_ns: server.now_ns, status: ExitStatus::Unknown },
    ];
    for end in ends {
        let (mut engine, mut found) = (Engine::new(Settings::default()), Found::default());
        found.observe(&mut engine, &Event::Step(first));
        assert_eq!(found.steps.len(), 0);
        found.observe(&mut engine, &end);
        assert_eq!(found.steps.len(), 1, "{end:?}");
    }
}

#[test]
fn a_reused_pid_is_another_workload() {
    let mut first = Server::new(1);
    let mut events: Vec<Event> = (0..100).map(|_| Event::Step(first.decode(32, 10e6))).collect();
    let mut second = Server::new(1);
    second.process.start_ns = 6;
    second.now_ns = first.now_ns;
    events.push(Event::Step(second.decode(32, 50e6)));
    let mut engine = Engine::new(Settings::default());
    let found = run(&mut engine, &events);
    let last = found.steps.last().unwrap();
    assert_eq!((last.process.start_ns, last.baseline, last.outlier), (6, None, Outlier::None));
    assert_eq!(engine.tally().missed, 0);
}

#[test]
fn a_reused_stream_handle_is_another_stream() {
    let mut server = Server::new(1);
    let mut events: Vec<Event> = (0..20).map(|_| Event::Step(server.decode(32, 10e6))).collect();
    let mut destroy = CallRecord { stream: server.stream, ..CallRecord::default() };
    destroy.header =
        probe_abi::record::Header { row: STREAM_DESTROY, pid: 1, process_start_ns: 5, ..destroy.header };
    destroy.header.entry_ns = server.now_ns;
    events.push(Event::Call(destroy));
    server.sequence = 0;
    events.extend((0..20).map(|_| Event::Step(server.decode(32, 10e6))));
    let mut engine = Engine::new(Settings::default());
    let found = run(&mut engine, &events);
    let streams: Vec<u32> = found.steps.iter().map(|s| s.stream).collect();
    assert_eq!(streams, [[0; 20], [1; 20]].concat());
    let mut ids: Vec<_> = found.steps.iter().map(|s| s.id).collect();
    ids.sort();
    ids.dedup();
    assert_eq!(ids.len(), 40, "ids differ although sequence numbers repeat");
    assert_eq!(engine.tally().streams_evicted, 0);
}

#[test]
fn lost_records_are_counted() {
    let mut server = Server::new(1);
    let mut records: Vec<_> = (0..50).map(|_| server.decode(32, 10e6)).collect();
    records.drain(20..25);
    let mut engine = Engine::new(Settings::default());
    run(&mut engine, &records.into_iter().map(Event::Step).collect::<Vec<_>>());
    assert_eq!(engine.tally().missed, 5);
}

#[test]
fn unfinished_work_is_not_learnt() {
    let mut server = Server::new(1);
    let mut records: Vec<_> = (0..60).map(|_| server.decode(32, 10e6)).collect();
    let mut unfinished = server.decode(32, 900e6);
    unfinished.header.flags = flag::UNFINISHED;
    records.push(unfinished);
    records.push(server.decode(32, 10e6));
    let found = check(records);
    assert!(found.steps[60].is_unfinished);
    assert_eq!((found.steps[60].baseline, found.outliers()), (None, 0));
    assert_eq!(found.steps[61].baseline.map(|l| l.count), Some(60));
}

/// After the agent has attached, the first segment of a stream contains a part of a step.
#[test]
fn unarmed_segments_are_in_no_step_and_counted() {
    let mut server = Server::new(1);
    let mut records: Vec<_> = (0..62).map(|_| server.decode(32, 10e6)).collect();
    records[0].header.flags |= flag::UNARMED;
    let mut engine = Engine::new(Settings::default());
    let found = run(&mut engine, &records.into_iter().map(Event::Step).collect::<Vec<_>>());
    assert_eq!(found.steps.len(), 61);
    let tally = engine.tally();
    assert_eq!((tally.unarmed, tally.missed, tally.segments), (1, 0, 62));
}

#[test]
fn ten_thousand_streams_and_processes_take_bounded_memory() {
    let before = allocated_bytes();
    let mut engine = Engine::new(Settings { processes_max: 16, ..Settings::default() });
    let (mut steps, mut rng, mut bytes) = (0, Rng::new(1), 0);
    let per_process = 3 * Baseline::BYTES_MAX + STREAMS_MAX * 4_096;
    for k in 0..10_000u32 {
        let mut server = Server { stream: u64::from(k), ..Server::new(1) };
        server.now_ns += u64::from(k) * 20 * MS;
        let mut short = Server { now_ns: server.now_ns, ..Server::new(2 + k) };
        for record in [server.decode(32, 10e6 * rng.uniform(0.9, 1.1)), short.prefill(900, 90e6)] {
            steps += observed(&mut engine, record).len();
        }
        bytes = bytes.max(allocated_bytes() - before);
    }
    assert!(bytes <= 16 * per_process, "{bytes}");
    let mut findings = Vec::new();
    engine.finish(&mut findings);
    let tally = engine.tally();
    assert_eq!((tally.steps, steps + findings.len()), (20_000, 20_000));
    assert_eq!(tally.streams_evicted, 10_000 - STREAMS_MAX as u64);
    assert_eq!(tally.processes_evicted, 10_001 - 16);
}

fn observed(engine: &mut Engine, record: StepRecord) -> Vec<Finding> {
    let mut findings = Vec::new();
    engine.observe(&Event::Step(record), &mut findings);
    findings
}

fn function(process: ProcessId, ordinal: u32) -> Event {
    Event::Function(Box::new(GpuFunction { process, ordinal, ..GpuFunction::default() }))
}

/// Rules give four phases in any mixture: four baselines with as many classes as they hold. The process has as many
/// functions as can have an ordinal.
#[test]
fn a_workload_takes_at_most_24_kilobytes() {
    let rules = Classifier::Rules(Rules::default());
    for classifier in [Classifier::Adaptive, rules] {
        let before = allocated_bytes();
        let mut engine = Engine::new(Settings { classifier, ..Settings::default() });
        let (mut server, mut rng) = (Server::new(1), Rng::new(2));
        let (mut phases, mut unjudged) = ([0; Phase::ALL.len()], 0);
        observed(&mut engine, server.decode(1, 10e6));
        for ordinal in 0..FUNCTIONS_MAX as u32 {
            engine.observe(&function(server.process, ordinal), &mut Vec::new());
        }
        for k in 0..20_000 {
            let (size, jitter) = (rng.below(64), rng.uniform(0.9, 1.1));
            let threads_per_launch = [500_000, 70_000][rng.below(2) as usize];
            let work = [
                (Counter::Launches, 128),
                (Counter::Threads, (128 * threads_per_launch) << (size % 8)),
                (Counter::GraphLaunches, 30 * rng.below(2)),
                (Counter::Graphs, 0x4000 + size % 8),
            ];
            let record = match rng.below(3) {
                0 => server.decode(size, 10e6 * jitter),
                1 => server.prefill(64 << (size % 12), 90e6 * jitter),
                _ => server.step(&work, 2 * MS, (30e6 * jitter) as u64),
            };
            let record = StepRecord { signature: Signature([u64::from(u16::MAX); SIGNATURE]), ..record };
            for finding in observed(&mut engine, record) {
                let Finding::Step(step) = finding else { continue };
                phases[step.phase as usize] += 1;
                unjudged += usize::from(k >= 19_000 && step.baseline.is_none());
            }
        }
        let count = phases.iter().filter(|steps| **steps > 0).count();
        assert!(classifier == Classifier::Adaptive || count == 4, "{phases:?}");
        assert_eq!(unjudged, 0, "no phase evicts another");
        let bytes = allocated_bytes() - before;
        assert!(bytes <= 24 * 1024, "{bytes} bytes for {phases:?}");
    }
}

#[test]
fn findings_do_not_depend_on_other_processes() {
    let record = |server: &mut Server, k: u64| match (k + u64::from(server.process.pid)) % 7 {
        0 => server.prefill(900, 90e6),
        _ => server.decode(32, if k % 50 == 33 { 45e6 } else { 10e6 }),
    };
    let mut servers: Vec<Server> = (1..=6).map(Server::new).collect();
    let mut all: Vec<StepRecord> = Vec::new();
    for server in &mut servers {
        all.extend((0..300).map(|k| record(server, k)));
    }
    let end_of = |r: &StepRecord| r.header.entry_ns + r.header.duration_ns;
    let found_of = |records: &[StepRecord], pid: u32| -> Vec<Step> {
        let mut found = check(records.to_vec());
        found.steps.retain(|s| s.process.pid == pid);
        found.steps
    };
    let mut together = all.clone();
    together.sort_by_key(end_of);
    let mut other_ties = all.clone();
    other_ties.sort_by_key(|r| (end_of(r), std::cmp::Reverse(r.header.pid)));
    for pid in 1..=6 {
        let alone: Vec<StepRecord> = all.iter().filter(|r| r.header.pid == pid).copied().collect();
        let alone = found_of(&alone, pid);
        assert!(alone == found_of(&together, pid), "pid {pid}");
        assert!(alone == found_of(&other_ties, pid), "pid {pid}, ties reversed");
    }
}

fn any_record() -> impl Strategy<Value = StepRecord> {
    let times = prop_oneof![0u64..5_000_000_000, Just(0), Just(u64::MAX), any::<u64>()];
    let counts = prop_oneof![0u64..2_000, Just(0), any::<u64>()];
    let runq = prop_oneof![Just(NOT_SEEN), 0u64..1_000_000, any::<u64>()];
    (
        (1u32..4, 0u32..3, 0u64..4, 0u64..50, 0u32..4, 0u16..200),
        prop::collection::vec(times, 5),
        prop::collection::vec(runq, 3),
        prop::collection::vec(counts, COUNTERS + 2),
    )
        .prop_map(|((pid, tid, stream, sequence, flags, row), times, runq, counts)| {
            let mut record = StepRecord { stream, sequence, ..StepRecord::default() };
            (record.header.pid, record.header.tid) = (pid, tid);
            (record.header.flags, record.header.row) = (flags, row);
            (record.header.entry_ns, record.header.duration_ns) = (times[0], times[1]);
            (record.first_ns, record.previous_exit_ns, record.recorded_ns) = (times[2], times[3], times[4]);
            record.run_queue = CountParts { gap: runq[0], enqueue: runq[1], wait: runq[2] };
            (record.enqueued_since_sync, record.process_enqueued_since_sync) =
                (counts[COUNTERS], counts[COUNTERS + 1]);
            record.work.copy_from_slice(&counts[..COUNTERS]);
            record
        })
}

proptest! {
    /// Whatever a recording contains: no panic, no segment lost, every step sound, and the same result again.
    #[test]
    fn arbitrary_records_give_sound_and_repeatable_steps(records in prop::collection::vec(any_record(), 1..300)) {
        let found = check(records.clone());
        let again = check(records);
        prop_assert!(found.steps == again.steps && found.shifts == again.shifts);
    }
}
