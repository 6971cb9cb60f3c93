//! The call sequences of current engines: calls are folded as the kernel folds them, and the steps must be those of the
//! schedule.

use event::{Event, ProcessId};
use probe_abi::fold::Counter;
use probe_abi::{Direction, PROBES};
use steps::{Engine, Finding, Phase, Settings, Step};
use trace::Call;
use trace::fold::{Bounds, Folder};

const MS: u64 = 1_000_000;
const US: u64 = 1_000;

/// A running program: threads that make calls in turn, and a clock.
struct Program {
    process: ProcessId,
    tid: u32,
    now_ns: u64,
    folder: Folder,
    events: Vec<Event>,
}

impl Program {
    fn new(pid: u32) -> Program {
        Program {
            process: ProcessId { pid, start_ns: 1 },
            tid: pid,
            now_ns: 1_000 * MS,
            folder: Folder::new(Bounds::default()),
            events: Vec::new(),
        }
    }

    fn call(&mut self, symbol: &str, duration_ns: u64, fill: impl FnOnce(&mut Call)) {
        let row = PROBES.iter().find(|p| p.symbol == symbol).expect("a probed function").id;
        let mut call = Call {
            process: self.process,
            tid: self.tid,
            row,
            entry_ns: self.now_ns,
            duration_ns,
            ..Call::default()
        };
        fill(&mut call);
        self.folder.push(&call, &mut self.events);
        self.now_ns += duration_ns;
        self.folder.advance(self.now_ns, &mut self.events);
    }

    fn idle(&mut self, ns: u64) {
        self.now_ns += ns;
    }

    fn launch(&mut self, stream: u64, count: u64, threads: u64) {
        for _ in 0..count {
            self.call("cudaLaunchKernel", 5 * US, |c| {
                (c.stream, c.threads, c.identity) = (stream, threads, 0x10)
            });
        }
    }

    fn graph(&mut self, stream: u64, graph: u64) {
        self.call("cudaGraphLaunch", 40 * US, |c| {
            (c.stream, c.handle, c.identity) = (stream, Some(graph), graph)
        });
    }

    fn copy(&mut self, stream: u64, direction: Direction, bytes: u64) {
        self.call("cudaMemcpyAsync", 4 * US, |c| {
            (c.stream, c.direction, c.bytes) = (stream, direction, bytes);
        });
    }

    fn record(&mut self, stream: u64, event: u64) {
        self.call("cudaEventRecord", 2 * US, |c| (c.stream, c.handle) = (stream, Some(event)));
    }

    fn event_sync(&mut self, event: u64, ns: u64) {
        self.call("cudaEventSynchronize", ns, |c| c.handle = Some(event));
    }

    fn wait(&mut self, stream: u64, event: u64) {
        self.call("cudaStreamWaitEvent", US, |c| (c.stream, c.handle) = (stream, Some(event)));
    }

    fn stream_sync(&mut self, stream: u64, ns: u64) {
        self.call("cudaStreamSynchronize", ns, |c| c.stream = stream);
    }

    fn device_sync(&mut self, ns: u64) {
        self.call("cudaDeviceSynchronize", ns, |_| ());
    }

    /// Calls the functions of a decode by one graph: inputs, the graph, sampling.
    fn decode(&mut self, stream: u64, graph: u64) {
        self.copy(stream, Direction::HostToDevice, 4_096);
        self.graph(stream, graph);
        self.launch(stream, 4, 1_000_000);
        self.copy(stream, Direction::DeviceToHost, 128);
    }

    /// Calls the functions of an eager prefill.
    fn prefill(&mut self, stream: u64) {
        self.copy(stream, Direction::HostToDevice, 65_536);
        self.launch(stream, 400, 390_000);
        self.copy(stream, Direction::DeviceToHost, 4);
    }

    /// Returns all steps, at the end of the source.
    fn steps(mut self) -> Vec<Step> {
        let end_ns = self.folder.finish(&mut self.events);
        self.events.push(Event::Tick { at_ns: end_ns });
        let (mut engine, mut findings) = (Engine::new(Settings::default()), Vec::new());
        self.events.iter().for_each(|event| engine.observe(event, &mut findings));
        engine.finish(&mut findings);
        let step = |finding| match finding {
            Finding::Step(step) => step,
            Finding::BaselineShift(shift) => panic!("{shift:?}"),
        };
        findings.into_iter().map(step).collect()
    }
}

/// A step of a schedule: phase, launches, graph launches, wait in microseconds.
type Row = (Phase, u64, u64, u64);

#[track_caller]
fn check(steps: &[Step], expected: &[Row]) {
    let found: Vec<Row> = steps
        .iter()
        .map(|s| (s.phase, s.work.of(Counter::Launches), s.work.of(Counter::GraphLaunches), s.wait_ns / US))
        .collect();
    assert_eq!(found, expected);
    for step in steps {
        assert_eq!(step.enqueue_ns + step.wait_ns, step.duration_ns);
        assert_eq!(step.end_ns - step.start_ns, step.duration_ns);
    }
}

const PREFILL: u64 = 400;

/// Agents that take the entry of a wait for its exit charge the wait to the next step; with alternating phases every decode
/// is as slow as a prefill.
#[test]
fn each_wait_is_charged_to_its_own_step_and_phase() {
    let mut p = Program::new(1);
    let mut expected = Vec::new();
    let mut times = Vec::new();
    for k in 0..40u64 {
        let began = p.now_ns;
        p.prefill(9);
        p.stream_sync(9, 80 * MS + k * US);
        expected.push((Phase::Prefill, PREFILL, 0, 80_000 + k));
        times.push((began, p.now_ns));
        p.idle(MS);
        let began = p.now_ns;
        p.decode(9, 0x77);
        p.stream_sync(9, 8 * MS);
        expected.push((Phase::Decode, 4, 1, 8_000));
        times.push((began, p.now_ns));
        p.idle(2 * MS);
    }
    let steps = p.steps();
    check(&steps, &expected);
    let found: Vec<_> = steps.iter().map(|s| (s.start_ns, s.end_ns)).collect();
    assert_eq!(found, times);
    assert!(steps[1..].iter().all(|s| s.gap_ns == if s.phase == Phase::Decode { MS } else { 2 * MS }));
}

/// vLLM V1 waits by event, on the compute stream. An agent that recognises only stream and device synchronisations finds no
/// steps; one that counts only kernels finds no work in a decode by one graph.
#[test]
fn an_engine_with_events_and_graphs_has_steps() {
    let mut p = Program::new(2);
    let mut expected = Vec::new();
    for k in 0..30 {
        match k % 10 {
            0 => p.prefill(0),
            _ => p.decode(0, 0x77),
        }
        p.record(0, 0xe0);
        p.event_sync(0xe0, 9 * MS);
        expected.push(match k % 10 {
            0 => (Phase::Prefill, PREFILL, 0, 9_000),
            _ => (Phase::Decode, 4, 1, 9_000),
        });
    }
    check(&p.steps(), &expected);
}

/// The overlap scheduler of SGLang and the asynchronous one of vLLM enqueue a step before they wait for the previous one.
#[test]
fn asynchronous_scheduling_does_not_mix_two_steps() {
    let event = |k: u64| 0xe0 + k % 3;
    let mut p = Program::new(3);
    let mut expected = Vec::new();
    let mut began = Vec::new();
    for k in 0..40u64 {
        began.push(p.now_ns);
        match k % 8 {
            3 => p.prefill(5),
            _ => p.decode(5, 0x77),
        }
        p.record(5, event(k));
        expected.push(if k % 8 == 3 { (Phase::Prefill, PREFILL, 0) } else { (Phase::Decode, 4, 1) });
        if k > 0 {
            p.event_sync(event(k - 1), 7 * MS);
        }
    }
    // The last result was ready before the sync call: a step without a wait.
    p.event_sync(event(39), 5 * US);
    let steps = p.steps();
    let waits = (0..40).map(|k| if k == 39 { 5 } else { 7_000 });
    check(&steps, &expected.iter().zip(waits).map(|(e, w)| (e.0, e.1, e.2, w)).collect::<Vec<_>>());
    assert_eq!(steps.iter().map(|s| s.start_ns).collect::<Vec<_>>(), began);
    assert!(steps.iter().all(|s| s.segments == 1));
}

/// vLLM V1 copies its tokens on a separate stream after the computation, and a second thread waits for that copy. The
/// computation had no end, and every step was only a copy.
#[test]
fn a_copy_on_its_own_stream_ends_the_computation() {
    let (main, copy, prepared) = (0, 0x51, 0xf0);
    let event = |k: u64| 0xe0 + k % 3;
    let mut p = Program::new(30);
    let (mut began, mut expected) = (Vec::new(), Vec::new());
    for k in 0..40u64 {
        if k > 0 {
            p.event_sync(prepared, 30 * US);
        }
        began.push(p.now_ns);
        p.copy(main, Direction::HostToDevice, 4_096);
        p.launch(main, 2, 256);
        p.record(main, prepared);
        match k % 8 {
            3 => p.launch(main, PREFILL, 390_000),
            _ => p.graph(main, 0x77),
        }
        p.launch(main, 4, 1_000_000);
        p.record(main, 0xf1);
        p.wait(copy, 0xf1);
        p.copy(copy, Direction::DeviceToHost, 128);
        p.record(copy, event(k));
        expected.push(if k % 8 == 3 { (PREFILL + 6, 0) } else { (6, 1) });
        if k > 0 {
            p.event_sync(event(k - 1), 7 * MS);
        }
    }
    p.event_sync(event(39), 7 * MS);
    let steps = p.steps();
    let work = |s: &Step| (s.work.of(Counter::Launches), s.work.of(Counter::GraphLaunches));
    assert_eq!(steps.iter().map(work).collect::<Vec<_>>(), expected);
    assert_eq!(steps.iter().map(|s| s.start_ns).collect::<Vec<_>>(), began);
    assert!(steps.iter().all(|s| s.phase != Phase::Unknown && s.wait_ns == 7 * MS), "{steps:?}");
}

#[test]
fn idle_polls_are_not_steps() {
    let mut p = Program::new(4);
    for _ in 0..20 {
        p.decode(0, 0x77);
        p.stream_sync(0, 8 * MS);
        (0..5).for_each(|_| p.stream_sync(0, 2 * US));
        p.device_sync(2 * US);
    }
    assert_eq!(p.steps().len(), 20);
}

#[test]
fn a_sync_call_without_wait_joins_the_previous_step() {
    let mut p = Program::new(5);
    for _ in 0..20 {
        p.decode(0, 0x77);
        p.record(0, 0xe0);
        p.launch(0, 1, 128);
        p.record(0, 0xe1);
        p.event_sync(0xe0, 8 * MS);
        p.event_sync(0xe1, 3 * US);
    }
    let steps = p.steps();
    check(&steps, &[(Phase::Decode, 5, 1, 8_003)].repeat(20));
    assert!(steps.iter().all(|s| s.segments == 2));
}

#[test]
fn streams_of_one_device_synchronisation_are_one_step() {
    let mut p = Program::new(6);
    for _ in 0..20 {
        p.decode(0, 0x77);
        p.launch(0x51, 2, 1_024);
        p.copy(0x52, Direction::DeviceToHost, 64);
        p.device_sync(8 * MS);
    }
    let steps = p.steps();
    check(&steps, &[(Phase::Decode, 6, 1, 8_000)].repeat(20));
    assert!(steps.iter().all(|s| s.segments == 3 && s.stream == steps[0].stream));
}

#[test]
fn independent_streams_have_separate_numbered_steps() {
    let mut p = Program::new(7);
    for _ in 0..20 {
        p.decode(0xffff_8000_1000, 0x77);
        p.prefill(0xffff_8000_2000);
        p.stream_sync(0xffff_8000_1000, 8 * MS);
        p.stream_sync(0xffff_8000_2000, 30 * MS);
    }
    let steps = p.steps();
    assert_eq!(steps.len(), 40);
    let of = |stream| steps.iter().filter(move |s| s.stream == stream);
    assert!(of(0).count() == 20 && of(0).all(|s| s.phase == Phase::Decode));
    assert!(of(1).count() == 20 && of(1).all(|s| s.phase == Phase::Prefill));
}

#[test]
fn a_training_loop_is_one_step_an_iteration() {
    let mut p = Program::new(8);
    let mut began = Vec::new();
    for _ in 0..12 {
        began.push(p.now_ns);
        p.launch(0, 300, 300_000);
        p.tid = 80; // Autograd's thread runs the backward pass.
        for bucket in 0..40 {
            p.launch(0, 12, 300_000);
            p.record(0, 0x900 + bucket);
        }
        p.tid = 8;
        p.launch(0, 60, 200_000);
        p.copy(0, Direction::DeviceToHost, 4);
        p.stream_sync(0, 90 * MS);
        p.idle(5 * MS);
    }
    let steps = p.steps();
    check(&steps, &[(Phase::Train, 840, 0, 90_000)].repeat(12));
    assert_eq!(steps.iter().map(|s| s.start_ns).collect::<Vec<_>>(), began);
    assert!(steps[1..].iter().all(|s| s.gap_ns == 5 * MS));
}

#[test]
fn small_waits_on_side_streams_do_not_end_an_iteration() {
    let mut p = Program::new(9);
    for _ in 0..6 {
        for _ in 0..12 {
            p.copy(0x51, Direction::DeviceToHost, 64);
            p.stream_sync(0x51, 30 * US);
        }
        p.launch(0, 300, 300_000);
        p.tid = 90;
        p.launch(0, 480, 300_000);
        p.tid = 9;
        p.launch(0, 60, 200_000);
        p.stream_sync(0, 90 * MS);
    }
    let steps = p.steps();
    check(&steps, &[(Phase::Train, 840, 0, 90_000 + 12 * 30)].repeat(6));
    assert!(steps.iter().all(|s| s.segments == 13));
}

#[test]
fn a_fixed_turn_of_prefill_and_decodes_is_inference() {
    // A benchmark with one request at a time, and prompts and answers of one length.
    let mut p = Program::new(10);
    let mut expected = Vec::new();
    for _ in 0..20 {
        p.prefill(0);
        p.stream_sync(0, 40 * MS);
        expected.push((Phase::Prefill, PREFILL, 0, 40_000));
        for _ in 0..9 {
            p.decode(0, 0x77);
            p.stream_sync(0, 8 * MS);
            expected.push((Phase::Decode, 4, 1, 8_000));
        }
    }
    check(&p.steps(), &expected);
}

#[test]
fn unawaited_work_is_an_unfinished_step_without_verdict() {
    let mut p = Program::new(11);
    for _ in 0..60 {
        p.decode(0, 0x77);
        p.stream_sync(0, 8 * MS);
    }
    p.decode(0, 0x77);
    p.idle(500 * MS);
    let steps = p.steps();
    let last = steps.last().unwrap();
    assert_eq!((steps.len(), last.is_unfinished, last.wait_ns), (61, true, 0));
    assert_eq!((last.baseline, last.ratio), (None, 0.0));
    assert!(steps[..60].iter().all(|s| !s.is_unfinished));
}

#[test]
fn collectives_and_few_launches_do_not_determine_the_phase() {
    let mut p = Program::new(12);
    let mut expected = Vec::new();
    for k in 0..60 {
        // Eager and tensor parallel: as many launches in both phases, collectives included.
        let (launches, threads) = if k % 6 == 0 { (800, 390_000) } else { (860, 30_000) };
        p.launch(0, launches, threads);
        p.stream_sync(0, 20 * MS);
        expected.push((if k % 6 == 0 { Phase::Prefill } else { Phase::Decode }, launches, 0, 20_000));
        // An embedding model of few layers: 40 launches, each of them large.
    }
    check(&p.steps(), &expected);
    let mut p = Program::new(13);
    for _ in 0..30 {
        p.launch(0, 40, 900_000);
        p.stream_sync(0, 5 * MS);
    }
    check(&p.steps(), &[(Phase::Prefill, 40, 0, 5_000)].repeat(30));
}
