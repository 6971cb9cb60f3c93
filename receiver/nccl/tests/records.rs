//! Flight records and traces: state that survives a process and the agent, and ids shared between nodes.

mod sim;

use event::ExitStatus;
use nccl::trace::{Chosen, TraceIds};
use nccl::{Finding, FlightRecord, Observation, RankEnd, Settings, Source, TraceSettings};
use recording::persisted::RecordError;
use sim::{Job, MS, S, Watch};

fn job_in_mid_collective(count: usize) -> (Watch, Job) {
    let mut watch = Watch::new(Settings::default());
    let mut job = Job::new(count, 1000, 1);
    job.init(&mut watch);
    (0..20).for_each(|_| job.play(&mut watch, |_| Some(0)));
    let round = job.round(|_| Some(0));
    watch.see_all(round.into_iter().filter(|o| matches!(o, Observation::Call(_))).collect());
    (watch, job)
}

#[test]
fn killed_rank_is_reported_with_outstanding_operations() {
    let (mut watch, job) = job_in_mid_collective(4);
    let process = job.ranks[2].process;
    watch.see(Observation::Exit { process, at_ns: job.now_ns, status: ExitStatus::Killed(9) });
    let ended = watch.findings.iter().find_map(|f| match f {
        Finding::Ended(ended) => Some(&**ended),
        _ => None,
    });
    let ended = ended.expect("an end");
    assert_eq!((ended.end, ended.who.rank.value), (RankEnd::Killed(9), Some(2)));
    assert_eq!(ended.outstanding.iter().map(|op| op.seq).collect::<Vec<_>>(), [20]);
    assert_eq!((ended.outstanding_count, ended.recent.len()), (1, 16));
    assert_eq!(watch.engine.flight_record(process), None);
    watch.check_balance();
}

#[test]
fn stored_record_contains_outstanding_operations() {
    let (mut watch, job) = job_in_mid_collective(4);
    let changed = watch.engine.take_changed();
    assert_eq!(changed, job.ranks.iter().map(|r| r.process).collect::<Vec<_>>());
    assert_eq!(watch.engine.take_changed(), []);
    let kept: Vec<Vec<u8>> =
        changed.iter().map(|p| watch.engine.flight_record(*p).unwrap().encode()).collect();
    // The agent has exited. Another one reads the stored records.
    for (number, bytes) in kept.iter().enumerate() {
        assert!(bytes.len() < 4096, "{} bytes", bytes.len());
        let record = FlightRecord::decode(bytes).unwrap();
        let [rank] = &record.ranks[..] else { panic!("{record:?}") };
        assert_eq!((rank.who.rank.value, rank.next_seq, rank.is_exact), (Some(number as u32), 21, true));
        assert_eq!(rank.outstanding.iter().map(|op| op.seq).collect::<Vec<_>>(), [20]);
        assert_eq!(rank.recent.len(), 16);
        assert_eq!(rank.recent.last(), rank.outstanding.last());
    }
}

#[test]
fn restored_agent_knows_only_the_identities() {
    let (watch, mut job) = job_in_mid_collective(4);
    let records: Vec<FlightRecord> =
        job.ranks.iter().map(|r| watch.engine.flight_record(r.process).unwrap()).collect();
    let mut again = Watch::new(Settings::default());
    for record in &records {
        again.engine.restore(record, &mut again.findings);
    }
    job.now_ns += 60 * S;
    (0..40).for_each(|_| job.play(&mut again, |rank| Some(if rank == 1 { 20 * MS } else { 0 })));
    let named: Vec<_> = again.stragglers().iter().map(|s| (s.who.rank.value, s.who.rank.source)).collect();
    assert_eq!(named, [(Some(1), Source::Restored)]);
    assert!(again.stragglers()[0].who.communicator.hash == job.communicator());
    assert!(again.completed().iter().all(|c| c.trace.is_none()), "the numbers are not those of other nodes");
}

#[test]
fn invalid_bytes_are_rejected_with_a_reason() {
    let (watch, job) = job_in_mid_collective(2);
    let whole = watch.engine.flight_record(job.ranks[0].process).unwrap().encode();
    let with = |at: usize, value: u8| {
        let mut bytes = whole.clone();
        bytes[at] = value;
        FlightRecord::decode(&bytes).unwrap_err()
    };
    let refusal = |bytes: &[u8]| FlightRecord::decode(bytes).unwrap_err().to_string();
    assert!(refusal(b"redb").starts_with("not a flight record: "), "{}", refusal(b"redb"));
    assert!(refusal(b"").starts_with("not a flight record: "), "{}", refusal(b""));
    assert_eq!(with(4, 9).to_string(), "a flight record of version 9, expected 1");
    assert!(matches!(with(whole.len() / 2, whole[whole.len() / 2] ^ 1), RecordError::Checksum { .. }));
    for length in 5..whole.len() {
        assert!(
            matches!(FlightRecord::decode(&whole[..length]), Err(RecordError::Length { .. })),
            "{length}"
        );
    }
}

/// Three agents each see some of the ranks.
#[test]
fn independent_agents_agree_on_traces_and_spans() {
    let settings = Settings { trace: TraceSettings { rate: 0.2, skew_ns_min: 0 }, ..Settings::default() };
    let mut agents = [Watch::new(settings), Watch::new(settings), Watch::new(settings)];
    let mut job = Job::new(12, 1000, 1);
    let count = job.ranks.len();
    for (number, rank) in job.ranks.iter().enumerate() {
        agents[number % 3].see(rank.init(S, S + MS, count, number, job.id));
    }
    for _ in 0..200 {
        let round = job.round(|_| Some(0));
        for (at, agent) in agents.iter_mut().enumerate() {
            let is_its = |o: &&Observation| match o {
                Observation::Call(c) => (c.process.pid - 1000) as usize % 3 == at,
                Observation::Stream(c) => (c.process.pid - 1000) as usize % 3 == at,
                _ => true,
            };
            agent.see_all(round.iter().filter(is_its).cloned().collect());
        }
    }
    let traced = |agent: &Watch| {
        let of = |c: &&nccl::finding::Completed| c.trace.map(|t| (c.op.seq, c.who.rank.value, t));
        agent.completed().iter().filter_map(of).collect::<Vec<_>>()
    };
    let all: Vec<_> = agents.iter().flat_map(traced).collect();
    let sequences: std::collections::BTreeSet<u64> = all.iter().map(|(seq, ..)| *seq).collect();
    assert!((20..60).contains(&sequences.len()), "{} of 200", sequences.len());
    assert_eq!(all.len(), sequences.len() * 12, "all ranks choose the same collectives");
    for (seq, rank, trace) in all {
        let communicator = agents[0].completed()[0].who.communicator;
        assert_eq!(trace.ids, TraceIds::of(communicator, seq, u64::from(rank.unwrap())));
        assert_eq!((trace.chosen, trace.is_root), (Chosen::Rate, rank == Some(0)));
    }
}

#[test]
fn collective_with_large_skew_is_traced_on_all_local_ranks() {
    let settings =
        Settings { trace: TraceSettings { rate: 0.0, skew_ns_min: 10 * MS }, ..Settings::default() };
    let mut watch = Watch::new(settings);
    let mut job = Job::new(8, 1000, 1);
    job.init(&mut watch);
    for n in 0..20 {
        job.play(&mut watch, |rank| Some(if n == 7 && rank == 2 { 15 * MS } else { 0 }));
    }
    let completed = watch.completed();
    let traced: Vec<_> = completed.iter().filter(|c| c.trace.is_some()).collect();
    assert_eq!(traced.len(), 8);
    assert!(traced.iter().all(|c| c.op.seq == 7 && c.trace.unwrap().chosen == Chosen::Skew));
}
