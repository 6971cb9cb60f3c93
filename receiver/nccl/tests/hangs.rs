//! Hangs are reported within the timeout with the responsible rank; idle programs are not reported.

mod sim;

use event::ExitStatus;
use nccl::finding::HangKind;
use nccl::observe::{Arguments, Function, OngoingCall, StepNote};
use nccl::{Finding, Observation, Operation, RankEnd, Settings};
use sim::{Job, MS, Rank, S, US, Watch};

const TIMEOUT: u64 = 10 * S;

fn start(count: usize, seed: u64) -> (Watch, Job) {
    let mut watch = Watch::new(Settings { hang_timeout_ns: TIMEOUT, ..Settings::default() });
    let mut job = Job::new(count, 1000, seed);
    job.init(&mut watch);
    (0..5).for_each(|_| job.play(&mut watch, |_| Some(0)));
    (watch, job)
}

/// Advances time by `for_ns`, with an observation every 100 ms.
fn wait(watch: &mut Watch, from_ns: u64, for_ns: u64) {
    (1..=for_ns / (100 * MS)).for_each(|n| watch.see(Observation::Tick { at_ns: from_ns + n * 100 * MS }));
}

#[test]
fn absent_rank_is_named_with_its_collective_within_the_timeout() {
    for count in [2, 8, 64] {
        for seed in 0..10 {
            let (mut watch, mut job) = start(count, seed);
            let absent = seed as usize * 5 % count;
            let (arrived_ns, sequence) = (job.now_ns, 77);
            let process = job.ranks[absent].process;
            watch.see(Observation::Step(StepNote { process, end_ns: arrived_ns, duration_ns: MS, sequence }));
            job.play(&mut watch, |rank| (rank != absent).then_some(0));
            wait(&mut watch, arrived_ns, 30 * S);
            let hangs = watch.hangs();
            let [hang] = hangs[..] else { panic!("{count} ranks, seed {seed}: {hangs:?}") };
            assert_eq!((hang.kind, hang.seq, hang.operation), (HangKind::Missing, 5, Operation::AllReduce));
            let [missing] = &hang.missing[..] else { panic!("{hang:?}") };
            assert_eq!((missing.who.rank.value, missing.who.process), (Some(absent as u32), process));
            assert_eq!((missing.next_seq, missing.end), (5, None));
            assert_eq!(missing.last_step.map(|s| s.sequence), Some(77));
            assert_eq!((hang.waiting.len(), hang.nranks), (count - 1, Some(count as u32)));
            assert!(hang.at_ns - hang.since_ns <= TIMEOUT, "{hang:?}");
            assert!(hang.at_ns - hang.since_ns > TIMEOUT * 9 / 10, "{hang:?}");
            let idle = watch.engine.ranks().find(|r| r.idle_ns > 0).unwrap();
            assert_eq!(idle.who.rank.value, Some(absent as u32));
            assert!(idle.idle_ns > 29 * S);
        }
    }
}

#[test]
fn late_arrival_ends_the_hang() {
    let (mut watch, mut job) = start(8, 1);
    let arrived_ns = job.now_ns;
    job.play(&mut watch, |rank| (rank != 3).then_some(0));
    wait(&mut watch, arrived_ns, 20 * S);
    let late_ns = arrived_ns + 20 * S + MS;
    watch.see(job.ranks[3].all_reduce(late_ns, 10 * US));
    wait(&mut watch, late_ns, S);
    let over = watch.findings.iter().find_map(|f| match f {
        Finding::HangOver(over) => Some(&**over),
        _ => None,
    });
    let over = over.expect("it is over");
    assert!(over.seq == 5 && over.duration_ns.abs_diff(20 * S) < S, "{over:?}");
    assert_eq!(watch.hangs().len(), 1);
}

#[test]
fn ranks_that_all_arrived_without_progress_are_stuck() {
    let (mut watch, mut job) = start(4, 1);
    let arrived_ns = job.now_ns;
    let round = job.round(|_| Some(0));
    let calls = round.into_iter().filter(|o| matches!(o, Observation::Call(_)));
    watch.see_all(calls.collect());
    for n in 1..300 {
        let at_ns = arrived_ns + 2 * MS + n * 100 * MS;
        let rank = job.ranks[2];
        let (process, tid) = (rank.process, rank.tid);
        watch.see(Observation::OngoingCall(OngoingCall {
            process,
            tid,
            entry_ns: arrived_ns + 2 * MS,
            at_ns,
        }));
    }
    let hangs = watch.hangs();
    let [hang] = hangs[..] else { panic!("{hangs:?}") };
    assert_eq!((hang.kind, hang.seq, hang.missing.len(), hang.waiting.len()), (HangKind::Stuck, 5, 0, 4));
    assert!(hang.is_wait_seen);
}

#[test]
fn silence_is_evidence_without_ongoing_calls() {
    let (mut watch, mut job) = start(4, 1);
    let arrived_ns = job.now_ns;
    let round = job.round(|_| Some(0));
    watch.see_all(round.into_iter().filter(|o| matches!(o, Observation::Call(_))).collect());
    wait(&mut watch, arrived_ns, 20 * S);
    let hangs = watch.hangs();
    assert!(matches!(hangs[..], [h] if h.kind == HangKind::Stuck && !h.is_wait_seen), "{hangs:?}");
}

#[test]
fn idle_program_does_not_hang() {
    let (mut watch, job) = start(8, 1);
    wait(&mut watch, job.now_ns, 600 * S);
    // Enqueued long ago and not waited for, but its threads are otherwise active.
    for rank in &job.ranks {
        watch.see(rank.all_reduce(job.now_ns + 700 * S, 10 * US));
    }
    for n in 0..200 {
        let at_ns = job.now_ns + 701 * S + n * 200 * MS;
        for rank in &job.ranks {
            let other = probe_abi::record::StreamKey { stream: 0x99, ..rank.key() };
            let action = nccl::observe::StreamAction::Sync(other);
            watch.see(rank.stream(at_ns, US, action));
        }
    }
    assert_eq!(watch.hangs(), Vec::<&nccl::finding::Hang>::new());
}

#[test]
fn killed_rank_is_named_with_the_signal() {
    let (mut watch, mut job) = start(8, 1);
    let arrived_ns = job.now_ns;
    let dead = job.ranks[6].process;
    watch.see(Observation::Exit { process: dead, at_ns: arrived_ns, status: ExitStatus::Killed(9) });
    job.play(&mut watch, |rank| (rank != 6).then_some(0));
    wait(&mut watch, arrived_ns, 20 * S);
    let hangs = watch.hangs();
    let [hang] = hangs[..] else { panic!("{hangs:?}") };
    let [missing] = &hang.missing[..] else { panic!("{hang:?}") };
    assert_eq!((missing.who.rank.value, missing.end), (Some(6), Some(RankEnd::Killed(9))));
}

#[test]
fn destroyed_ranks_are_not_awaited() {
    let (mut watch, mut job) = start(4, 1);
    let leaving = job.ranks[3];
    watch.see(leaving.call(job.now_ns, MS, Function::Destroy { comm: leaving.handle }));
    job.now_ns += 10 * MS;
    job.play(&mut watch, |rank| (rank != 3).then_some(0));
    wait(&mut watch, job.now_ns, 8 * S);
    assert_eq!(watch.hangs().len(), 0);
    assert_eq!(watch.engine.tally().rounds, 6);
}

fn message(rank: &Rank, operation: Operation, peer: i32, at_ns: u64) -> Observation {
    let arguments = Arguments { peer, ..rank.arguments(operation) };
    rank.call(at_ns, 10 * US, Function::Operation(arguments))
}

#[test]
fn missing_peer_of_a_message_is_named() {
    let (mut watch, job) = start(4, 1);
    let (from_ns, ranks) = (job.now_ns, &job.ranks);
    // Ranks 1 and 2 exchange messages and wait for them; rank 0 is a regular peer and never receives.
    watch.see(message(&ranks[1], Operation::Send, 2, from_ns));
    watch.see(message(&ranks[2], Operation::Recv, 1, from_ns));
    watch.see(ranks[1].sync(from_ns + MS, from_ns + 2 * MS));
    watch.see(ranks[2].sync(from_ns + MS, from_ns + 2 * MS));
    watch.see(message(&ranks[1], Operation::Send, 0, from_ns + 3 * MS));
    wait(&mut watch, from_ns, 20 * S);
    let hangs = watch.hangs();
    let [hang] = hangs[..] else { panic!("{hangs:?}") };
    assert_eq!((hang.kind, hang.operation, hang.peer), (HangKind::Peer, Operation::Send, Some(0)));
    assert_eq!(hang.missing[0].who.rank.value, Some(0));
    assert_eq!(hang.waiting[0].rank.value, Some(1));
}

#[test]
fn mismatched_operations_are_reported_before_the_hang() {
    let (mut watch, mut job) = start(4, 1);
    let from_ns = job.now_ns;
    let odd = job.ranks[2];
    job.play(&mut watch, |rank| (rank != 2).then_some(0));
    watch.see(odd.call(from_ns + 5 * MS, US, Function::Operation(odd.arguments(Operation::Broadcast))));
    let mismatches: Vec<_> = watch
        .findings
        .iter()
        .filter_map(|f| match f {
            Finding::Mismatch(m) => Some((m.who.rank.value, m.seq, m.called.0, m.first.0)),
            _ => None,
        })
        .collect();
    assert_eq!(mismatches, [(Some(2), 5, Operation::Broadcast, Operation::AllReduce)]);
}

#[test]
fn slow_rank_that_progresses_does_not_hang() {
    let (mut watch, job) = start(2, 1);
    let (fast, slow) = (job.ranks[0], job.ranks[1]);
    // The fast rank enqueues everything at once, the slow one takes a second for each: 40 s behind at the end.
    (0..40).for_each(|n| watch.see(fast.all_reduce(job.now_ns + n * MS, US)));
    (1..=40).for_each(|n| watch.see(slow.all_reduce(job.now_ns + n * S, US)));
    assert_eq!(watch.hangs().len(), 0);
    assert_eq!(watch.engine.tally().rounds, 45);
}

#[test]
fn absent_rank_is_named_without_known_alignment() {
    let (mut watch, mut job) = start(4, 1);
    watch.see(Observation::Lost { at_ns: job.now_ns, count: 1 });
    let arrived_ns = job.now_ns;
    job.play(&mut watch, |rank| (rank != 2).then_some(0));
    wait(&mut watch, arrived_ns, 20 * S);
    let hangs = watch.hangs();
    let [hang] = hangs[..] else { panic!("{hangs:?}") };
    assert_eq!((hang.kind, hang.is_exact, hang.missing.len()), (HangKind::Missing, false, 1));
    assert_eq!(hang.missing[0].who.rank.value, Some(2));
}

#[test]
fn waiting_ranks_are_in_rank_order() {
    let mut watch = Watch::new(Settings { hang_timeout_ns: TIMEOUT, ..Settings::default() });
    let mut job = Job::new(5, 1000, 1);
    // The ranks join in reverse order.
    job.ranks.reverse();
    job.init(&mut watch);
    let arrived_ns = job.now_ns;
    job.play(&mut watch, |at| (at != 2).then_some(0));
    wait(&mut watch, arrived_ns, 20 * S);
    let hangs = watch.hangs();
    let [hang] = hangs[..] else { panic!("{hangs:?}") };
    let waiting: Vec<_> = hang.waiting.iter().map(|who| who.rank.value).collect();
    assert_eq!(waiting, [0, 1, 3, 4].map(Some));
}
