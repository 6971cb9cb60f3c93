//! Tests of creation, identification and end of communicators.

mod sim;

use event::ExitStatus;
use nccl::finding::Dispute;
use nccl::hash::{of_child, of_unique_id};
use nccl::observe::{Environment, Function, Out};
use nccl::{Fact, Finding, IdSource, Observation, RankState, Settings, Source};
use sim::{Job, MS, Rank, S, US, Watch, allocated_bytes, unique_id};

fn watch() -> Watch {
    Watch::new(Settings::default())
}

fn fact(value: u32, source: Source) -> Fact {
    Fact { value: Some(value), source }
}

fn state(watch: &Watch, rank: &Rank) -> RankState {
    let of = |r: &RankState| r.who.process == rank.process;
    let all: Vec<RankState> = watch.engine.ranks().filter(of).collect();
    *all.last().expect("the rank is known")
}

/// Checks the communicator's hash and source, the rank, and the number of ranks.
#[track_caller]
fn check(watch: &Watch, rank: &Rank, name: (u64, IdSource), number: Fact, nranks: Fact) {
    let who = state(watch, rank).who;
    assert_eq!((who.communicator.hash, who.communicator.source), name);
    assert_eq!((who.rank, who.nranks), (number, nranks));
}

fn disputes(watch: &Watch) -> Vec<Dispute> {
    let about = |f: &Finding| match f {
        Finding::Disagreement(d) => Some(d.about),
        _ => None,
    };
    watch.findings.iter().filter_map(about).collect()
}

#[test]
fn communicator_of_an_id_has_the_name_of_nccl() {
    let (mut watch, rank) = (watch(), Rank::new(1000));
    watch.see(rank.init(S, S + MS, 8, 3, unique_id(7)));
    let name = (of_unique_id(&unique_id(7)), IdSource::Nccl);
    check(&watch, &rank, name, fact(3, Source::Init), fact(8, Source::Init));
}

#[test]
fn unsupported_version_has_a_shared_computed_name() {
    let cases = [
        (21_900, IdSource::Warptap),
        (22_703, IdSource::Nccl),
        (29_900, IdSource::Expected),
        (0, IdSource::Expected),
    ];
    for (version, source) in cases {
        let (mut watch, ranks) = (watch(), [Rank::new(1000), Rank::new(1001)]);
        for (number, rank) in ranks.iter().enumerate() {
            watch.see(Observation::Library { process: rank.process, version });
            watch.see(rank.init(S, S + MS, 2, number, unique_id(7)));
        }
        let names = ranks.map(|rank| state(&watch, &rank).who.communicator);
        assert_eq!((names[0], names[0].source), (names[1], source), "{version}");
        assert_eq!(names[0].hash == of_unique_id(&unique_id(7)), source != IdSource::Warptap, "{version}");
        assert_eq!(watch.engine.sizes().0, 1);
    }
}

#[test]
fn ranks_of_init_all_share_its_id() {
    let (mut watch, rank) = (watch(), Rank::new(1000));
    let handles = vec![0x100, 0x200, 0x300];
    watch.see(rank.call(S + US, US, Function::GetUniqueId { id: Box::new(unique_id(9)) }));
    watch.see(rank.call(S, MS, Function::InitAll { handles, count: 3, devices: vec![4, 5, 6] }));
    let ranks: Vec<_> = watch.engine.ranks().map(|r| (r.who.rank.value, r.who.device)).collect();
    assert_eq!(ranks, [(Some(0), 4), (Some(1), 5), (Some(2), 6)]);
    let name = of_unique_id(&unique_id(9));
    assert!(watch.engine.ranks().all(|r| r.who.communicator.hash == name && r.who.nranks.value == Some(3)));
    // An id created much earlier is not used.
    watch.see(rank.call(2 * S, MS, Function::InitAll { handles: vec![0x400], count: 1, devices: vec![] }));
    let last = watch.engine.ranks().last().unwrap().who;
    assert_eq!((last.communicator.source, last.device), (IdSource::Warptap, 0));
}

/// Splits a parent of four ranks: odd ranks pass color 1, and the keys reverse the order of the ranks.
fn split(watch: &mut Watch, job: &Job, first: usize) {
    for (number, rank) in job.ranks.iter().enumerate().skip(first) {
        let child = Out { at: 0x20, handle: 0x2000 };
        let (color, key) = (number as i32 % 2, -(number as i32));
        let at_ns = job.now_ns + number as u64 * US;
        watch.see(rank.call(at_ns, MS, Function::Split { parent: rank.handle, color, key, child }));
    }
}

#[test]
fn children_of_a_split_have_nccl_names_and_inferred_ranks() {
    let (mut watch, mut job) = (watch(), Job::new(4, 1000, 1));
    job.init(&mut watch);
    split(&mut watch, &job, 0);
    for (number, rank) in job.ranks.iter().enumerate() {
        let name = (of_child(job.communicator(), 1, number as i32 % 2), IdSource::Nccl);
        let inferred = 1 - number as u32 / 2;
        check(&watch, rank, name, fact(inferred, Source::Inferred), fact(2, Source::Inferred));
    }
    // A second split of the same parent has another name.
    let ranks = std::mem::take(&mut job.ranks);
    for rank in &ranks {
        let child = Out { at: 0x30, handle: 0x3000 };
        watch.see(rank.call(5 * S, MS, Function::Split { parent: rank.handle, color: 0, key: 0, child }));
    }
    let last = watch.engine.ranks().last().unwrap().who;
    assert_eq!(last.communicator.hash, of_child(job.communicator(), 2, 0));
    assert_eq!((last.rank.value, last.nranks.value), (Some(3), Some(4)));
}

#[test]
fn ranks_of_a_partly_seen_split_are_unknown_until_queried() {
    let (mut watch, mut job) = (watch(), Job::new(4, 1000, 1));
    job.init(&mut watch);
    split(&mut watch, &job, 1);
    let name = (of_child(job.communicator(), 1, 1), IdSource::Nccl);
    check(&watch, &job.ranks[3], name, Fact::default(), Fact::default());
    watch.see(job.ranks[3].call(3 * S, US, Function::Count { comm: 0x2000, value: 2 }));
    watch.see(job.ranks[3].call(3 * S, US, Function::UserRank { comm: 0x2000, value: 0 }));
    check(&watch, &job.ranks[3], name, fact(0, Source::Queried), fact(2, Source::Queried));
}

#[test]
fn split_without_color_counts_but_has_no_child() {
    let (mut watch, rank) = (watch(), Rank::new(1000));
    watch.see(rank.init(S, S + MS, 1, 0, unique_id(1)));
    let split = |color, handle| Function::Split {
        parent: rank.handle,
        color,
        key: 0,
        child: Out { at: 0x20, handle },
    };
    watch.see(rank.call(2 * S, MS, split(-1, 0)));
    watch.see(rank.call(3 * S, MS, split(5, 0x2000)));
    let name = (of_child(of_unique_id(&unique_id(1)), 2, 5), IdSource::Nccl);
    check(&watch, &rank, name, fact(0, Source::Inferred), fact(1, Source::Inferred));
}

#[test]
fn names_of_children_after_a_failed_split_are_uncertain() {
    let (mut watch, rank) = (watch(), Rank::new(1000));
    watch.see(rank.init(S, S + MS, 1, 0, unique_id(1)));
    let function = Function::Split { parent: rank.handle, color: 0, key: 0, child: Out::default() };
    let Observation::Call(call) = rank.call(2 * S, MS, function.clone()) else { unreachable!() };
    watch.see(Observation::Call(nccl::observe::NcclCall { result: 3, ..call }));
    let function =
        Function::Split { parent: rank.handle, color: 0, key: 0, child: Out { at: 1, handle: 0x2000 } };
    watch.see(rank.call(3 * S, MS, function));
    assert_eq!(state(&watch, &rank).who.communicator.source, IdSource::Warptap);
}

#[test]
fn shrink_excludes_ranks_and_renumbers_the_rest() {
    let (mut watch, mut job) = (watch(), Job::new(4, 1000, 1));
    job.init(&mut watch);
    for number in [0, 2, 3] {
        let child = Out { at: 0x20, handle: 0x2000 };
        let excluded = vec![1];
        let function = Function::Shrink { parent: 0x1000, excluded, excluded_count: 1, child };
        watch.see(job.ranks[number].call(2 * S, MS, function));
    }
    let name = (of_child(job.communicator(), 0, 0), IdSource::Expected);
    check(&watch, &job.ranks[3], name, fact(2, Source::Inferred), fact(3, Source::Inferred));
    check(&watch, &job.ranks[0], name, fact(0, Source::Inferred), fact(3, Source::Inferred));
}

#[test]
fn grown_communicator_has_a_computed_name() {
    let (mut watch, rank) = (watch(), Rank::new(1000));
    watch.see(rank.init(S, S + MS, 2, 1, unique_id(1)));
    let child = Out { at: 0x20, handle: 0x2000 };
    watch.see(rank.call(2 * S, MS, Function::Grow { parent: 0x1000, nranks: 4, rank: -1, child }));
    let who = state(&watch, &rank).who;
    assert_eq!(
        (who.communicator.source, who.rank.value, who.nranks.value),
        (IdSource::Warptap, Some(1), Some(4))
    );
}

#[test]
fn handle_written_after_the_group_finds_its_communicator() {
    let (mut watch, rank) = (watch(), Rank::new(1000));
    let split = |color| Function::Split {
        parent: 0x1000,
        color,
        key: 0,
        child: Out { at: 0x20 + color as u64, handle: 0 },
    };
    watch.see(rank.init(S, S + MS, 1, 0, unique_id(1)));
    watch.see(rank.call(2 * S, US, Function::GroupStart));
    watch.see(rank.call(2 * S, US, split(0)));
    watch.see(rank.call(2 * S, US, split(1)));
    watch.see(rank.call(2 * S, MS, Function::GroupEnd));
    watch.see(rank.call(2 * S + MS, 0, Function::Written(Out { at: 0x21, handle: 0x3000 })));
    let parent = of_unique_id(&unique_id(1));
    assert_eq!(state(&watch, &rank).who.communicator.hash, of_child(parent, 2, 1));
    // The other draft is the only match for its handle, although its memory was not read.
    watch.see(Rank { handle: 0x2000, ..rank }.all_reduce(3 * S, US));
    assert_eq!(state(&watch, &rank).who.communicator.hash, of_child(parent, 1, 0));
    assert_eq!(watch.engine.tally().late_attached, 0);
}

#[test]
fn late_attached_rank_has_sourced_facts() {
    let (mut watch, rank) = (watch(), Rank::new(1000));
    watch.see(rank.all_reduce(S, 10 * US));
    let who = state(&watch, &rank).who;
    assert_eq!(
        (who.communicator.source, who.rank, who.nranks),
        (IdSource::Local, Fact::default(), Fact::default())
    );
    watch.see(rank.call(2 * S, US, Function::Count { comm: rank.handle, value: 8 }));
    watch.see(rank.call(2 * S, US, Function::UserRank { comm: rank.handle, value: 0 }));
    let who = state(&watch, &rank).who;
    assert_eq!((who.rank, who.nranks), (fact(0, Source::Queried), fact(8, Source::Queried)));
    assert_eq!(watch.engine.tally().late_attached, 1);
}

fn environment(rank: &Rank, number: u32) -> Observation {
    let world_size = Some(2);
    Observation::Environment(Environment { process: rank.process, rank: Some(number), world_size, job: 77 })
}

#[test]
fn environment_names_only_the_first_communicator_of_a_job() {
    let (mut watch, ranks) = (watch(), [Rank::new(1000), Rank::new(1001)]);
    for (number, rank) in ranks.iter().enumerate() {
        watch.see(environment(rank, number as u32));
        watch.see(rank.all_reduce(S, 10 * US));
    }
    for (number, rank) in ranks.iter().enumerate() {
        let who = state(&watch, rank).who;
        assert_eq!(
            (who.rank, who.communicator.source),
            (fact(number as u32, Source::Environment), IdSource::Warptap)
        );
    }
    assert_eq!(watch.engine.sizes().0, 1, "both are in one communicator");
    let second = Rank { handle: 0x2000, ..ranks[0] };
    watch.see(second.all_reduce(2 * S, 10 * US));
    assert_eq!(state(&watch, &second).who.rank, Fact::default());
}

#[test]
fn queried_rank_replaces_the_one_from_the_environment() {
    let (mut watch, ranks) = (watch(), [Rank::new(1000), Rank::new(1001)]);
    for (number, rank) in ranks.iter().enumerate() {
        watch.see(environment(rank, number as u32));
        watch.see(rank.all_reduce(S, 10 * US));
    }
    watch.see(ranks[1].call(2 * S, US, Function::Count { comm: 0x1000, value: 1 }));
    let who = state(&watch, &ranks[1]).who;
    assert_eq!((who.nranks, who.communicator.source), (fact(1, Source::Queried), IdSource::Local));
    assert_eq!((watch.engine.sizes().0, disputes(&watch)), (2, vec![Dispute::Nranks]));
}

#[test]
fn disagreeing_ranks_are_separated_and_reported() {
    let (mut watch, ranks) = (watch(), [Rank::new(1000), Rank::new(1001), Rank::new(1002)]);
    watch.see(ranks[0].init(S, S + MS, 2, 0, unique_id(1)));
    watch.see(ranks[1].init(S, S + MS, 4, 1, unique_id(1)));
    watch.see(ranks[2].init(S, S + MS, 4, 1, unique_id(1)));
    assert_eq!(disputes(&watch), [Dispute::Nranks, Dispute::SameRank]);
    assert_eq!(watch.engine.tally().disagreements, 2);
}

#[test]
fn reused_handle_is_another_rank() {
    let (mut watch, rank) = (watch(), Rank::new(1000));
    watch.see(rank.init(S, S + MS, 8, 3, unique_id(1)));
    (0..5).for_each(|n| watch.see(rank.all_reduce(2 * S + n * MS, US)));
    watch.see(rank.call(3 * S, MS, Function::Destroy { comm: rank.handle }));
    watch.see(rank.init(4 * S, 4 * S + MS, 2, 1, unique_id(2)));
    let now = state(&watch, &rank);
    assert_eq!((now.who.rank.value, now.seq, watch.engine.outstanding()), (Some(1), 0, 0));
    // This time its end is not seen.
    watch.see(rank.init(5 * S, 5 * S + MS, 4, 2, unique_id(3)));
    assert_eq!(state(&watch, &rank).who.rank.value, Some(2));
    let tally = watch.engine.tally();
    assert_eq!((tally.joined, tally.left, tally.replaced, watch.engine.sizes()), (3, 2, 1, (1, 1)));
    watch.check_balance();
}

#[test]
fn late_destroy_of_a_reused_handle_ends_no_rank() {
    let (mut watch, rank) = (watch(), Rank::new(1000));
    watch.see(rank.init(S, S + MS, 1, 0, unique_id(1)));
    watch.see(Rank { tid: 1001, ..rank }.init(2 * S + MS, 2 * S + 2 * MS, 1, 0, unique_id(2)));
    watch.see(rank.call(2 * S, 5 * MS, Function::Destroy { comm: rank.handle }));
    assert_eq!(state(&watch, &rank).who.communicator.hash, of_unique_id(&unique_id(2)));
}

#[test]
fn reused_pid_is_another_process() {
    let (mut watch, rank) = (watch(), Rank::new(1000));
    watch.see(rank.init(S, S + MS, 8, 3, unique_id(1)));
    watch.see(Observation::Exit { process: rank.process, at_ns: 2 * S, status: ExitStatus::Unknown });
    let process = event::ProcessId { start_ns: 99, ..rank.process };
    let again = Rank { process, ..rank };
    watch.see(again.all_reduce(3 * S, US));
    assert_eq!(state(&watch, &again).who.rank, Fact::default());
    assert_eq!(watch.engine.ranks().count(), 1);
}

#[test]
fn memory_is_constant_over_ten_thousand_communicators() {
    let mut watch = watch();
    let ranks: Vec<Rank> = (0..8).map(|r| Rank::new(1000 + r)).collect();
    let cycle = |n: u64, watch: &mut Watch| {
        let mut id = unique_id(1);
        id[..8].copy_from_slice(&n.to_le_bytes());
        for (number, rank) in ranks.iter().enumerate() {
            let rank = Rank { handle: 0x1000 + (n % 7) * 0x100, ..*rank };
            watch.see(rank.init(n * S, n * S + MS, 8, number, id));
            watch.see(rank.all_reduce(n * S + 2 * MS, US));
            watch.see(rank.sync(n * S + 3 * MS, n * S + 4 * MS));
            watch.see(rank.call(n * S + 5 * MS, MS, Function::Destroy { comm: rank.handle }));
        }
        watch.findings.clear();
    };
    (1..=100).for_each(|n| cycle(n, &mut watch));
    let before = allocated_bytes();
    (101..=10_000).for_each(|n| cycle(n, &mut watch));
    assert_eq!(allocated_bytes(), before);
    assert_eq!(watch.engine.sizes(), (0, 8));
}

#[test]
fn communicators_never_destroyed_are_bounded() {
    let before = allocated_bytes();
    let mut watch = Watch::new(Settings { members_max: 64, ..Settings::default() });
    let mut largest = 0;
    for n in 0..10_000u64 {
        let mut id = unique_id(1);
        id[..8].copy_from_slice(&n.to_le_bytes());
        let rank = Rank { handle: 0x1000 + n, ..Rank::new(1000 + (n % 4) as u32) };
        watch.see(rank.init(n * MS, n * MS + US, 1, 0, id));
        watch.see(rank.all_reduce(n * MS + 2 * US, US));
        watch.findings.clear();
        largest = largest.max(allocated_bytes() - before);
    }
    assert_eq!((watch.engine.sizes().0, watch.engine.tally().members_evicted), (64, 10_000 - 64));
    assert!(largest < 1 << 20, "{largest}");
    watch.check_balance();
}
