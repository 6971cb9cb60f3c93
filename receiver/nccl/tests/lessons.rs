//! Defects of published agents, as far as the analysis of NCCL can show them: each has a test of its name.

mod sim;

use nccl::functions::{Memory, of_symbol};
use nccl::hash::of_unique_id;
use nccl::observe::{Arguments, Function};
use nccl::{Finding, Observation, Operation, Settings};
use probe_abi::record::StreamKey;
use sim::{Job, MS, Rank, S, US, Watch, unique_id};

/// A published agent read `ncclUniqueId`, which C passes by value, as a pointer: rank, number of ranks and
/// communicator were 0 for every collective.
#[test]
fn rank_nranks_and_communicator_are_known_where_the_id_goes_by_value() {
    let row = of_symbol("ncclCommInitRankConfig").unwrap();
    assert!(row.has_id_by_value);
    // Arguments as C numbers them: comm*, nranks, id, rank, config*.
    let argument = |number| [0, 0x7ffd_0000, 16, u64::MAX, 5, 0x7ffe_0000][usize::from(number)];
    let memory = Memory { id: Some(Box::new(unique_id(3))), out: vec![0x5000], ..Memory::default() };
    let function = row.read(argument, |h| StreamKey::of(1, 1, h, false), memory).unwrap();
    let mut watch = Watch::new(Settings::default());
    let rank = Rank { handle: 0x5000, ..Rank::new(1000) };
    watch.see(rank.call(S, MS, function));
    watch.see(rank.all_reduce(2 * S, US));
    let enqueued = watch.findings.iter().find_map(|f| match f {
        Finding::Enqueued(e) => Some(e.who),
        _ => None,
    });
    let who = enqueued.unwrap();
    assert_eq!((who.rank.value, who.nranks.value), (Some(5), Some(16)));
    assert_eq!(who.communicator.hash, of_unique_id(&unique_id(3)));
}

/// Collectives had monotonic times and waits had wall-clock times: nothing ever matched, and tests with small
/// made-up numbers did not notice. Here both are of one clock; a closer of another one must not be believed.
#[test]
fn collectives_and_waits_match_on_the_clock_of_a_machine_that_is_up_for_a_year() {
    let mut watch = Watch::new(Settings::default());
    let mut job = Job::new(8, 1000, 1);
    job.now_ns = 365 * 86_400 * S + 123_456_789;
    job.init(&mut watch);
    job.play(&mut watch, |_| Some(0));
    assert_eq!(watch.completed().len(), 8);
    assert!(watch.completed().iter().all(|c| c.barrier_wait_ns < 10 * MS));
}

/// The entry of a wait was taken for its end: the wait was charged to the next step.
#[test]
fn a_wait_ends_where_the_closer_returns() {
    let mut watch = Watch::new(Settings::default());
    let rank = Rank::new(1000);
    watch.see(rank.init(S / 2, S / 2 + MS, 1, 0, unique_id(1)));
    for n in 0..10 {
        let at_ns = S + n * 100 * MS;
        watch.see(rank.all_reduce(at_ns, 10 * US));
        // Long and short waits in turn.
        watch.see(rank.sync(at_ns + 20 * US, at_ns + if n % 2 == 0 { 50 * MS } else { 5 * MS }));
    }
    let waits: Vec<u64> = watch.completed().iter().map(|c| c.barrier_wait_ns + 10 * US).collect();
    assert_eq!(waits, [50 * MS, 5 * MS].repeat(5));
}

/// Element counts were exported as bytes.
#[test]
fn bytes_are_elements_times_the_size_of_the_datatype() {
    let mut watch = Watch::new(Settings::default());
    let rank = Rank::new(1000);
    watch.see(rank.init(S / 2, S / 2 + MS, 1, 0, unique_id(1)));
    for (datatype, size) in [(6, Some(2)), (7, Some(4)), (8, Some(8)), (10, Some(1)), (99, None)] {
        let arguments = Arguments { datatype, count: 1000, ..rank.arguments(Operation::AllGather) };
        watch.see(rank.call(S, US, Function::Operation(arguments)));
        let bytes = watch.findings.iter().rev().find_map(|f| match f {
            Finding::Enqueued(e) => Some(e.bytes),
            _ => None,
        });
        assert_eq!(bytes, Some(size.map(|size: u64| 1000 * size)), "{datatype}");
    }
    assert_eq!(watch.engine.tally().sizes_unknown, 1);
}

/// One entry slot a thread was overwritten by a probed call inside a probed call: `ncclBcast` calls
/// `ncclBroadcast`.
#[test]
fn a_broadcast_within_a_bcast_is_one_collective() {
    let mut watch = Watch::new(Settings::default());
    let rank = Rank::new(1000);
    watch.see(rank.init(S / 2, S / 2 + MS, 1, 0, unique_id(1)));
    for n in 0..3 {
        let at_ns = S + n * MS;
        let broadcast = || Function::Operation(rank.arguments(Operation::Broadcast));
        watch.see(rank.call(at_ns + US, 5 * US, broadcast()));
        watch.see(rank.call(at_ns, 7 * US, broadcast()));
    }
    let tally = watch.engine.tally();
    assert_eq!((tally.operations, tally.nested), (3, 3));
}

/// Loss was counted nowhere. Where the source counts, a lost collective is known exactly, and the numbers after it
/// are right.
#[test]
fn a_lost_collective_is_counted_and_shifts_no_later_one() {
    let mut watch = Watch::new(Settings::default());
    let mut job = Job::new(4, 1000, 1);
    job.init(&mut watch);
    for n in 0..30 {
        let mut round = job.round(|_| Some(0));
        for observation in &mut round {
            if let Observation::Call(call) = observation
                && let Function::Operation(arguments) = &mut call.function
            {
                arguments.ordinal = Some(n);
            }
        }
        // Rank 2's tenth and eleventh never reach us.
        let of_two = |o: &Observation| matches!(o, Observation::Call(c) if c.process.pid == 1002);
        round.retain(|o| !((n == 10 || n == 11) && of_two(o)));
        watch.see_all(round);
        if n == 11 {
            watch.see(Observation::Lost { at_ns: job.now_ns, count: 2 });
        }
    }
    let tally = watch.engine.tally();
    assert_eq!((tally.collectives_lost, tally.records_lost), (2, 2));
    assert_eq!((tally.rounds, tally.rounds_given_up), (28, 2));
    assert!(watch.engine.ranks().all(|r| r.seq == 30));
    assert!(watch.arrived().iter().all(|a| a.skew_ns < MS), "collectives of one number belong together");
    watch.check_balance();
}

/// The same where the source does not count: nothing is claimed until causality shows which belong together.
#[test]
fn after_an_unknown_loss_nothing_is_compared_until_it_is_known_what_belongs_together() {
    for (waits, late_ms) in [(true, 0), (true, 8), (false, 0)] {
        let mut watch = Watch::new(Settings::default());
        let mut job = Job::new(4, 1000, 1);
        job.init(&mut watch);
        for n in 0..60 {
            let mut round = job.round(|rank| Some(if rank == 1 { late_ms * MS } else { 0 }));
            let of_two = |o: &Observation| matches!(o, Observation::Call(c) if c.process.pid == 1002);
            round.retain(|o| (n != 10 || !of_two(o)) && (waits || matches!(o, Observation::Call(_))));
            watch.see_all(round);
            if n == 10 {
                watch.see(Observation::Lost { at_ns: job.now_ns, count: 1 });
            }
        }
        let after: Vec<u64> = watch.arrived().iter().filter(|a| a.seq > 10).map(|a| a.skew_ns / MS).collect();
        assert!(after.iter().all(|ms| ms.abs_diff(late_ms) <= 1), "{after:?}");
        assert_eq!(after.len() > 30, waits, "{} compared", after.len());
        // Numbers are those of before the loss: the rank that lost none keeps its own.
        let numbers: Vec<u64> = watch.engine.ranks().map(|r| r.seq).collect();
        assert_eq!(numbers, if waits { [60, 60, 60, 60] } else { [60, 60, 59, 60] });
    }
}

/// Thread ids were taken for process ids. A process with many threads is one rank, whoever calls.
#[test]
fn many_threads_of_a_process_are_one_rank() {
    let mut watch = Watch::new(Settings::default());
    let rank = Rank::new(1000);
    watch.see(rank.init(S / 2, S / 2 + MS, 1, 0, unique_id(1)));
    (0..100).for_each(|n| watch.see(Rank { tid: 5000 + n, ..rank }.all_reduce(S + u64::from(n) * MS, US)));
    let ranks: Vec<_> = watch.engine.ranks().map(|r| (r.seq, r.who.tid)).collect();
    assert_eq!(ranks, [(100, 5099)]);
}
