//! Tests of which sync call covers which collective, and of the rank's wait time, for the call sequences of current
//! programs.

mod sim;

use event::ExitStatus;
use nccl::observe::{Arguments, Function, NcclCall, StreamAction};
use nccl::{Observation, Operation, Settings};
use probe_abi::record::StreamKey;
use sim::{Job, MS, Rank, S, US, Watch, unique_id};

/// Returns rank 0 of a communicator with one rank.
fn alone() -> (Watch, Rank) {
    let mut watch = Watch::new(Settings::default());
    let rank = Rank::new(1000);
    watch.see(rank.init(S / 2, S / 2 + MS, 1, 0, unique_id(1)));
    (watch, rank)
}

/// Checks sequence number, issue gap and wait of each completed collective, the last two in microseconds.
#[track_caller]
fn check(watch: &Watch, expected: &[(u64, u64, u64)]) {
    let found: Vec<_> =
        watch.completed().iter().map(|c| (c.op.seq, c.issue_gap_ns / US, c.wait_ns / US)).collect();
    assert_eq!(found, expected);
    for c in watch.completed() {
        assert_eq!(c.barrier_wait_ns, c.issue_gap_ns + c.wait_ns);
        assert_eq!(c.end_ns - c.op.enqueued_ns, c.barrier_wait_ns);
    }
    watch.check_balance();
}

fn at(us: u64) -> u64 {
    S + us * US
}

fn on(rank: &Rank, stream: StreamKey, us: u64) -> Observation {
    let arguments = Arguments { stream, ..rank.arguments(Operation::AllReduce) };
    rank.call(at(us), 10 * US, Function::Operation(arguments))
}

#[test]
fn stream_wait_covers_only_earlier_operations() {
    let (mut watch, rank) = alone();
    watch.see(rank.all_reduce(at(0), 10 * US));
    watch.see(rank.all_reduce(at(20), 10 * US));
    watch.see(rank.sync(at(100), at(600)));
    watch.see(rank.all_reduce(at(700), 10 * US));
    check(&watch, &[(0, 90, 500), (1, 70, 500)]);
    assert_eq!(watch.engine.outstanding(), 1);
}

/// The wait for an operation that began before all libraries were probed may have ended unseen.
#[test]
fn wait_for_an_unarmed_operation_is_counted_and_not_reported() {
    let (mut watch, rank) = alone();
    let unarmed = Arguments { is_unarmed: true, ..rank.arguments(Operation::AllReduce) };
    watch.see(rank.call(at(0), 10 * US, Function::Operation(unarmed)));
    watch.see(rank.all_reduce(at(20), 10 * US));
    watch.see(rank.sync(at(100), at(600)));
    check(&watch, &[(1, 70, 500)]);
    assert_eq!(watch.engine.tally().waits_unarmed, 1);
}

#[test]
fn wait_does_not_cover_operations_enqueued_during_it() {
    let (mut watch, rank) = alone();
    let other = Rank { tid: 1001, ..rank };
    watch.see(rank.all_reduce(at(0), 10 * US));
    watch.see(other.all_reduce(at(200), 10 * US));
    watch.see(rank.sync(at(100), at(600)));
    check(&watch, &[(0, 90, 500)]);
    watch.see(rank.sync(at(700), at(800)));
    check(&watch, &[(0, 90, 500), (1, 490, 100)]);
}

#[test]
fn event_covers_operations_enqueued_before_its_record() {
    let (mut watch, rank) = alone();
    watch.see(rank.all_reduce(at(0), 10 * US));
    watch.see(rank.stream(at(20), US, StreamAction::Record(0xe1, rank.key())));
    watch.see(rank.all_reduce(at(30), 10 * US));
    watch.see(rank.stream(at(100), 500 * US, StreamAction::EventSync(0xe1)));
    check(&watch, &[(0, 90, 500)]);
    // The event wait from a source that resolves events itself.
    watch.see(rank.stream(at(700), 50 * US, StreamAction::SyncUntil(rank.key(), at(35))));
    check(&watch, &[(0, 90, 500), (1, 660, 50)]);
}

#[test]
fn event_wait_uses_the_record_before_the_wait() {
    let (mut watch, rank) = alone();
    let other = Rank { tid: 1001, ..rank };
    watch.see(rank.all_reduce(at(0), 10 * US));
    watch.see(rank.stream(at(20), US, StreamAction::Record(0xe1, rank.key())));
    watch.see(other.all_reduce(at(200), 10 * US));
    watch.see(other.stream(at(220), US, StreamAction::Record(0xe1, rank.key())));
    watch.see(rank.stream(at(100), 500 * US, StreamAction::EventSync(0xe1)));
    check(&watch, &[(0, 90, 500)]);
}

#[test]
fn wait_for_an_unknown_event_covers_nothing_and_is_counted() {
    let (mut watch, rank) = alone();
    watch.see(rank.all_reduce(at(0), 10 * US));
    watch.see(rank.stream(at(100), 500 * US, StreamAction::EventSync(0xe1)));
    check(&watch, &[]);
    assert_eq!(watch.engine.tally().events_unknown, 1);
}

#[test]
fn device_wait_covers_all_streams_of_one_process() {
    let (mut watch, rank) = alone();
    let other = Rank::new(2000);
    watch.see(other.init(S / 2, S / 2 + MS, 1, 0, unique_id(2)));
    watch.see(rank.all_reduce(at(0), 10 * US));
    watch.see(on(&rank, StreamKey::of(1000, 1000, 0x99, false), 20));
    watch.see(other.all_reduce(at(20), 10 * US));
    watch.see(rank.stream(at(100), 500 * US, StreamAction::DeviceSync));
    check(&watch, &[(0, 90, 500), (1, 70, 500)]);
}

/// PyTorch never waits for its NCCL stream. The compute stream waits for an event, and the host waits for the compute
/// stream.
#[test]
fn stream_wait_covers_streams_it_waits_for() {
    let (mut watch, rank) = alone();
    let compute = StreamKey::of(1000, 1000, 0, false);
    watch.see(rank.all_reduce(at(0), 10 * US));
    watch.see(rank.stream(at(20), US, StreamAction::Record(0xe1, rank.key())));
    watch.see(rank.stream(at(30), US, StreamAction::WaitEvent(compute, 0xe1)));
    watch.see(rank.all_reduce(at(40), 10 * US));
    watch.see(rank.stream(at(100), 500 * US, StreamAction::Sync(compute)));
    check(&watch, &[(0, 90, 500)]);
    // An edge is followed once: the second collective was enqueued after the event.
    watch.see(rank.stream(at(700), 100 * US, StreamAction::Sync(compute)));
    check(&watch, &[(0, 90, 500)]);
}

#[test]
fn earlier_event_does_not_cover_a_stream_awaited_later() {
    let (mut watch, rank) = alone();
    let compute = StreamKey::of(1000, 1000, 0, false);
    watch.see(rank.stream(at(0), US, StreamAction::Record(0xe2, compute)));
    watch.see(rank.all_reduce(at(5), 10 * US));
    watch.see(rank.stream(at(20), US, StreamAction::Record(0xe1, rank.key())));
    watch.see(rank.stream(at(30), US, StreamAction::WaitEvent(compute, 0xe1)));
    watch.see(rank.stream(at(100), 500 * US, StreamAction::EventSync(0xe2)));
    check(&watch, &[]);
    watch.see(rank.stream(at(700), 100 * US, StreamAction::Sync(compute)));
    check(&watch, &[(0, 685, 100)]);
}

#[test]
fn default_streams_per_thread_are_distinct() {
    let (mut watch, rank) = alone();
    watch.see(on(&rank, StreamKey::of(1000, 1000, 0, true), 0));
    watch.see(on(&rank, StreamKey::of(1000, 1001, 0, true), 20));
    watch.see(rank.stream(at(100), 500 * US, StreamAction::Sync(StreamKey::of(1000, 1001, 2, false))));
    check(&watch, &[(1, 70, 500)]);
}

#[test]
fn group_work_begins_at_the_outermost_end() {
    let (mut watch, rank) = alone();
    watch.see(rank.call(at(0), US, Function::GroupStart));
    watch.see(rank.call(at(2), US, Function::GroupStart));
    watch.see(rank.all_reduce(at(10), 10 * US));
    watch.see(rank.call(at(30), US, Function::GroupEnd));
    // A wait inside the group covers none of its calls.
    watch.see(rank.sync(at(40), at(50)));
    watch.see(rank.call(at(60), 40 * US, Function::GroupEnd));
    assert_eq!(watch.engine.outstanding(), 1);
    watch.see(rank.sync(at(150), at(650)));
    check(&watch, &[(0, 50, 500)]);
    let completed = watch.completed();
    assert_eq!((completed[0].op.enqueue_ns, completed[0].op.arrival_ns), (10 * US, at(60)));
}

#[test]
fn failed_group_enqueues_and_numbers_nothing() {
    let (mut watch, rank) = alone();
    watch.see(rank.call(at(0), US, Function::GroupStart));
    watch.see(rank.all_reduce(at(10), 10 * US));
    let Observation::Call(end) = rank.call(at(60), 40 * US, Function::GroupEnd) else { unreachable!() };
    watch.see(Observation::Call(NcclCall { result: 5, ..end }));
    watch.see(rank.all_reduce(at(200), 10 * US));
    watch.see(rank.sync(at(300), at(400)));
    check(&watch, &[(0, 90, 100)]);
    assert_eq!(watch.engine.tally().failed, 1);
}

/// In a CUDA graph the NCCL stream joins the capture by waiting for an event of the capturing stream.
#[test]
fn captured_collectives_are_counted_once_without_replays() {
    let (mut watch, rank) = alone();
    let compute = StreamKey::of(1000, 1000, 0x55, false);
    watch.see(rank.stream(at(0), US, StreamAction::BeginCapture(compute)));
    watch.see(rank.stream(at(5), US, StreamAction::Record(0xe1, compute)));
    watch.see(rank.stream(at(8), US, StreamAction::WaitEvent(rank.key(), 0xe1)));
    // The source counts captured collectives like any other.
    let nth = |mut call: Observation, n| {
        if let Observation::Call(NcclCall { function: Function::Operation(arguments), .. }) = &mut call {
            arguments.ordinal = Some(n);
        }
        call
    };
    watch.see(nth(rank.all_reduce(at(10), 10 * US), 0));
    watch.see(rank.stream(at(30), US, StreamAction::Record(0xe2, rank.key())));
    watch.see(rank.stream(at(33), US, StreamAction::WaitEvent(compute, 0xe2)));
    watch.see(rank.stream(at(40), US, StreamAction::EndCapture(compute)));
    watch.see(rank.sync(at(100), at(600)));
    check(&watch, &[]);
    let is_captured = |f: &nccl::Finding| matches!(f, nccl::Finding::Enqueued(e) if e.is_captured);
    assert_eq!((watch.engine.tally().captured, watch.count(is_captured)), (1, 1));
    // After the capture the stream works normally, and the capture used no numbers.
    watch.see(nth(rank.all_reduce(at(700), 10 * US), 1));
    watch.see(rank.sync(at(800), at(900)));
    check(&watch, &[(0, 90, 100)]);
    assert_eq!(watch.engine.tally().collectives_lost, 0);
}

#[test]
fn skew_and_waits_match_the_script() {
    let mut watch = Watch::new(Settings::default());
    let mut job = Job::new(8, 1000, 3);
    job.init(&mut watch);
    let start_ns = job.now_ns;
    let round = job.round(|rank| Some(rank as u64 * MS));
    let calls = |o: &Observation| match o {
        Observation::Call(call) => Some(call.entry_ns),
        _ => None,
    };
    let entries: Vec<u64> = round.iter().filter_map(calls).collect();
    let skew_ns = entries.iter().max().unwrap() - entries.iter().min().unwrap();
    watch.see_all(round);
    let arrived = watch.arrived();
    assert_eq!((arrived.len(), arrived[0].ranks, arrived[0].skew_ns), (1, 8, skew_ns));
    assert_eq!(arrived[0].last.rank.value, Some(7));
    for completed in watch.completed() {
        let rank = completed.who.rank.value.unwrap() as usize;
        assert_eq!(completed.skew_ns, Some(skew_ns));
        assert_eq!(completed.behind_first_ns, Some(entries[rank] - entries.iter().min().unwrap()));
        assert!(completed.op.arrival_ns >= start_ns);
    }
    assert_eq!(watch.completed().len(), 8);
}

#[test]
fn operations_never_waited_for_are_bounded_and_counted() {
    let settings = Settings { pending_max: 16, expiry_ns: S, ..Settings::default() };
    let mut watch = Watch::new(settings);
    let rank = Rank::new(1000);
    watch.see(rank.init(S / 2, S / 2 + MS, 1, 0, unique_id(1)));
    (0..100).for_each(|n| watch.see(rank.all_reduce(at(20 * n), 10 * US)));
    assert_eq!((watch.engine.outstanding(), watch.engine.tally().evicted), (16, 84));
    watch.see(Observation::Tick { at_ns: 3 * S });
    assert_eq!((watch.engine.outstanding(), watch.engine.tally().expired), (0, 16));
    watch.check_balance();
}

/// Returns a job of two ranks in which the second arrives 20 ms late and its call is observed 30 us after the first
/// rank's wait.
fn late_call() -> (Watch, Rank) {
    let mut watch = Watch::new(Settings::default());
    let (first, second) = (Rank::new(1000), Rank::new(1001));
    for (rank, of) in [first, second].iter().enumerate() {
        watch.see(of.init(S / 2, S / 2 + MS, 2, rank, unique_id(1)));
    }
    watch.see(first.all_reduce(S, 10 * US));
    watch.see(first.sync(S + 20 * US, S + 20 * MS + 30 * US));
    assert!(watch.completed().is_empty(), "who was waited for is not known yet");
    (watch, second)
}

#[test]
fn wait_observed_before_the_late_call_has_its_skew() {
    let (mut watch, second) = late_call();
    watch.see(second.all_reduce(S + 20 * MS, 60 * US));
    watch.see(second.sync(S + 21 * MS, S + 22 * MS));
    let skews: Vec<_> = watch.completed().iter().map(|c| (c.skew_ns, c.behind_first_ns)).collect();
    assert_eq!(skews, [(Some(20 * MS), Some(0)), (Some(20 * MS), Some(20 * MS))]);
    let traced: Vec<_> = watch.completed().iter().map(|c| c.trace.map(|t| t.ids.trace_id)).collect();
    assert!(traced[0].is_some() && traced[0] == traced[1], "{traced:?}");
    watch.check_balance();
}

#[test]
fn wait_is_reported_without_the_late_call() {
    let (mut watch, second) = late_call();
    watch.see(Observation::Tick { at_ns: S + 200 * MS });
    assert_eq!(watch.completed().len(), 1);
    assert_eq!(watch.completed()[0].skew_ns, None);
    for end in [true, false] {
        let (mut watch, _) = late_call();
        match end {
            true => watch.engine.finish(&mut watch.findings),
            false => {
                let process = Rank::new(1000).process;
                watch.see(Observation::Exit { process, at_ns: S + 21 * MS, status: ExitStatus::Unknown });
            }
        }
        assert_eq!(watch.completed().len(), 1, "{second:?}");
    }
}
