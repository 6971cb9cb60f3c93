//! Regression tests against defects of published agents that the analysis of NCCL can show.

mod sim;

use nccl::functions::{CallMemory, read};
use nccl::hash::of_unique_id;
use nccl::observe::{Arguments, Function};
use nccl::{Finding, Observation, Operation, Settings};
use probe_abi::PROBES;
use probe_abi::record::StreamKey;
use sim::{Job, MS, Rank, S, US, Watch, unique_id};

/// A published agent read `ncclUniqueId`, which C passes by value, as a pointer: rank, number of ranks and
/// communicator were 0 for every collective.
#[test]
fn id_by_value_gives_rank_nranks_and_communicator() {
    let probe = PROBES.iter().find(|probe| probe.symbol == "ncclCommInitRankConfig").unwrap();
    assert!(probe.wiring.args.by_value);
    // Arguments as C numbers them: comm*, nranks, id, rank, config*.
    let argument = |number| [0, 0x7ffd_0000, 16, u64::MAX, 5, 0x7ffe_0000][usize::from(number)];
    let memory = CallMemory { id: Some(Box::new(unique_id(3))), out: vec![0x5000], ..CallMemory::default() };
    let function = read(&probe.wiring.args, argument, |h| StreamKey::of(1, 1, h, false), memory).unwrap();
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

/// A published agent had monotonic times for collectives and wall-clock times for waits, so nothing ever matched; tests
/// with small made-up numbers did not notice. Here both use one clock; a sync call of another clock is rejected.
#[test]
fn collectives_match_waits_after_a_year_of_uptime() {
    let mut watch = Watch::new(Settings::default());
    let mut job = Job::new(8, 1000, 1);
    job.now_ns = 365 * 86_400 * S + 123_456_789;
    job.init(&mut watch);
    job.play(&mut watch, |_| Some(0));
    assert_eq!(watch.completed().len(), 8);
    assert!(watch.completed().iter().all(|c| c.barrier_wait_ns < 10 * MS));
}

/// A published agent used the entry of a wait as its end, which charged the wait to the next step.
#[test]
fn wait_ends_when_the_sync_call_returns() {
    let mut watch = Watch::new(Settings::default());
    let rank = Rank::new(1000);
    watch.see(rank.init(S / 2, S / 2 + MS, 1, 0, unique_id(1)));
    for n in 0..10 {
        let at_ns = S + n * 100 * MS;
        watch.see(rank.all_reduce(at_ns, 10 * US));
        // Long and short waits alternate.
        watch.see(rank.sync(at_ns + 20 * US, at_ns + if n % 2 == 0 { 50 * MS } else { 5 * MS }));
    }
    let waits: Vec<u64> = watch.completed().iter().map(|c| c.barrier_wait_ns + 10 * US).collect();
    assert_eq!(waits, [50 * MS, 5 * MS].repeat(5));
}

/// A published agent exported element counts as bytes.
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

/// A published agent had one entry slot per thread, which a nested probed call overwrote: `ncclBcast` calls
/// `ncclBroadcast`.
#[test]
fn broadcast_within_a_bcast_is_one_collective() {
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

/// A published agent did not count losses. If the source counts collectives, a loss is known exactly and later numbers
/// are correct.
#[test]
fn lost_collective_is_counted_without_shifting_later_ones() {
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
        // Rank 2's tenth and eleventh collectives are lost.
        let of_two = |o: &Observation| matches!(o, Observation::Call(c) if c.process.pid == 1002);
        round.retain(|o| !((n == 10 || n == 11) && of_two(o)));
        watch.see_all(round);
        if n == 11 {
            watch.see(Observation::Lost { at_ns: job.now_ns, count: 2 });
        }
    }
    let tally = watch.engine.tally();
    assert_eq!((tally.collectives_lost, tally.records_lost), (2, 2));
    assert_eq!((tally.rounds, tally.rounds_dropped), (28, 2));
    assert!(watch.engine.ranks().all(|r| r.seq == 30));
    assert!(watch.arrived().iter().all(|a| a.skew_ns < MS), "collectives of one number belong together");
    watch.check_balance();
}

/// If the source does not count collectives, nothing is compared after a loss until causality shows the alignment.
#[test]
fn collectives_after_an_unknown_loss_need_alignment() {
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
        // Numbers continue those before the loss: ranks without a loss are not renumbered.
        let numbers: Vec<u64> = watch.engine.ranks().map(|r| r.seq).collect();
        assert_eq!(numbers, if waits { [60, 60, 60, 60] } else { [60, 60, 59, 60] });
    }
}

/// A published agent used thread ids as process ids. A process with many threads is one rank.
#[test]
fn many_threads_of_a_process_are_one_rank() {
    let mut watch = Watch::new(Settings::default());
    let rank = Rank::new(1000);
    watch.see(rank.init(S / 2, S / 2 + MS, 1, 0, unique_id(1)));
    (0..100).for_each(|n| watch.see(Rank { tid: 5000 + n, ..rank }.all_reduce(S + u64::from(n) * MS, US)));
    let ranks: Vec<_> = watch.engine.ranks().map(|r| (r.seq, r.who.tid)).collect();
    assert_eq!(ranks, [(100, 5099)]);
}
