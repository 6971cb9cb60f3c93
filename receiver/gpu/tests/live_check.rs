//! Comparison of the registry with what is emitted: everything emitted is declared, and everything declared is
//! emitted.

mod common;

use std::collections::BTreeSet;

use common::job::{Job, Rank, events_until};
use common::registry::{Seen, is_of_hardware};
use common::*;
use event::{
    Account, Clocks, Device, Event, ExitStatus, FileCounts, FunctionRecord, FunctionTotal, Overhead,
    ProcessId, ThrottleReason, ThrottleTime,
};
use gpu::Settings;
use probe_abi::counters::DropReason;
use probe_abi::record::{CountParts, Header};

/// Returns the events of a machine on which every finding occurs.
fn everything() -> Vec<Event> {
    let mut server = Program::new(100);
    server.info.container_id = "c0ffee".to_owned();
    server.info.unobserved_ns = MS;
    server.info.attributes = vec![("gen_ai.provider.name".to_owned(), "vllm".to_owned())];
    server.call("cudaSetDevice", US, |c| c.handle = Some(1));
    server.allocate(0x10, 1 << 30, 0);
    server.allocate(0x20, 1 << 20, 0);
    server.free(0x20);
    server.allocate(0x30, 1 << 40, 2);
    server.call("cudaMemsetAsync", US, |c| c.bytes = 4096);
    server.capture();
    server.serve(300, 5 * MS);
    server.launch_unusual();
    server.decode(40 * MS);
    server.serve(600, 12 * MS);
    server.leak(9, 64 << 20);
    (0..9).for_each(|minute| server.free(0x10_0000 + minute));
    (0..60).for_each(|_| {
        server.decode(5 * MS);
        server.wait(2 * SECOND);
    });
    server.call("cudaMemcpy", 50 * US, |c| {
        (c.bytes, c.direction) = (1 << 20, probe_abi::Direction::DeviceToHost)
    });
    let mut events = events(&[server], false);
    let at_ns = events.iter().filter_map(Event::at_ns).max().expect("events have times");
    events.push(Event::Lost { at_ns, reason: DropReason::RingFull, count: 3 });
    let account = Account { at_ns, hits: 10, runs: 20, run_cost_ns: 500, ..Account::default() };
    events.push(Event::Account(Box::new(account)));
    let mut overhead = Overhead { at_ns, share: 0.005, ..Overhead::default() };
    for event in &mut events {
        if let Event::Operation(total) = event {
            (total.unobserved, overhead.process) = (3, total.process);
        }
    }
    let process = overhead.process;
    events.extend(functions(process, at_ns));
    events.push(Event::Overhead(Box::new(overhead)));
    events.push(Event::Armed { at_ns, pid: 100, mapped_ns: at_ns - MS });
    events.push(Event::Selection { at_ns, excluded: 2, discarded: 3, unfiltered: 1 });
    let counts = FileCounts { refused: [1; 8], evicted: [2; 3], postponed: 3, unanswered: 1 };
    events.push(Event::Files { at_ns, counts });
    events.push(Event::Discovery { at_ns, follows_mappings: true, mappings_lost: 2, unreached: 1 });
    events
}

/// Returns a sampled launch and the launches of the first function of a process.
fn functions(process: ProcessId, at_ns: u64) -> [Event; 2] {
    let header =
        Header { pid: process.pid, process_start_ns: process.start_ns, entry_ns: at_ns, ..Header::default() };
    let (grid, block) = ([8, 1, 1], [128, 1, 1]);
    [
        Event::Launch(FunctionRecord { header, grid, block, ..FunctionRecord::default() }),
        Event::FunctionTotal(FunctionTotal { at_ns, process, ordinal: 0, launches: 9 }),
    ]
}

/// Adds a GPU that is throttled at times.
fn with_hardware(events: Vec<Event>) -> Vec<Event> {
    const LOOK_NS: u64 = 100 * MS;
    let times = || events.iter().filter_map(Event::at_ns).filter(|at_ns| *at_ns > 0);
    let (first, last) = (times().min().expect("a time"), times().max().expect("a time"));
    let device = Device { at_ns: first, index: 0, id: "GPU-1".to_owned(), ..Device::default() };
    let look = |at: u64| {
        let held = ThrottleTime { reason: ThrottleReason::HwPowerBrake, ns: 20 * MS, is_counted: true };
        let from_ns = first + at * LOOK_NS;
        Event::Clocks(Clocks { from_ns, to_ns: from_ns + LOOK_NS, device: 0, throttled: vec![held] })
    };
    let looks = (0..=(last - first) / LOOK_NS).map(look);
    let mut all = vec![Event::Device(Box::new(device))];
    all.extend(events.iter().cloned().chain(looks));
    // Events without a time stay at the beginning.
    all.sort_by_key(|event| event.at_ns().unwrap_or(0));
    all
}

/// Returns ranks with every finding about collectives.
fn collectives() -> Vec<Event> {
    let mut job = Job::new(4, 1_000);
    let version =
        job.ranks[0].call_args("ncclGetVersion", SECOND, US, |t| t.exit = 22_304u32.to_le_bytes().to_vec());
    job.events.push(version);
    job.rounds(60, |_| Some(0));
    // A straggler whose steps are outliers, and its recovery.
    job.rounds(20, |rank| Some(if rank == 2 { 30 * MS } else { 0 }));
    job.rounds(80, |_| Some(0));
    let [first, second, third, last] = job.ranks[..] else { panic!("four ranks") };
    let mut at_ns = job.now_ns;
    let mut then = || {
        at_ns += MS;
        at_ns
    };
    // Captured into a graph.
    job.events.extend([
        first.call("cudaStreamBeginCapture", then(), 0),
        first.all_reduce(then(), US),
        first.call("cudaStreamEndCapture", then(), 0),
    ]);
    // Mismatches of three kinds.
    job.events.extend([
        first.call_args("ncclAllReduce", then(), US, |t| (t.result, t.arguments[5]) = (4, first.comm)),
        first.call_args("ncclCommCount", then(), US, |t| {
            (t.arguments[0], t.exit) = (first.comm, vec![8, 0, 0, 0])
        }),
        first.all_reduce(then(), US),
        second.all_gather(then(), US),
        third.all_reduce(then(), US),
        last.all_reduce(then(), US),
    ]);
    let mut ranks = job.ranks.clone();
    let (before_ns, exit_ns) = (then(), then());
    job.events.extend(ranks.iter_mut().map(|r| r.sync(before_ns - 5 * MS, before_ns, exit_ns)));
    // Messages, of which some are traced; then a receive without a send.
    let pair = [first.of(0x6000_0000), second.of(0x6000_0000)];
    let init_ns = then();
    job.events.extend(pair.iter().map(|r| r.init(init_ns, US, 2, &[9; 128])));
    job.events.extend((0..100).map(|n| pair[0].send(init_ns + n * 20 * US, 1)));
    let (sent_ns, waited_ns) = (then(), then());
    job.events.push(ranks[0].sync(init_ns, sent_ns, waited_ns));
    job.events.push(pair[0].send(then(), 1));
    // A rank that is missing for a minute.
    job.events.extend([first, second, third].map(|r| r.all_reduce(then(), US)));
    let hung_ns = then();
    let back_ns = hung_ns + 60 * SECOND;
    job.events.push(last.all_reduce(back_ns, US));
    job.events.extend(ranks.iter_mut().map(|r| r.sync(hung_ns, back_ns + MS, back_ns + 2 * MS)));
    // Two processes that end during the hang.
    let ends = [(last, ExitStatus::Killed(9)), (third, ExitStatus::Exited(1))];
    for (rank, status) in ends {
        job.events.push(rank.all_reduce(back_ns + 5 * MS, US));
        job.events.push(Event::Exit { process: rank.process, at_ns: back_ns + 10 * MS, status });
    }
    events_until(job.ranks.iter().map(Rank::info).collect(), job.events, back_ns + SECOND)
}

fn settings() -> Settings {
    let host = ["host.arch", "host.id", "host.name", "os.type"].map(|key| (key.to_owned(), "x".to_owned()));
    let mut settings = Settings { host: host.to_vec(), ..Settings::default() };
    settings.collectives.engine.trace.rate = 0.1;
    settings
}

fn seen() -> Seen {
    let mut seen = Seen::default();
    seen.check(&analysed(&collectives(), settings()));
    let mut events = in_detail(everything());
    seen.check(&analysed(&events, settings()));
    // A kernel that measures run-queue waits, on every step.
    for event in &mut events {
        if let Event::Step(step) = event {
            step.run_queue = CountParts { gap: 1, enqueue: 2, wait: 3 };
        }
    }
    seen.check(&analysed(&with_hardware(events), settings()));
    seen.check(&restored());
    seen
}

/// Restores a corrupted record of an earlier run.
fn restored() -> Output {
    let mut output = Output { batches: Vec::new() };
    let state = persist::RestoredState { corrupted: 1, ..persist::RestoredState::default() };
    gpu::Analyzer::new(settings()).restore(&state, &|_| true, &mut |batch| output.batches.push(batch));
    output
}

#[test]
fn registry_and_emitted_telemetry_agree() {
    let seen = seen();
    let names = |all: &BTreeSet<String>| all.iter().cloned().collect::<Vec<_>>();
    let ours = |name: &String| !is_of_hardware(name);
    let declared: Vec<String> = semconv::METRICS.iter().map(|m| m.name().to_owned()).filter(ours).collect();
    assert_eq!(names(&seen.metrics), declared);
    let declared: Vec<String> = semconv::SPANS.iter().map(|s| s.name.to_owned()).collect();
    assert_eq!(names(&seen.spans), declared);
    let declared: Vec<String> = semconv::EVENTS.iter().map(|e| e.name.to_owned()).filter(ours).collect();
    assert_eq!(names(&seen.events), declared);
    let declared: Vec<String> = semconv::RESOURCE.iter().map(|u| u.key.to_owned()).collect();
    assert_eq!(names(&seen.resource), declared);
}

#[test]
fn every_attribute_of_every_signal_is_emitted() {
    let seen = seen();
    let metrics = semconv::METRICS.iter().map(|m| (m.name(), m.attributes()));
    let spans = semconv::SPANS.iter().map(|s| (s.name, s.attributes));
    let events = semconv::EVENTS.iter().map(|e| (e.name, e.attributes));
    for (signal, uses) in metrics.chain(spans).chain(events).filter(|(name, _)| !is_of_hardware(name)) {
        for used in uses {
            let pair = (signal.to_owned(), used.key.to_owned());
            assert!(seen.attributes.contains(&pair), "{pair:?} is declared and was not emitted");
        }
    }
}
