//! The assembly of segments: which of them join, and when a step is complete.

use probe_abi::fold::Counter;
use probe_abi::record::{CountParts, StepRecord, flag};

use super::*;

const US: u64 = 1_000;
const MS: u64 = 1_000_000;
const STREAM_SYNC: u16 = 30;
const DEVICE_SYNC: u16 = 31;

/// A segment by its relevant fields.
#[derive(Clone, Copy)]
struct Seg {
    stream: u32,
    thread: u32,
    row: u16,
    entry_ns: u64,
    wait_ns: u64,
    enqueues: u64,
    foreign: u64,
    enqueued_since_sync: u64,
    process_enqueued_since_sync: u64,
    flags: u32,
}

impl Default for Seg {
    fn default() -> Self {
        Seg {
            stream: 0,
            thread: 7,
            row: STREAM_SYNC,
            entry_ns: 0,
            wait_ns: 5 * MS,
            enqueues: 100,
            foreign: 0,
            enqueued_since_sync: 100,
            process_enqueued_since_sync: 100,
            flags: 0,
        }
    }
}

impl Seg {
    fn segment(&self) -> Segment {
        let mut record = StepRecord {
            enqueued_since_sync: self.enqueued_since_sync,
            process_enqueued_since_sync: self.process_enqueued_since_sync,
            first_ns: self.entry_ns.saturating_sub(MS),
            run_queue: CountParts::UNKNOWN,
            ..StepRecord::default()
        };
        (record.header.tid, record.header.row) = (self.thread, self.row);
        record.header.flags = self.flags;
        (record.header.entry_ns, record.header.duration_ns) = (self.entry_ns, self.wait_ns);
        record.work[Counter::Enqueues as usize] = self.enqueues;
        record.work[Counter::Launches as usize] = self.enqueues;
        record.work[Counter::Foreign as usize] = self.foreign;
        Segment { stream: self.stream, record, records: 1 }
    }
}

/// An assembled step: segments, start, end, wait.
type Row = (u32, u64, u64, u64);

struct Bench {
    assembler: Assembler,
    out: Vec<Row>,
}

impl Bench {
    /// Returns an assembler that has decided for `mode`.
    fn new(mode: Mode) -> Bench {
        let mut assembler = Assembler::new(Joining::default());
        assembler.mode = mode;
        Bench { assembler, out: Vec::new() }
    }

    fn push(&mut self, segments: &[Seg]) {
        for seg in segments {
            let (segment, mut assembled) = (seg.segment(), Vec::new());
            self.assembler.advance(segment.end_ns(), &mut assembled);
            self.assembler.push(&segment, &mut assembled);
            self.out.extend(assembled.iter().map(row));
        }
    }

    fn finish(&mut self) -> u64 {
        let mut assembled = Vec::new();
        let leftover = self.assembler.finish(&mut assembled);
        self.out.extend(assembled.iter().map(row));
        leftover
    }
}

fn row(Assembled { group, .. }: &Assembled) -> Row {
    (group.segments, group.start_ns, group.end_ns, group.wait_ns)
}

#[track_caller]
fn check(mode: Mode, segments: &[Seg], expected: &[Row]) {
    let mut bench = Bench::new(mode);
    bench.push(segments);
    let leftover = bench.finish();
    assert_eq!(bench.out, expected);
    let joined: u32 = expected.iter().map(|row| row.0).sum();
    assert_eq!(
        u64::from(joined) + leftover,
        segments.len() as u64,
        "every segment is in one step or left over"
    );
}

fn at(entry_ms: u64) -> Seg {
    Seg { entry_ns: entry_ms * MS, ..Seg::default() }
}

/// Returns a sync call that did not wait and had no new work.
fn trailing(entry_us: u64) -> Seg {
    Seg {
        entry_ns: entry_us * US,
        wait_ns: 3 * US,
        enqueues: 2,
        enqueued_since_sync: 0,
        process_enqueued_since_sync: 0,
        ..Seg::default()
    }
}

const TRAINING: Mode = Mode::Training { confidence: 0.9 };

/// Returns inputs that were waited for while more work was already enqueued.
fn inputs(entry_ms: u64) -> Seg {
    Seg {
        wait_ns: 3 * US,
        enqueues: 12,
        enqueued_since_sync: 0,
        process_enqueued_since_sync: 0,
        flags: flag::AHEAD,
        ..at(entry_ms)
    }
}

/// vLLM waits for the copies of its inputs before it overwrites them. They were joined to the previous step, and their own
/// step began too late.
#[test]
fn inputs_waited_for_first_begin_the_next_step() {
    let segments = [at(10), inputs(20), at(200), inputs(210)];
    check(
        Mode::Serving,
        &segments,
        &[
            (1, 9 * MS, 15 * MS, 5 * MS),
            (2, 19 * MS, 205 * MS, 5 * MS),
            (1, 209 * MS, 210 * MS + 3 * US, 3 * US),
        ],
    );
}

#[test]
fn results_graphs_and_much_work_do_not_begin_a_step() {
    let record = |counter: Counter, count: u64| {
        let mut segment = inputs(20).segment();
        segment.record.work[counter as usize] = count;
        Group::of(&segment).leads_ahead()
    };
    assert!(record(Counter::Enqueues, 64) && !record(Counter::Enqueues, 65));
    assert!(!record(Counter::BytesFromDevice, 4) && !record(Counter::BytesElsewhere, 4));
    assert!(!record(Counter::GraphLaunches, 1));
    assert!(
        !Group::of(&Seg { flags: 0, ..inputs(20) }.segment()).leads_ahead(),
        "nothing was enqueued after it"
    );
}

/// Another thread waits for the copy of the result, which ends a moment after its step.
#[test]
fn a_copy_awaited_by_another_thread_joins_its_step() {
    let mut bench = Bench::new(Mode::Serving);
    bench.push(&[at(10)]);
    let trails = |kernels: u64, wait_ns: u64| {
        let mut copy = Seg { stream: 3, enqueues: 1, wait_ns, ..at(8) }.segment();
        copy.record.work[Counter::Launches as usize] = kernels;
        copy.record.work[Counter::Copies as usize] = 1;
        bench.assembler.trails(&copy).is_some()
    };
    assert!(trails(0, 7 * MS + 10 * US));
    assert!(!trails(1, 7 * MS + 10 * US), "more than a copy");
    assert!(!trails(0, 7 * MS + 30 * US), "the thread waited longer");
    assert!(!trails(0, 6 * MS), "it ended before");
}

#[test]
fn the_start_is_the_earliest_of_streams_without_old_work() {
    let began =
        |main_ms: u64, main_previous: u64, other_ms: u64, other_previous: u64, is_main_first: bool| {
            let segment = |enqueues, first_ms: u64, previous_ms: u64| {
                let mut segment = Seg { enqueues, ..at(100) }.segment();
                (segment.record.first_ns, segment.record.previous_exit_ns) =
                    (first_ms * MS, previous_ms * MS);
                segment
            };
            let (main, other) = (segment(50, main_ms, main_previous), segment(2, other_ms, other_previous));
            let [first, second] = if is_main_first { [main, other] } else { [other, main] };
            let mut group = Group::of(&first);
            group.join_same_call(&second);
            group.start_ns / MS
        };
    for is_main_first in [false, true] {
        assert_eq!(began(40, 30, 35, 0, is_main_first), 35, "since the previous step ended");
        // Both were enqueued ahead, and the previous step ended on both.
        assert_eq!(began(40, 60, 35, 60, is_main_first), 35);
        assert_eq!(began(40, 30, 5, 0, is_main_first), 40, "open for long");
        assert_eq!(began(40, 30, 50, 0, is_main_first), 40);
    }
}

#[test]
fn serving_a_segment_is_a_step() {
    check(Mode::Serving, &[at(10), at(20)], &[(1, 9 * MS, 15 * MS, 5 * MS), (1, 19 * MS, 25 * MS, 5 * MS)]);
}

#[test]
fn a_trailing_sync_call_joins_the_previous_step() {
    let joined = (2, 9 * MS, 15 * MS + 8 * US, 5 * MS + 3 * US);
    check(Mode::Serving, &[at(10), trailing(15_005)], &[joined]);
    // Also on another stream of the process.
    check(Mode::Serving, &[at(10), Seg { stream: 4, ..trailing(15_005) }], &[joined]);
}

#[test]
fn a_wait_new_work_or_a_delay_separates_steps() {
    let base = trailing(15_005);
    let rows = [
        Seg { wait_ns: 20 * US, ..base },
        Seg { enqueued_since_sync: 1, process_enqueued_since_sync: 1, ..base },
        Seg { entry_ns: 115 * MS + 1, ..base },
        Seg { enqueues: 50, ..base },
        Seg { flags: flag::UNFINISHED, ..base },
    ];
    for (k, seg) in rows.into_iter().enumerate() {
        let mut bench = Bench::new(Mode::Serving);
        bench.push(&[at(10), seg]);
        bench.finish();
        assert_eq!(bench.out.len(), 2, "row {k}");
    }
}

/// As with a decoder after an engine: one sync call ends both, and the small segment is reported first.
#[test]
fn a_side_stream_is_compared_with_its_own_earlier_part() {
    let step = |entry_ms, wait_ns, enqueued_since_sync| {
        let engine = Seg {
            wait_ns,
            enqueued_since_sync,
            process_enqueued_since_sync: enqueued_since_sync,
            ..at(entry_ms)
        };
        [Seg { stream: 1, enqueues: 3, ..engine }, engine]
    };
    let [first, last] = [step(10, 5 * MS, 100), step(20, US, 0)];
    let expected = [(2, 9 * MS, 15 * MS, 5 * MS), (2, 19 * MS, 20 * MS + US, US)];
    check(Mode::Serving, &[first, last].concat(), &expected);
}

/// As at the end of vLLM's asynchronous scheduling: inputs that begin a step count as work of its main stream.
#[test]
fn copies_are_compared_with_copies_not_inputs() {
    let step = |entry_ms, wait_ns, enqueued_since_sync, on_main| {
        let main = Seg {
            wait_ns,
            enqueued_since_sync,
            process_enqueued_since_sync: enqueued_since_sync,
            enqueues: on_main,
            ..at(entry_ms)
        };
        [Seg { stream: 1, enqueues: 1, ..main }, main]
    };
    let [first, last] = [step(30, 5 * MS, 100, 2), step(40, US, 0, 14)];
    let expected = [(3, 19 * MS, 35 * MS, 5 * MS), (2, 39 * MS, 40 * MS + US, US)];
    check(Mode::Serving, &[&[inputs(20)], &first[..], &last[..]].concat(), &expected);
}

#[test]
fn the_oldest_pending_step_is_completed_when_full() {
    let segments: Vec<Seg> =
        (0..PENDING as u32 + 3).map(|k| Seg { stream: k, ..at(10 + u64::from(k)) }).collect();
    let mut bench = Bench::new(Mode::Serving);
    bench.push(&segments);
    assert_eq!(bench.out.len(), 3);
    assert_eq!(bench.finish(), 0);
    assert_eq!(bench.out.len(), PENDING + 3);
}

#[test]
fn an_iteration_ends_with_the_sync_call_of_its_bulk() {
    let small = |ms| Seg { enqueues: 3, process_enqueued_since_sync: 3, wait_ns: MS, ..at(ms) };
    let bulk = |ms| Seg { enqueues: 10, process_enqueued_since_sync: 1_000, ..at(ms) };
    let expected =
        [(1, 79 * MS, 85 * MS, 5 * MS), (3, 100 * MS, 185 * MS, 7 * MS), (2, 200 * MS, 285 * MS, 6 * MS)];
    check(TRAINING, &[bulk(80), small(101), small(110), bulk(180), small(201), bulk(280)], &expected);
}

#[test]
fn an_iteration_starts_after_the_previous_one() {
    let lagging = Seg { stream: 3, process_enqueued_since_sync: 1_000, ..at(84) };
    let expected = [(1, 79 * MS, 85 * MS, 5 * MS), (1, 85 * MS, 89 * MS, 5 * MS)];
    check(TRAINING, &[Seg { process_enqueued_since_sync: 1_000, ..at(80) }, lagging], &expected);
}

#[test]
fn sync_calls_without_new_work_belong_to_the_last_iteration() {
    let bulk = |ms| Seg { process_enqueued_since_sync: 1_000, ..at(ms) };
    // Timers of DDP: each ends a part of the iteration, one of them more than the first.
    let timer = |us, enqueues| Seg { enqueues, ..trailing(us) };
    let segments = [bulk(80), timer(85_010, 500), timer(85_020, 700), bulk(180)];
    let expected = [(3, 79 * MS, 85 * MS + 23 * US, 5 * MS + 6 * US), (1, 179 * MS, 185 * MS, 5 * MS)];
    check(TRAINING, &segments, &expected);
}

#[test]
fn an_unusual_device_wait_is_a_separate_step() {
    let bulk = |ms| Seg { process_enqueued_since_sync: 1_000, ..at(ms) };
    let drain = Seg { row: DEVICE_SYNC, wait_ns: 400 * MS, ..bulk(180) };
    let other_stream = Seg { stream: 2, ..drain };
    let expected = [(1, 79 * MS, 85 * MS, 5 * MS), (2, 179 * MS, 180 * MS, 0)];
    check(TRAINING, &[bulk(80), drain, other_stream], &expected);
    // If the loop always waits for the device, that wait is part of each iteration.
    let each = Seg { row: DEVICE_SYNC, ..bulk(80) };
    let expected = [(1, 79 * MS, 85 * MS, 5 * MS), (1, 179 * MS, 580 * MS, 400 * MS)];
    check(TRAINING, &[each, drain], &expected);
}

/// Two devices with a thread each: the side stream of one ended first, and its step was joined to the other's.
#[test]
fn steps_of_two_threads_with_one_end_are_separate() {
    let first = Seg { row: DEVICE_SYNC, ..at(10) };
    // All of it was enqueued before the first thread's wait ended.
    let second = Seg {
        thread: 8,
        stream: 1,
        entry_ns: 14_995 * US,
        wait_ns: 10 * US,
        process_enqueued_since_sync: 0,
        ..first
    };
    let (side, main) = (Seg { enqueues: 1, ..second }, Seg { stream: 2, enqueues: 60, ..second });
    let expected = [(1, 9 * MS, 15 * MS, 5 * MS), (2, 13_995 * US, 15_005 * US, 10 * US)];
    check(Mode::Serving, &[first, side, main], &expected);
    // The same thread waited for the rest.
    let left = Seg { thread: 7, ..side };
    check(Mode::Serving, &[first, left], &[(2, 9 * MS, 15_005 * US, 5 * MS + 10 * US)]);
}

#[test]
fn an_iteration_without_its_bulk_is_left_over() {
    let bulk = Seg { process_enqueued_since_sync: 1_000, ..at(80) };
    let small = Seg { process_enqueued_since_sync: 3, ..at(101) };
    let mut bench = Bench::new(TRAINING);
    bench.push(&[bulk, small, small]);
    assert_eq!(bench.finish(), 2);
    assert_eq!(bench.out.len(), 1);
}

#[test]
fn a_process_may_change_from_serving_to_training_and_back() {
    let training = |k: u64| Seg {
        enqueues: 1_000,
        foreign: 600,
        process_enqueued_since_sync: 1_000,
        ..at(1_000 + k * 20)
    };
    let serving = |k: u64| Seg { entry_ns: (100_000 + k * 20) * MS, ..Seg::default() };
    let mut bench = Bench::new(Mode::Serving);
    bench.push(&(0..80).map(|k| at(10 + k)).collect::<Vec<_>>());
    assert_eq!(bench.assembler.mode, Mode::Serving);
    bench.push(&(0..160).map(training).collect::<Vec<_>>());
    assert!(matches!(bench.assembler.mode, Mode::Training { .. }));
    bench.push(&(0..160).map(serving).collect::<Vec<_>>());
    assert_eq!(bench.assembler.mode, Mode::Serving);
    let leftover = bench.finish();
    let joined: u32 = bench.out.iter().map(|row| row.0).sum();
    assert_eq!(u64::from(joined) + leftover, 80 + 160 + 160);
}

#[test]
fn an_undecided_process_defers_a_bounded_number_of_segments() {
    let unclear = |k: u64| Seg { enqueues: 10, process_enqueued_since_sync: 100 + k * k, ..at(10 + k * 10) };
    let mut bench = Bench::new(Mode::Undecided);
    let most = Joining::default().undecided_segments;
    bench.push(&(0..most as u64 - 1).map(unclear).collect::<Vec<_>>());
    assert_eq!((bench.assembler.deferred.len(), bench.out.len()), (most - 1, 0));
    bench.push(&[unclear(most as u64 - 1)]);
    assert_eq!((bench.assembler.deferred.len(), bench.assembler.deferred.capacity()), (0, 0));
    assert_eq!(bench.assembler.mode, Mode::Serving);
    assert_eq!(bench.out.len(), most - 1);
}

#[test]
fn the_parts_of_joined_segments_add_up() {
    let mut segments = [at(10).segment(), trailing(15_005).segment()];
    segments[0].record.run_queue.enqueue = 100;
    segments[0].record.run_queue.wait = 7;
    segments[1].record.run_queue.gap = 20;
    segments[1].record.run_queue.enqueue = 3;
    let mut group = Group::of(&segments[0]);
    group.join_later(&segments[1]);
    assert_eq!((group.increases[0].enqueue, group.increases[0].wait), (Some(123), Some(7)));
    assert_eq!(group.work.of(Counter::Enqueues), 102);
    // On another stream at the same time: the same thread waited once.
    segments[1].record.run_queue.enqueue = 90;
    let mut group = Group::of(&segments[0]);
    group.join_same_call(&segments[1]);
    assert_eq!((group.increases[0].enqueue, group.wait_ns), (Some(100), 5 * MS));
}

/// Returns a segment that the begin of the next iteration ended.
fn mark(entry_ms: u64) -> Seg {
    Seg { wait_ns: 0, flags: flag::ITERATION, enqueues: 1_000, ..at(entry_ms) }
}

fn assembled(segments: &[Segment]) -> Vec<Assembled> {
    let (mut assembler, mut out) = (Assembler::new(Joining::default()), Vec::new());
    segments.iter().for_each(|segment| assembler.push(segment, &mut out));
    assembler.finish(&mut out);
    out
}

#[test]
fn iterations_without_sync_calls_are_steps_with_inferred_ends() {
    let marks = [100, 200, 300, 400].map(|ms| mark(ms).segment());
    let found = assembled(&marks);
    assert_eq!(found.len(), 4);
    assert!(found.iter().all(|a| a.group.is_end_inferred && matches!(a.mode, Mode::Training { .. })));
}

#[test]
fn the_wait_for_the_loss_belongs_to_its_iteration() {
    let loss = |ms| {
        let mut segment = Seg { enqueues: 1, process_enqueued_since_sync: 1_001, ..at(ms) }.segment();
        segment.record.work[Counter::Launches as usize] = 0;
        segment.record.work[Counter::BytesFromDevice as usize] = 4;
        segment
    };
    let segments = [100, 200, 300].map(|ms| [mark(ms).segment(), loss(ms + 1)]).concat();
    let found: Vec<_> =
        assembled(&segments).iter().map(|a| (a.group.segments, a.group.is_end_inferred)).collect();
    assert_eq!(found, [(2, false); 3]);
}

#[test]
fn a_mark_of_a_process_that_serves_is_the_beginning_of_its_step() {
    let mut bench = Bench::new(Mode::Serving);
    bench.push(&[mark(10), Seg { enqueues: 50, ..at(20) }]);
    assert!(bench.assembler.marks.is_empty());
    let group = bench.assembler.pending[0];
    assert_eq!((group.segments, group.work.of(Counter::Enqueues), group.start_ns), (2, 1_050, 9 * MS));
}

/// Returns a segment of `enqueues` calls that copies a few bytes back, from `from_ms` to `to_ms`.
fn look_up(enqueues: u64, from_ms: u64, to_ms: u64) -> Segment {
    let mut segment = Seg { enqueues, wait_ns: 50 * US, ..at(to_ms) }.segment();
    segment.record.first_ns = from_ms * MS;
    segment.record.work[Counter::BytesFromDevice as usize] = 8;
    segment
}

#[test]
fn values_looked_up_belong_to_the_larger_work_around_them() {
    let steps = |segments: &[Segment]| -> Vec<u32> {
        let (mut assembler, mut out) = (Assembler::new(Joining::default()), Vec::new());
        assembler.mode = Mode::Serving;
        segments.iter().for_each(|segment| assembler.push(segment, &mut out));
        assembler.finish(&mut out);
        out.iter().map(|a| a.group.segments).collect()
    };
    let [first, second, pass] = [look_up(3, 10, 11), look_up(5, 12, 13), look_up(900, 14, 40)];
    assert_eq!(steps(&[first, second, pass]), [3], "before a pass");
    assert_eq!(steps(&[pass, look_up(5, 41, 42)]), [2], "after a pass");
    assert_eq!(steps(&[first, look_up(900, 60, 90)]), [1, 1], "with a gap");
    assert_eq!(steps(&[look_up(60, 10, 20), look_up(60, 21, 30)]), [1, 1], "passes of a small model");
}
