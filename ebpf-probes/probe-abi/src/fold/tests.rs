//! Folds of schedules as real engines make them.

extern crate std;
use proptest::prelude::*;

use super::*;
use crate::record::{CountParts, NOT_SEEN, StepRecord, flag};
use crate::thread_counter::THREAD_COUNTERS;

fn at(ns: u64) -> Stamp {
    Stamp { ns, counts: [ns / 10; THREAD_COUNTERS], tid: 7 }
}

fn launch(fold: &StreamFold, ns: u64, threads: u64) {
    if fold.is_segment_empty() {
        fold.begin(&at(ns));
    }
    fold.launch(7, &Enqueue { threads, identity: 0x1000, bytes: 0, lane: 4 });
}

const KEY: StreamKey = StreamKey { pid: 5, tid: 0, stream: 0x100 };

fn close(fold: &StreamFold, snapshot: &Snapshot, enter: u64, exit: u64) -> Option<StepRecord> {
    let mut out = StepRecord::default();
    fold.closes(snapshot).then(|| fold.close(snapshot, &at(enter), &at(exit), &mut out)).map(|()| out)
}

fn sync(fold: &StreamFold, enter: u64, exit: u64) -> Option<StepRecord> {
    close(fold, &record(fold, 0), enter, exit)
}

fn event_sync(fold: &StreamFold, event: &Snapshot, enter: u64, exit: u64) -> Option<StepRecord> {
    fold.enter(event);
    close(fold, event, enter, exit)
}

fn record(fold: &StreamFold, ns: u64) -> Snapshot {
    let snapshot = Snapshot::default();
    fold.snapshot(&KEY, ns, &snapshot);
    snapshot
}

fn launches(step: &StepRecord) -> u64 {
    step.work[Counter::Launches as usize]
}

#[test]
fn a_step_is_the_work_since_the_last_sync_call() {
    let fold = StreamFold::default();
    launch(&fold, 10, 100);
    launch(&fold, 20, 50);
    let step = sync(&fold, 30, 90).unwrap();
    assert_eq!((launches(&step), step.work[Counter::Threads as usize]), (2, 150));
    assert_eq!((step.first_ns, step.previous_exit_ns, step.sequence), (10, 0, 0));
    assert_eq!(step.run_queue, CountParts { gap: NOT_SEEN, enqueue: 2, wait: 6 });
    launch(&fold, 100, 1);
    let step = sync(&fold, 110, 120).unwrap();
    assert_eq!((launches(&step), step.first_ns, step.previous_exit_ns, step.sequence), (1, 100, 90, 1));
    assert_eq!(step.run_queue.gap, 1);
}

#[test]
fn a_sync_call_without_work_is_an_idle_poll() {
    let fold = StreamFold::default();
    assert!(sync(&fold, 1, 2).is_none());
    launch(&fold, 3, 1);
    let event = record(&fold, 4);
    assert!(sync(&fold, 5, 6).is_some());
    assert!(sync(&fold, 7, 8).is_none());
    assert!(event_sync(&fold, &event, 9, 10).is_none(), "a later sync_call covered it already");
}

#[test]
fn work_enqueued_ahead_belongs_to_the_next_step() {
    let fold = StreamFold::default();
    let mut events = std::vec::Vec::new();
    for step in 0..20u64 {
        let t = step * 100;
        for k in 0..=step {
            launch(&fold, t + 1 + k, 10);
        }
        events.push(record(&fold, t + 50));
        if step > 0 {
            // Asynchronous scheduling: this step is enqueued before the previous one is awaited.
            let done = event_sync(&fold, &events[step as usize - 1], t + 60, t + 70).unwrap();
            assert_eq!(launches(&done), step, "launches of step {}", step - 1);
            assert_eq!(done.first_ns, (step - 1) * 100 + 1);
            assert_eq!(done.recorded_ns, (step - 1) * 100 + 50);
            assert_eq!(done.header.flags & flag::FIRST_UNKNOWN, 0);
        }
    }
}

#[test]
fn unawaited_events_do_not_hide_the_first_enqueue() {
    let fold = StreamFold::default();
    for k in 0..10 {
        launch(&fold, 10 + k, 1);
        record(&fold, 10 + k);
    }
    let step = sync(&fold, 100, 110).unwrap();
    assert_eq!((launches(&step), step.first_ns, step.header.flags), (10, 10, 0));
}

/// A DDP iteration records hundreds of events and waits once. When only the last segments were stored, the iteration
/// seemed to begin in the middle of its backward pass.
#[test]
fn first_enqueue_is_known_after_hundreds_of_records() {
    let fold = StreamFold::default();
    for step in 0..3u64 {
        let began = 1_000 * (step + 1);
        for k in 0..100 {
            launch(&fold, began + k, 1);
            record(&fold, began + k);
        }
        let step = sync(&fold, began + 500, began + 510).unwrap();
        assert_eq!((launches(&step), step.first_ns, step.header.flags), (100, began, 0));
    }
}

#[test]
fn a_first_enqueue_older_than_all_segments_is_unknown() {
    let fold = StreamFold::default();
    launch(&fold, 1, 1);
    let event = record(&fold, 2);
    for k in 0..40 {
        launch(&fold, 10 + k, 1);
        record(&fold, 10 + k);
    }
    assert_eq!(event_sync(&fold, &event, 100, 110).unwrap().header.flags, flag::AHEAD);
    let step = sync(&fold, 120, 130).unwrap();
    assert_eq!((launches(&step), step.header.flags), (40, flag::FIRST_UNKNOWN));
    assert!((10..50).contains(&step.first_ns));
}

#[test]
fn work_enqueued_during_another_threads_wait_is_not_in_its_step() {
    let fold = StreamFold::default();
    launch(&fold, 1, 1);
    let snapshot = record(&fold, 0);
    launch(&fold, 5, 1);
    assert_eq!(launches(&close(&fold, &snapshot, 2, 9).unwrap()), 1);
    let next = sync(&fold, 10, 11).unwrap();
    assert_eq!((launches(&next), next.first_ns), (1, 5));
}

#[test]
fn enqueued_since_sync_counts_from_the_previous_return() {
    let fold = StreamFold::default();
    launch(&fold, 1, 1);
    let first = record(&fold, 2);
    launch(&fold, 3, 1);
    let second = record(&fold, 4);
    assert_eq!(event_sync(&fold, &first, 5, 6).unwrap().enqueued_since_sync, 2);
    assert_eq!(event_sync(&fold, &second, 7, 8).unwrap().enqueued_since_sync, 0);
}

/// The snapshot of a wait was stored in the stream: a second thread that waited for less made the first one's step its
/// own, and the remaining work fell to the next.
#[test]
fn two_waits_at_once_end_what_each_covers() {
    let fold = StreamFold::default();
    launch(&fold, 1, 1);
    let less = record(&fold, 2);
    launch(&fold, 3, 1);
    let more = record(&fold, 4);
    launch(&fold, 5, 1);
    assert_eq!(launches(&event_sync(&fold, &more, 6, 9).unwrap()), 2);
    assert!(event_sync(&fold, &less, 7, 10).is_none());
    assert_eq!(launches(&sync(&fold, 11, 12).unwrap()), 1);
}

#[test]
fn segments_without_work_do_not_hide_the_first_enqueue() {
    let fold = StreamFold::default();
    launch(&fold, 1, 1);
    let event = record(&fold, 2);
    launch(&fold, 3, 1);
    for k in 0..40 {
        record(&fold, 4 + k);
    }
    event_sync(&fold, &event, 50, 51).unwrap();
    let step = sync(&fold, 60, 61).unwrap();
    assert_eq!((step.first_ns, step.header.flags), (3, 0));
}

/// The counters began at 0 again, and an event of the destroyed stream ended more than there was.
#[test]
fn events_of_a_destroyed_stream_end_nothing_of_its_successor() {
    let (gone, back) = (StreamFold::default(), StreamFold::default());
    (1..9).for_each(|ns| launch(&gone, ns, 1));
    let event = record(&gone, 9);
    launch(&back, 20, 1);
    assert!(event_sync(&back, &event, 30, 40).is_none());
    assert_eq!(launches(&sync(&back, 50, 60).unwrap()), 1);
}

#[test]
fn steps_are_flagged_when_more_was_enqueued_ahead() {
    for (behind, flags) in [(0, 0), (1, flag::AHEAD), (90, flag::AHEAD)] {
        let fold = StreamFold::default();
        (1..3).for_each(|ns| launch(&fold, ns, 1));
        let event = record(&fold, 3);
        (0..behind).for_each(|k| launch(&fold, 10 + k, 1));
        assert_eq!(event_sync(&fold, &event, 100, 101).unwrap().header.flags, flags, "{behind} behind 2");
    }
}

#[test]
fn streams_that_wait_for_a_captured_event_join_the_capture() {
    let (origin, side) = (StreamFold::default(), StreamFold::default());
    origin.begin_capture(7, 0, None);
    let event = Snapshot::default();
    origin.snapshot_capture(&KEY, &event);
    assert!(event.is_empty());
    side.join_capture(&event);
    assert!(side.is_capturing() && side.joined(5) == Some(KEY) && side.is_joined_to(&origin));
    // An event of the side stream makes another stream join the same capture.
    let other = Snapshot::default();
    side.snapshot_capture(&StreamKey { stream: 0x200, ..KEY }, &other);
    assert!(other.is_of(&KEY));
    origin.join_capture(&other);
    assert_eq!(origin.joined(5), None, "it is its own");
    origin.end_capture();
    assert!(!side.is_joined_to(&origin));
    origin.begin_capture(7, 0, None);
    assert!(!side.is_joined_to(&origin), "another capture");
}

#[test]
fn a_second_thread_that_enqueues_is_foreign() {
    let fold = StreamFold::default();
    launch(&fold, 1, 1);
    fold.launch(8, &Enqueue::default());
    assert_eq!(sync(&fold, 2, 3).unwrap().work[Counter::Foreign as usize], 1);
}

/// Every bucket of a backward pass records an event. Compared with the thread that began the segment, none of its work
/// was foreign, and a DDP training loop looked like an inference loop.
#[test]
fn a_second_thread_that_records_events_stays_foreign() {
    let fold = StreamFold::default();
    launch(&fold, 1, 1);
    sync(&fold, 2, 3).unwrap();
    launch(&fold, 4, 1);
    for k in 0..3 {
        record(&fold, 5 + k);
        fold.begin(&Stamp { tid: 8, ..at(5 + k) });
        fold.launch(8, &Enqueue::default());
    }
    let step = sync(&fold, 10, 11).unwrap();
    assert_eq!((launches(&step), step.work[Counter::Foreign as usize]), (4, 3));
}

#[test]
fn equal_sets_of_kernels_have_equal_fingerprints() {
    let print = |order: &[u64]| {
        let fold = StreamFold::default();
        fold.begin(&at(1));
        for f in order {
            fold.launch(7, &Enqueue { threads: 1, identity: *f, ..Enqueue::default() });
        }
        sync(&fold, 2, 3).unwrap().work[Counter::Functions as usize]
    };
    assert_eq!(print(&[1, 2, 3]), print(&[3, 1, 2]));
    assert_ne!(print(&[1, 2, 3]), print(&[1, 2, 4]));
}

#[derive(Clone, Debug)]
enum Op {
    Launch(u64),
    Record,
    SyncEvent(usize),
    SyncStream,
}

fn ops() -> impl Strategy<Value = std::vec::Vec<Op>> {
    let op = prop_oneof![
        4 => (1u64..1000).prop_map(Op::Launch),
        2 => Just(Op::Record),
        2 => (0usize..8).prop_map(Op::SyncEvent),
        1 => Just(Op::SyncStream),
    ];
    prop::collection::vec(op, 1..200)
}

proptest! {
    /// In any schedule, no launch is counted twice or lost, and steps do not overlap backwards.
    #[test]
    fn every_launch_is_in_exactly_one_step(ops in ops()) {
        let fold = StreamFold::default();
        let (mut events, mut threads, mut counted, mut now) = (std::vec::Vec::new(), 0u64, 0u64, 0u64);
        for op in ops {
            now += 10;
            let step = match op {
                Op::Launch(n) => { launch(&fold, now, n); threads += n; None }
                Op::Record => { events.push(record(&fold, now)); None }
                Op::SyncEvent(back) => events.iter().rev().nth(back).and_then(|e| event_sync(&fold, e, now, now + 5)),
                Op::SyncStream => sync(&fold, now, now + 5),
            };
            if let Some(step) = step {
                counted += step.work[Counter::Threads as usize];
                prop_assert!(step.first_ns <= now);
                prop_assert!(launches(&step) > 0);
            }
        }
        if let Some(step) = sync(&fold, now + 10, now + 20) {
            counted += step.work[Counter::Threads as usize];
        }
        prop_assert_eq!(counted, threads);
    }
}

/// Launches of the forward pass by thread 7, or of the backward pass by thread 9.
fn launch_part(fold: &StreamFold, ns: u64, tid: u32, count: u64) {
    for _ in 0..count {
        if fold.is_segment_empty() {
            fold.begin(&Stamp { tid, ..at(ns) });
        }
        fold.launch(tid, &Enqueue::default());
    }
}

#[test]
fn an_iteration_begins_when_the_first_thread_goes_on() {
    let fold = StreamFold::default();
    launch_part(&fold, 1, 7, PART_MIN);
    assert!(!fold.begins_iteration(7), "no backward pass yet");
    record(&fold, 2);
    launch_part(&fold, 3, 9, PART_MIN);
    assert!(!fold.begins_iteration(9), "the backward pass goes on");
    assert!(fold.begins_iteration(7));
    let step = sync(&fold, 4, 4).unwrap();
    assert_eq!(
        step.work[Counter::Foreign as usize],
        PART_MIN,
        "an event does not change whose work is foreign"
    );
    assert!(!fold.begins_iteration(7), "nothing was enqueued since");
    launch_part(&fold, 5, 9, PART_MIN);
    launch_part(&fold, 6, 7, PART_MIN - 1);
    assert!(!fold.begins_iteration(7), "too little of the first thread");
}

#[test]
fn an_iteration_of_one_graph_begins_with_its_next_launch() {
    let (fold, graph) = (StreamFold::default(), Contents::default());
    (0..PART_MIN).for_each(|_| graph.launch(true, &Enqueue::default()));
    fold.begin(&at(1));
    assert!(!fold.begins_captured_iteration(|| Some(&graph)) && !fold.begins_captured_iteration(|| None));
    fold.launch_graph(7, &Enqueue::default(), Some(&graph));
    assert!(fold.begins_captured_iteration(|| Some(&graph)));
}
