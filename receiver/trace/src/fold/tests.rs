//! Schedules of calls: their steps, and the outcome of every call.

use probe_abi::counters::SelfCounter;
use probe_abi::fold::Counter;
use probe_abi::record::{NOT_SEEN, StepRecord, flag};
use probe_abi::{Direction, PROBES};
use proptest::prelude::*;

use super::*;
use crate::{TracedGraph, TracedKernel};

const MAIN: u32 = 10;

fn row(symbol: &str) -> u16 {
    PROBES.iter().find(|p| p.symbol == symbol).unwrap().id
}

/// Returns a call of `symbol` from `entry` to `exit` by the main thread.
fn call(symbol: &str, entry: u64, exit: u64) -> Call {
    Call {
        process: ProcessId { pid: 5, start_ns: 50 },
        tid: MAIN,
        row: row(symbol),
        entry_ns: entry,
        duration_ns: exit - entry,
        ..Call::default()
    }
}

fn launch(stream: u64, at: u64) -> Call {
    Call { stream, threads: 32, identity: 1, ..call("cudaLaunchKernel", at, at + 1) }
}

fn record(event: Option<u64>, stream: u64, at: u64) -> Call {
    Call { stream, handle: event, ..call("cudaEventRecord", at, at + 1) }
}

fn wait(event: Option<u64>, entry: u64, exit: u64) -> Call {
    Call { handle: event, ..call("cudaEventSynchronize", entry, exit) }
}

fn sync(stream: u64, entry: u64, exit: u64) -> Call {
    Call { stream, ..call("cudaStreamSynchronize", entry, exit) }
}

fn fold(calls: &[Call]) -> (Folder, Vec<Event>) {
    let (mut folder, mut events) = (Folder::new(Bounds::default()), Vec::new());
    for call in calls {
        folder.push(call, &mut events);
    }
    folder.finish(&mut events);
    assert!(folder.account.is_balanced(), "{:?}", folder.account);
    (folder, events)
}

fn steps(events: &[Event]) -> Vec<StepRecord> {
    let step = |e: &Event| if let Event::Step(s) = e { Some(*s) } else { None };
    events.iter().filter_map(step).collect()
}

/// Expected step: stream, enqueues, first enqueue, the sync call's entry and exit, flags.
type Expected = (u64, u64, u64, u64, u64, u32);

fn seen(step: &StepRecord) -> Expected {
    let h = &step.header;
    let enqueues = step.work[Counter::Enqueues as usize];
    (step.stream, enqueues, step.first_ns, h.entry_ns, h.entry_ns + h.duration_ns, h.flags)
}

fn check(calls: &[Call], expected: &[Expected]) -> Vec<Event> {
    let (_, events) = fold(calls);
    assert_eq!(steps(&events).iter().map(seen).collect::<Vec<_>>(), expected);
    events
}

#[test]
fn a_stream_synchronization_ends_only_its_streams_step() {
    let calls = [launch(7, 10), launch(8, 12), sync(7, 20, 90)];
    check(&calls, &[(7, 1, 10, 20, 90, 0), (8, 1, 12, 90, 90, flag::UNFINISHED)]);
}

#[test]
fn work_enqueued_after_a_record_is_in_the_next_step() {
    let calls = [
        launch(7, 10),
        record(Some(1), 7, 12),
        launch(7, 20),
        launch(7, 22),
        record(Some(2), 7, 24),
        wait(Some(1), 30, 40),
        wait(Some(2), 50, 60),
    ];
    let events = check(&calls, &[(7, 1, 10, 30, 40, flag::AHEAD), (7, 2, 20, 50, 60, 0)]);
    let steps = steps(&events);
    assert_eq!(
        (steps[0].recorded_ns, steps[0].enqueued_since_sync, steps[0].process_enqueued_since_sync),
        (12, 3, 3)
    );
    assert_eq!(
        (steps[1].recorded_ns, steps[1].enqueued_since_sync, steps[1].process_enqueued_since_sync),
        (24, 0, 0)
    );
    assert_eq!(steps[1].previous_exit_ns, 40);
}

#[test]
fn an_unnamed_event_is_the_latest_record_of_each_stream() {
    let calls = [
        launch(7, 10),
        record(None, 7, 12),
        launch(7, 14),
        launch(8, 15),
        record(None, 8, 16),
        wait(None, 20, 30),
        sync(7, 40, 50),
    ];
    let ahead = flag::AHEAD;
    check(&calls, &[(7, 1, 10, 20, 30, ahead), (8, 1, 15, 20, 30, 0), (7, 1, 14, 40, 50, 0)]);
}

#[test]
fn a_wait_for_an_unnamed_event_ends_streams_without_records() {
    check(&[launch(7, 10), launch(7, 14), wait(None, 20, 30)], &[(7, 2, 10, 20, 30, 0)]);
}

#[test]
fn announced_streams_are_not_ended_before_their_first_record() {
    let mut folder = Folder::new(Bounds::default());
    let mut events = Vec::new();
    folder.expect_records(launch(7, 0).stream_key());
    for call in [launch(7, 10), wait(None, 20, 30), record(None, 7, 40), wait(None, 50, 60)] {
        folder.push(&call, &mut events);
    }
    folder.finish(&mut events);
    assert_eq!(steps(&events).iter().map(seen).collect::<Vec<_>>(), [(7, 1, 10, 50, 60, 0)]);
}

#[test]
fn waits_for_unknown_events_are_counted() {
    let (folder, events) = fold(&[launch(7, 10), wait(Some(9), 20, 30)]);
    assert_eq!(folder.account[SelfCounter::UnknownEvent], 1);
    assert_eq!(steps(&events)[0].header.flags, flag::UNFINISHED);
}

#[test]
fn a_blocking_copy_from_the_device_ends_its_own_step() {
    let copy = |kind| Call { bytes: 64, direction: kind, ..call("cudaMemcpy", 20, 60) };
    check(&[launch(0, 10), copy(Direction::DeviceToHost)], &[(0, 2, 10, 20, 60, 0)]);
    check(&[launch(0, 10), copy(Direction::HostToDevice)], &[(0, 2, 10, 60, 60, flag::UNFINISHED)]);
}

#[test]
fn a_device_synchronization_ends_every_stream_with_open_work() {
    let device = call("cudaDeviceSynchronize", 40, 70);
    let calls = [launch(8, 10), launch(7, 20), sync(7, 25, 30), launch(9, 35), device];
    check(&calls, &[(7, 1, 20, 25, 30, 0), (8, 1, 10, 40, 70, 0), (9, 1, 35, 40, 70, 0)]);
}

#[test]
fn a_device_synchronization_ends_no_stream_of_another_device() {
    let on = |device: u64, at| Call { handle: Some(device), ..call("cudaSetDevice", at, at + 1) };
    let calls = [
        on(0, 1),
        launch(7, 10),
        on(1, 12),
        launch(8, 15),
        launch(0, 17),
        call("cudaDeviceSynchronize", 20, 30),
        on(0, 32),
        call("cudaDeviceSynchronize", 40, 50),
    ];
    check(&calls, &[(8, 1, 15, 20, 30, 0), (0x1001, 1, 17, 20, 30, 0), (7, 1, 10, 40, 50, 0)]);
}

/// Default streams of all devices were one: a wait on one device ended the step of another.
#[test]
fn devices_have_default_streams_of_their_own() {
    let by = |tid, call: Call| Call { tid, ..call };
    let on = |device: u64, at| Call { handle: Some(device), ..call("cudaSetDevice", at, at + 1) };
    let calls = [
        by(1, on(3, 1)),
        by(2, on(5, 3)),
        by(1, launch(0, 10)),
        by(2, launch(0, 12)),
        by(9, launch(0, 14)),
        by(2, sync(0, 20, 30)),
        by(1, sync(0, 40, 50)),
    ];
    // The first device has the handle 0, and so has a thread that chose none.
    check(&calls, &[(0x1005, 1, 12, 20, 30, 0), (0, 2, 10, 40, 50, 0)]);
}

#[test]
fn work_enqueued_during_another_threads_wait_is_not_in_its_step() {
    let other = Call { tid: 11, ..launch(7, 50) };
    let device = |entry, exit| call("cudaDeviceSynchronize", entry, exit);
    let calls = [launch(7, 10), device(20, 90), other, device(100, 110)];
    let events = check(&calls, &[(7, 1, 10, 20, 90, 0), (7, 1, 50, 100, 110, 0)]);
    assert_eq!(steps(&events)[1].first_tid, 11);
}

#[test]
fn an_idle_poll_ends_no_step() {
    let events = check(
        &[launch(7, 10), sync(7, 20, 30), sync(7, 40, 50), wait(None, 60, 70)],
        &[(7, 1, 10, 20, 30, 0)],
    );
    assert_eq!(steps(&events)[0].run_queue.wait, NOT_SEEN);
}

#[test]
fn captured_calls_are_not_work() {
    let on = |symbol, entry, exit| Call { stream: 7, ..call(symbol, entry, exit) };
    let calls = [
        on("cudaStreamBeginCapture", 1, 2),
        launch(7, 10),
        record(Some(1), 7, 12),
        Call { handle: Some(0xabc), ..on("cudaStreamEndCapture", 14, 15) },
        Call { handle: Some(0xdef), identity: 0xdef, ..on("cudaGraphLaunch", 20, 25) },
        sync(7, 30, 40),
    ];
    let events = check(&calls, &[(7, 1, 20, 30, 40, 0)]);
    let work = steps(&events)[0].work;
    assert_eq!((work[Counter::GraphLaunches as usize], work[Counter::Captured as usize]), (1, 1));
    assert!(events.iter().any(|e| matches!(e, Event::Call(c) if c.handle == 0xabc)));
}

fn wait_on(stream: u64, event: u64, at: u64) -> Call {
    Call { stream, handle: Some(event), ..call("cudaStreamWaitEvent", at, at + 1) }
}

/// vLLM copies its result on a stream of its own and waits for that copy: the step of the computation never ended.
#[test]
fn a_wait_for_a_copy_ends_the_computation_before_it() {
    let calls = [
        launch(7, 10),
        record(Some(1), 7, 12),
        wait_on(9, 1, 14),
        launch(9, 16),
        record(Some(2), 9, 18),
        launch(7, 20),
        launch(7, 21),
        wait(Some(2), 30, 40),
        sync(7, 50, 60),
    ];
    let copy = (9, 1, 16, 30, 40, 0);
    check(&calls, &[copy, (7, 1, 10, 30, 40, flag::AHEAD), (7, 2, 20, 50, 60, 0)]);
}

#[test]
fn frontiers_are_passed_from_stream_to_stream() {
    let calls = [
        launch(7, 10),
        record(Some(1), 7, 12),
        wait_on(8, 1, 14),
        record(Some(2), 8, 16),
        wait_on(9, 2, 18),
        call("cudaEventDestroy", 19, 20),
        launch(9, 22),
        sync(9, 30, 40),
    ];
    check(&calls, &[(9, 1, 22, 30, 40, 0), (7, 1, 10, 30, 40, 0)]);
}

#[test]
fn a_wait_covers_only_what_its_stream_waited_for_before() {
    let calls = [
        launch(9, 5),
        record(Some(2), 9, 6),
        launch(7, 10),
        record(Some(1), 7, 12),
        wait_on(9, 1, 14),
        wait(Some(2), 20, 30),
        sync(9, 40, 50),
    ];
    check(&calls, &[(9, 1, 5, 20, 30, 0), (7, 1, 10, 40, 50, 0)]);
}

#[test]
fn a_stream_in_a_capture_runs_nothing() {
    let on = |symbol, entry| Call { stream: 7, ..call(symbol, entry, entry + 1) };
    let calls = [
        on("cudaStreamBeginCapture", 1),
        record(Some(1), 7, 3),
        wait_on(9, 1, 5),
        launch(9, 7),
        record(Some(2), 9, 9),
        wait_on(7, 2, 11),
        Call { result: 901, ..on("cudaStreamEndCapture", 13) },
        launch(9, 20),
        sync(9, 30, 40),
    ];
    let events = check(&calls, &[(9, 1, 20, 30, 40, 0)]);
    assert_eq!(steps(&events)[0].work[Counter::Captured as usize], 1);
}

fn query(event: u64, at: u64, result: u32) -> Call {
    Call { handle: Some(event), result, ..call("cudaEventQuery", at, at + 2) }
}

#[test]
fn polling_threads_wait_from_their_first_query_on() {
    let calls = [
        launch(7, 10),
        record(Some(1), 7, 12),
        query(1, 20, 600),
        query(1, 30, 600),
        query(1, 40, 0),
        query(1, 50, 0),
        // The stream's steps end by polling: now the first answer ends one.
        launch(7, 60),
        record(Some(1), 7, 62),
        query(1, 70, 0),
    ];
    check(&calls, &[(7, 1, 10, 20, 42, flag::POLLED), (7, 1, 60, 70, 72, flag::POLLED)]);
}

/// PyTorch's memory pools query events whenever memory is allocated, and its watchdog now and then.
#[test]
fn queries_between_work_or_rare_or_single_are_not_waits() {
    let seldom = 30 + probe_abi::record::Poll::PAUSE_NS;
    let between = [query(1, 20, 600), launch(7, 25), query(1, 30, 0)];
    let once = [query(1, 30, 0)];
    let rarely = [query(1, 20, 600), query(1, seldom, 0)];
    for asked in [&between[..], &once, &rarely] {
        let calls = [&[launch(7, 10), record(Some(1), 7, 12)], asked].concat();
        let (_, events) = fold(&calls);
        assert!(steps(&events).iter().all(|s| s.header.flags == flag::UNFINISHED), "{asked:?}");
    }
}

#[test]
fn polling_a_stream_until_idle_ends_its_step() {
    let query = |at, result| Call { stream: 7, result, ..call("cudaStreamQuery", at, at + 2) };
    check(&[query(5, 0), launch(7, 10), query(20, 600), query(30, 0)], &[(7, 1, 10, 20, 32, flag::POLLED)]);
}

#[test]
fn a_destroyed_stream_ends_its_step_and_is_removed() {
    let destroy = Call { stream: 7, ..call("cudaStreamDestroy", 20, 22) };
    let calls = [launch(7, 10), destroy, launch(7, 30), sync(7, 40, 50)];
    let events = check(&calls, &[(7, 1, 10, 20, 22, flag::UNFINISHED), (7, 1, 30, 40, 50, 0)]);
    assert_eq!((steps(&events)[1].sequence, steps(&events)[1].previous_exit_ns), (0, 0));
}

#[test]
fn driver_calls_within_runtime_calls_are_suppressed() {
    let driver = |tid, entry| Call { tid, ..Call { threads: 1, ..call("cuLaunchKernel", entry, entry + 1) } };
    let outer = Call { stream: 7, duration_ns: 10, ..launch(7, 10) };
    let calls = [outer, driver(MAIN, 12), driver(11, 13), driver(MAIN, 20), sync(7, 30, 40)];
    let (folder, events) = fold(&calls);
    assert_eq!(folder.account[SelfCounter::Suppressed], 1);
    assert_eq!(folder.account.hits, 4);
    assert_eq!(steps(&events)[0].work[Counter::Launches as usize], 1);
    assert_eq!(steps(&events)[1].work[Counter::Launches as usize], 2, "the driver's, on the default stream");
}

#[test]
fn allocations_frees_and_errors_are_recorded_unready_queries_not() {
    let alloc = Call { handle: Some(0x7000), bytes: 256, ..call("cudaMalloc", 1, 5) };
    let query = Call { result: 600, ..call("cudaStreamQuery", 6, 7) };
    let error = Call { result: 719, ..sync(7, 8, 9) };
    let free = Call { handle: Some(0x7000), ..call("cudaFree", 10, 11) };
    let (folder, events) = fold(&[alloc, query, error, free]);
    let calls: Vec<_> = events
        .iter()
        .filter_map(|e| {
            if let Event::Call(c) = e { Some((c.header.row, c.result, c.handle, c.bytes)) } else { None }
        })
        .collect();
    let expected = [
        (row("cudaMalloc"), 0, 0x7000, 256),
        (row("cudaStreamSynchronize"), 719, 0, 0),
        (row("cudaFree"), 0, 0x7000, 0),
    ];
    assert_eq!(calls, expected);
    assert_eq!((folder.account.delivered, folder.account.folded), (3, 1));
}

#[test]
fn calls_count_at_entry_and_durations_at_return() {
    let (_, events) = fold(&[launch(7, 10), sync(7, 20, 90), sync(7, 100, 101)]);
    let totals: Vec<_> = events
        .iter()
        .filter_map(|e| {
            if let Event::Operation(o) = e {
                Some((o.row, o.calls, o.returned, o.sum_ns, o.max_ns))
            } else {
                None
            }
        })
        .collect();
    let expected = [(row("cudaLaunchKernel"), 1, 0, 0, 0), (row("cudaStreamSynchronize"), 2, 2, 71, 70)];
    assert_eq!(totals, expected);
}

#[test]
fn totals_are_sent_only_when_changed() {
    let mut folder = Folder::new(Bounds::default());
    let mut events = Vec::new();
    folder.push(&sync(7, 1, 2), &mut events);
    folder.advance(5, &mut events);
    let mut counts = Vec::new();
    for _ in 0..2 {
        events.clear();
        folder.totals(9, &mut events);
        counts.push(events.iter().filter(|e| matches!(e, Event::Operation(_))).count());
    }
    assert_eq!(counts, [1, 0]);
}

#[test]
fn a_reused_pid_is_another_process() {
    let second = Call { process: ProcessId { pid: 5, start_ns: 900 }, ..launch(7, 1000) };
    let (_, events) = fold(&[launch(7, 10), second]);
    let exit = events.iter().position(|e| matches!(e, Event::Exit { at_ns: 1000, .. })).unwrap();
    let [first, second] = steps(&events)[..] else { panic!("two steps") };
    assert_eq!((first.header.process_start_ns, second.header.process_start_ns), (50, 900));
    assert_eq!(second.sequence, 0);
    assert!(events[..exit].iter().any(|e| matches!(e, Event::Operation(_))), "totals come before the end");
}

#[test]
fn calls_beyond_the_bounds_are_dropped_and_counted() {
    let bounds = Bounds { processes: 1, streams: 1, events: 1, threads: 1, graphs: 1, durations: 1 };
    let mut folder = Folder::new(bounds);
    let mut events = Vec::new();
    let unlisted = Call { process: ProcessId { pid: 6, start_ns: 0 }, ..launch(7, 30) };
    let elsewhere = Call { tid: 11, ..sync(7, 31, 32) };
    for call in [launch(7, 10), launch(8, 20), unlisted, elsewhere, sync(7, 33, 34), record(Some(1), 7, 35)] {
        folder.push(&call, &mut events);
    }
    folder.finish(&mut events);
    let lost: Vec<_> = events
        .iter()
        .filter_map(
            |e| if let Event::Lost { reason, count, .. } = e { Some((*reason, *count)) } else { None },
        )
        .collect();
    assert_eq!(
        lost,
        [(DropReason::StreamsFull, 1), (DropReason::ThreadsFull, 1), (DropReason::ProcessesFull, 1)]
    );
    assert_eq!(folder.account[SelfCounter::Untimed], 1);
    assert!(folder.account.is_balanced());
}

#[test]
fn calls_deeper_than_a_threads_stack_are_dropped() {
    let nested: Vec<_> = (0..6).map(|k| call("cudaStreamQuery", 10 + k, 100 - k)).collect();
    let (folder, _) = fold(&nested);
    assert_eq!(folder.account.dropped[DropReason::TooDeep as usize], 2);
}

/// Generates a schedule of one process: threads take turns, calls do not overlap on a thread.
fn schedule() -> impl Strategy<Value = Vec<Call>> {
    let one = (0u8..9, 0u32..3, 0u64..4, 0u64..3, 0u64..30, 0u64..30);
    prop::collection::vec(one, 1..200).prop_map(|choices| {
        let mut free = [0u64; 3];
        let mut now = 0;
        let calls = choices.into_iter().map(|(kind, thread, stream, event, pause, duration)| {
            let entry = (now + pause).max(free[thread as usize]);
            let template = match kind {
                0..=2 => launch(stream, entry),
                3 => record(Some(event), stream, entry),
                4 => record(None, stream, entry),
                5 => wait(Some(event), entry, entry),
                6 => wait(None, entry, entry),
                7 => sync(stream, entry, entry),
                _ => call("cudaDeviceSynchronize", entry, entry),
            };
            free[thread as usize] = entry + duration;
            now = entry;
            Call { tid: MAIN + thread, duration_ns: duration, ..template }
        });
        calls.collect()
    })
}

proptest! {
    /// In any schedule, every enqueue is in exactly one step and every call is accounted for.
    #[test]
    fn every_enqueue_is_in_exactly_one_step(calls in schedule()) {
        let (folder, events) = fold(&calls);
        let enqueued = calls.iter().filter(|c| c.row == row("cudaLaunchKernel")).count() as u64;
        let counted: u64 = steps(&events).iter().map(|s| s.work[Counter::Enqueues as usize]).sum();
        prop_assert_eq!(counted, enqueued);
        prop_assert_eq!(folder.account.hits, calls.len() as u64);
        // Not the sync call's entry: if threads wait for one stream at once, the first to return ends the step.
        let exit = |s: &StepRecord| s.header.entry_ns + s.header.duration_ns;
        prop_assert!(steps(&events).iter().all(|s| s.first_ns <= exit(s)));
    }
}

/// Calls of a training loop that never waits: a copy of inputs, a forward pass, a backward pass by another thread.
fn training(iterations: u64) -> Vec<Call> {
    let of = |tid: u32, at: u64| Call { tid, ..launch(7, at) };
    let iteration = |k: u64| {
        let begin = k * 1_000;
        let copy = Call { stream: 7, bytes: 64, ..call("cudaMemcpyAsync", begin, begin + 1) };
        let forward = (0..40).map(move |at| of(MAIN, begin + 10 + at));
        let backward = (0..80).map(move |at| of(MAIN + 1, begin + 100 + at));
        std::iter::once(copy).chain(forward).chain(backward)
    };
    (1..=iterations).flat_map(iteration).collect()
}

#[test]
fn iterations_without_a_sync_call_end_where_the_next_one_begins() {
    let steps = steps(&fold(&training(4)).1);
    let found: Vec<_> = steps
        .iter()
        .map(|s| (s.work[Counter::Enqueues as usize], s.header.flags, s.header.entry_ns))
        .collect();
    let [mark, end] = [flag::ITERATION, flag::UNFINISHED];
    assert_eq!(found, [(121, mark, 2_000), (121, mark, 3_000), (121, mark, 4_000), (121, end, 4_180)]);
    assert!(steps.iter().take(3).all(|s| s.header.duration_ns == 0 && s.header.tid == MAIN));
}

#[test]
fn functions_are_numbered_and_named_before_their_step() {
    let mut folder = Folder::new(Bounds::default());
    folder.name_function(0xb, "second");
    let calls = [0xa, 0xb, 0xa, 0].map(|identity| Call { identity, ..launch(7, 10) });
    let mut events = Vec::new();
    calls.iter().for_each(|call| folder.push(call, &mut events));
    folder.push(&sync(7, 20, 30), &mut events);
    folder.finish(&mut events);
    let function =
        |e: &Event| if let Event::Function(f) = e { Some((f.ordinal, f.symbol.clone())) } else { None };
    let functions: Vec<_> = events.iter().filter_map(function).collect();
    assert_eq!(functions, [(0, String::new()), (1, "second".to_owned())]);
    let signature = steps(&events)[0].signature;
    assert_eq!([0, 1, 2, 63].map(|lane| signature.launches(lane)), [2, 1, 0, 1]);
}

#[test]
fn a_graph_has_the_given_contents() {
    let graph = |threads| TracedGraph { kernels: vec![TracedKernel { function: 0xc, threads }; 3], bytes: 8 };
    let mut folder = Folder::new(Bounds::default());
    let launch = |handle| Call { stream: 7, handle: Some(handle), ..call("cudaGraphLaunch", 10, 11) };
    let mut events = Vec::new();
    for (handle, threads) in [(1, Some(64)), (2, None)] {
        folder.add_graph(&launch(handle), &graph(threads));
        folder.push(&launch(handle), &mut events);
    }
    folder.finish(&mut events);
    let step = steps(&events)[0];
    let of = |counter: Counter| step.work[counter as usize];
    assert_eq!((of(Counter::GraphsKnown), of(Counter::GraphKernels)), (1, 3), "one is unknown");
    assert_eq!(step.signature.launches(0), 6, "functions of both are known");
}
