//! Jobs with a late rank: only that rank is named, and quickly; jobs without one have no finding.

mod sim;

use nccl::{Finding, Settings};
use sim::{Jitter, Job, MS, S, Watch};

/// Plays `count` ranks, one of them late by `late_ns` from collective `from` on, until it is named. Returns the number
/// of collectives and the time until then.
fn named_after(count: usize, late_ns: u64, from: usize, jitter: Jitter, seed: u64) -> (usize, u64) {
    let mut watch = Watch::new(Settings::default());
    let mut job = Job::new(count, 1000, seed);
    job.jitter = jitter;
    job.init(&mut watch);
    let late = (seed as usize * 7 + 3) % count;
    (0..from).for_each(|_| job.play(&mut watch, |_| Some(0)));
    assert!(watch.stragglers().is_empty(), "seed {seed}: a straggler from jitter alone");
    let since_ns = job.now_ns;
    for played in 1.. {
        job.play(&mut watch, |rank| Some(if rank == late { late_ns } else { 0 }));
        if let [first, ..] = watch.stragglers()[..] {
            assert_eq!(first.who.rank.value, Some(late as u32), "seed {seed}: {first:?}");
            assert_eq!(first.who.process, job.ranks[late].process, "seed {seed}");
            assert_eq!(first.who.communicator.hash, job.communicator(), "seed {seed}");
            let off_ns_max = if matches!(jitter, Jitter::Uniform(_)) { MS } else { 10 * MS };
            assert!(first.behind_ns.abs_diff(late_ns) < off_ns_max, "seed {seed}: {first:?}");
            return (played, job.now_ns - since_ns);
        }
        assert!(job.now_ns - since_ns < 10 * S, "seed {seed}: no rank named after {played} collectives");
    }
    unreachable!()
}

#[track_caller]
fn check(count: usize, jitter: Jitter, seeds: u64) {
    for late_ms in [5, 20, 100] {
        for from in [0, 3, 40] {
            for seed in 0..seeds {
                let (rounds, ns) = named_after(count, late_ms * MS, from, jitter, seed);
                assert!(
                    rounds <= 3 || ns <= 2 * S,
                    "{count} ranks, {late_ms} ms from {from}, seed {seed}: {rounds} collectives, {ns} ns"
                );
            }
        }
    }
}

#[test]
fn late_rank_of_eight_is_named_within_two_seconds() {
    check(8, Jitter::Uniform(MS), 100);
    check(8, Jitter::Exponential(MS), 30);
    check(8, Jitter::Normal(MS), 30);
}

#[test]
fn late_rank_of_sixty_four_is_named_within_two_seconds() {
    check(64, Jitter::Uniform(MS), 15);
    check(64, Jitter::Normal(MS), 4);
}

#[test]
fn late_rank_of_two_or_three_is_named() {
    for count in [2, 3] {
        for seed in 0..50 {
            let (_, ns) = named_after(count, 20 * MS, 40, Jitter::Uniform(MS), seed);
            assert!(ns <= 2 * S, "{count} ranks, seed {seed}: {ns} ns");
        }
    }
}

fn quiet(count: usize, jitter: Jitter, period_ns: u64, seed: u64) {
    let mut watch = Watch::new(Settings::default());
    let mut job = Job::new(count, 1000, seed);
    (job.jitter, job.period_ns) = (jitter, period_ns);
    job.init(&mut watch);
    let end_ns = job.now_ns + 600 * S;
    while job.now_ns < end_ns {
        job.play(&mut watch, |_| Some(0));
        watch.retain_verdicts();
    }
    assert_eq!(watch.findings, [], "{count} ranks, {jitter:?}, seed {seed}");
    watch.check_balance();
}

#[test]
fn ten_minutes_of_uniform_jitter_name_no_rank() {
    quiet(8, Jitter::Uniform(MS), 10 * MS, 1);
    quiet(64, Jitter::Uniform(MS), 100 * MS, 4);
}

#[test]
fn ten_minutes_of_exponential_jitter_name_no_rank() {
    quiet(8, Jitter::Exponential(MS), 10 * MS, 2);
    quiet(8, Jitter::Normal(MS), 10 * MS, 3);
    quiet(64, Jitter::Exponential(MS), 100 * MS, 5);
}

#[test]
fn ten_minutes_of_jitter_of_few_ranks_name_no_rank() {
    quiet(2, Jitter::Exponential(MS), 10 * MS, 6);
    quiet(2, Jitter::Normal(MS), 10 * MS, 8);
    quiet(3, Jitter::Normal(MS), 10 * MS, 7);
    quiet(3, Jitter::Exponential(MS), 10 * MS, 9);
}

#[test]
fn one_late_arrival_or_early_rank_is_not_a_straggler() {
    let mut watch = Watch::new(Settings::default());
    let mut job = Job::new(8, 1000, 1);
    job.init(&mut watch);
    for round in 0..400 {
        let once = |rank| if round % 20 == 7 && rank == round / 20 % 8 { 50 * MS } else { 0 };
        job.play(&mut watch, |rank| Some(once(rank)));
    }
    // All ranks but one are 30 ms behind the first: one rank is early, no rank is late.
    (0..100).for_each(|_| job.play(&mut watch, |rank| Some(if rank == 5 { 0 } else { 30 * MS })));
    assert_eq!(watch.stragglers(), Vec::<&nccl::finding::Straggler>::new());
}

#[test]
fn late_ranks_of_two_communicators_are_distinguished() {
    for seed in 0..20 {
        let mut watch = Watch::new(Settings::default());
        let (mut a, mut b) = (Job::new(8, 1000, seed), Job::new(8, 2000, seed));
        // The same processes make the second communicator, on another handle.
        b.ranks = a.ranks.iter().map(|r| sim::Rank { handle: 0x2000, stream: 0x88, ..*r }).collect();
        a.init(&mut watch);
        b.init(&mut watch);
        for _ in 0..40 {
            let mut both = a.round(|rank| Some(if rank == 2 { 20 * MS } else { 0 }));
            b.now_ns = a.now_ns;
            both.extend(b.round(|rank| Some(if rank == 5 { 5 * MS } else { 0 })));
            a.now_ns = b.now_ns;
            watch.see_all(both);
        }
        let mut found: Vec<(u64, Option<u32>)> =
            watch.stragglers().iter().map(|s| (s.who.communicator.hash, s.who.rank.value)).collect();
        found.sort_unstable();
        let mut expected = vec![(a.communicator(), Some(2)), (b.communicator(), Some(5))];
        expected.sort_unstable();
        assert_eq!(found, expected, "seed {seed}");
    }
}

#[test]
fn recovery_is_reported_once() {
    let mut watch = Watch::new(Settings::default());
    let mut job = Job::new(8, 1000, 5);
    job.init(&mut watch);
    (0..50).for_each(|_| job.play(&mut watch, |rank| Some(if rank == 4 { 20 * MS } else { 0 })));
    (0..100).for_each(|_| job.play(&mut watch, |_| Some(0)));
    let verdicts = watch.count(|f| matches!(f, Finding::Straggler(_)));
    let recoveries = watch.count(|f| matches!(f, Finding::Recovered(r) if r.who.rank.value == Some(4)));
    assert_eq!((verdicts, recoveries), (1, 1));
    assert!(watch.engine.ranks().all(|rank| !rank.is_late));
}

#[test]
fn straggler_is_late_and_waits_least() {
    let mut watch = Watch::new(Settings::default());
    let mut job = Job::new(8, 1000, 9);
    job.init(&mut watch);
    (0..20).for_each(|_| job.play(&mut watch, |_| Some(0)));
    (0..10).for_each(|_| job.play(&mut watch, |rank| Some(if rank == 1 { 20 * MS } else { 0 })));
    let found = watch.stragglers();
    let [straggler] = found[..] else { panic!("{found:?}") };
    let (own, peers) = (straggler.wait_ns.unwrap(), straggler.wait_peers_ns.unwrap());
    assert!(own + 3 * MS < peers, "{straggler:?}");
    // Its host is late: it did not wait for its streams longer than its peers.
    assert!(straggler.waited_ns < MS, "{straggler:?}");
    let state = watch.engine.ranks().find(|r| r.who.rank.value == Some(1)).unwrap();
    assert!(state.is_late && state.lateness_ns.unwrap() > 5 * MS, "{state:?}");
}

#[test]
fn straggler_reports_its_wait_for_other_work() {
    let mut watch = Watch::new(Settings::default());
    let mut job = Job::new(8, 1000, 9);
    job.init(&mut watch);
    for _ in 0..10 {
        let begin_ns = job.now_ns;
        let mut round = job.round(|rank| Some(if rank == 6 { 20 * MS } else { 0 }));
        // It waits 19 ms for other work of its own GPU before it arrives.
        let rank = job.ranks[6];
        let other = probe_abi::record::StreamKey { stream: 0x99, ..rank.key() };
        round.push(rank.stream(begin_ns, 19 * MS, nccl::observe::StreamAction::Sync(other)));
        watch.see_all(round);
    }
    let found = watch.stragglers();
    assert_eq!(found[0].who.rank.value, Some(6));
    assert!(found[0].waited_ns.abs_diff(19 * MS) < MS, "{:?}", found[0]);
}

#[test]
fn ranks_on_other_nodes_block_nothing() {
    let mut watch = Watch::new(Settings::default());
    let mut job = Job::new(8, 1000, 3);
    // The communicator has 16 ranks: eight of them are on other nodes.
    let calls = job.ranks.iter().enumerate().map(|(rank, r)| r.init(S, S + MS, 16, rank, job.id)).collect();
    watch.see_all(calls);
    job.now_ns = S + 10 * MS;
    while job.now_ns < 5 * S {
        job.play(&mut watch, |rank| Some(if rank == 3 { 20 * MS } else { 0 }));
    }
    let found: Vec<_> = watch.stragglers().iter().map(|s| (s.who.rank.value, s.at_ns)).collect();
    assert!(matches!(found[..], [(Some(3), at_ns)] if at_ns < 3 * S + S / 2), "{found:?}");
}

#[test]
fn rank_with_the_last_init_is_in_the_first_collectives() {
    let mut watch = Watch::new(Settings::default());
    let mut job = Job::new(4, 1000, 3);
    let mut calls: Vec<_> =
        job.ranks.iter().enumerate().map(|(rank, r)| r.init(S, S + MS, 4, rank, job.id)).collect();
    let last = calls.pop().unwrap();
    watch.see_all(calls);
    job.now_ns = S + 2 * MS;
    let mut round = job.round(|_| Some(0));
    round.insert(0, last);
    // Three ranks have arrived before the fourth is observed.
    let is_of_fourth = |o: &nccl::Observation| match o {
        nccl::Observation::Call(call) => call.process.pid == 1003,
        nccl::Observation::Stream(call) => call.process.pid == 1003,
        _ => false,
    };
    round.sort_by_key(is_of_fourth);
    round.into_iter().for_each(|o| watch.see(o));
    assert_eq!(watch.arrived().iter().map(|a| (a.seq, a.ranks)).collect::<Vec<_>>(), [(0, 4)]);
}
