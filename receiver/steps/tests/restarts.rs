//! Baselines outlive the agent and the process, under the workload's name; bytes that are none are refused.
#![allow(clippy::unwrap_used, reason = "a test")]

mod traffic;

use std::sync::LazyLock;

use event::{Event, ExitStatus};
use proptest::collection::vec;
use proptest::prelude::*;
use steps::record::FORMAT;
use steps::{
    BaselineKey, BaselineRecord, BaselineSettings, Engine, Finding, Level, Outlier, Phase, Settings, Step,
    WorkloadId,
};
use traffic::{MS, Rng, Server, Shape};

const MODEL: &str = "meta/llama";

fn fed(engine: &mut Engine, events: impl IntoIterator<Item = Event>) -> Vec<Step> {
    let mut steps = Vec::new();
    for event in events {
        engine.observe(&event, &mut |finding| {
            if let Finding::Step(step) = finding {
                steps.push(step);
            }
        });
    }
    steps
}

/// Decodes of 10 ms with prefills between them, for a while.
fn served(server: &mut Server, count: u64) -> Vec<Event> {
    let mut rng = Rng::new(u64::from(server.process.pid));
    let step = |k: u64| match k % 5 {
        0 => server.step(Shape::Prefill { tokens: 888 }, 90.0 * MS * rng.uniform(0.95, 1.05)),
        _ => server.step(Shape::Decode { batch: 32 }, 10.0 * MS * rng.uniform(0.95, 1.05)),
    };
    (0..count).map(step).collect()
}

fn described(server: &Server) -> Event {
    server.info(MODEL)
}

fn workload(server: &Server) -> WorkloadId {
    let Event::Process(info) = described(server) else { panic!("a description") };
    WorkloadId::of(&info, None)
}

fn levels(engine: &Engine, server: &Server) -> Vec<(Phase, Level)> {
    let mut levels: Vec<_> = engine.baseline_record(workload(server)).unwrap().levels().collect();
    levels.sort_by_key(|(phase, _)| *phase);
    levels
}

/// An agent that has watched a server for 500 steps, and what it leaves behind.
fn kept(server: &mut Server) -> (Engine, Vec<Vec<u8>>) {
    let mut engine = Engine::new(Settings::default());
    fed(&mut engine, [described(server)]);
    fed(&mut engine, served(server, 500));
    let records = engine.take_changed().into_iter().map(|id| engine.baseline_record(id).unwrap().encode());
    let records = records.collect();
    (engine, records)
}

#[test]
fn an_agent_that_comes_back_judges_the_next_step_as_if_it_had_never_been_away() {
    let mut server = Server::new(7);
    let (before, records) = kept(&mut server);
    assert_eq!(records.len(), 1);
    assert!(records[0].len() < 4096, "{} bytes", records[0].len());
    let mut engine = Engine::new(Settings::default());
    engine.restore(&BaselineRecord::decode(&records[0]).unwrap());
    fed(&mut engine, [described(&server)]);
    assert_eq!(levels(&engine, &server), levels(&before, &server));
    let mut events = vec![server.step(Shape::Decode { batch: 32 }, 25.0 * MS)];
    events.extend(served(&mut server, 200));
    let steps = fed(&mut engine, events);
    assert_eq!((steps[0].phase, steps[0].outlier), (Phase::Decode, Outlier::Ratio2), "{:?}", steps[0]);
    assert!(steps[0].baseline.unwrap().count > 300);
    assert!(!steps[0].causes.is_empty(), "what is usual for its parts is kept too");
    assert!(steps[1..].iter().all(|step| step.outlier == Outlier::None && step.baseline.is_some()));
}

#[test]
fn a_record_that_comes_late_is_taken_by_the_process_that_runs_already() {
    let mut server = Server::new(7);
    let (_, records) = kept(&mut server);
    let mut engine = Engine::new(Settings::default());
    fed(&mut engine, [described(&server)]);
    fed(&mut engine, served(&mut server, 10));
    engine.restore(&BaselineRecord::decode(&records[0]).unwrap());
    let steps = fed(&mut engine, served(&mut server, 100));
    assert!(steps[1..].iter().all(|step| step.baseline.is_some_and(|level| level.count > 60)));
}

#[test]
fn what_a_process_has_learnt_by_itself_is_not_replaced() {
    let mut server = Server::new(7);
    let (_, records) = kept(&mut server);
    let mut engine = Engine::new(Settings::default());
    let mut other = Server::new(7);
    fed(&mut engine, [described(&other)]);
    let decode = |other: &mut Server| other.step(Shape::Decode { batch: 32 }, 30.0 * MS);
    fed(&mut engine, (0..100).map(|_| decode(&mut other)).collect::<Vec<_>>());
    engine.restore(&BaselineRecord::decode(&records[0]).unwrap());
    let step = fed(&mut engine, [decode(&mut other)]);
    assert_eq!(step[0].baseline.unwrap().p95_ns, 30.0 * MS);
}

#[test]
fn the_next_process_of_a_workload_finds_what_the_last_one_left() {
    let (mut old, mut new) = (Server::new(7), Server::new(8));
    new.addresses = 0x4_0000;
    let (mut engine, _) = kept(&mut old);
    fed(&mut engine, [Event::Exit { process: old.process, at_ns: old.now_ns, status: ExitStatus::Unknown }]);
    new.now_ns = old.now_ns;
    fed(&mut engine, [described(&new)]);
    let steps = fed(&mut engine, served(&mut new, 300));
    assert!(steps.iter().all(|step| step.baseline.is_some() && step.outlier == Outlier::None));
    // Its graphs are others: until they are known, only the highest bucket is believed.
    let record = engine.baseline_record(workload(&new)).unwrap();
    assert_eq!(record.process, new.process);
}

/// While nobody looked, everything became twice as slow.
#[test]
fn what_was_kept_and_no_longer_holds_is_learnt_anew_within_200_steps_and_told_once() {
    let mut server = Server::new(7);
    let (_, records) = kept(&mut server);
    let mut engine = Engine::new(Settings::default());
    engine.restore(&BaselineRecord::decode(&records[0]).unwrap());
    fed(&mut engine, [described(&server)]);
    let (mut decodes, mut shifts) = (Vec::new(), 0);
    for at in 0..1_000 {
        let (shape, ns) = match at % 5 {
            0 => (Shape::Prefill { tokens: 888 }, 180.0 * MS),
            _ => (Shape::Decode { batch: 32 }, 20.0 * MS),
        };
        engine.observe(&server.step(shape, ns), &mut |finding| match finding {
            Finding::Step(step) if step.phase == Phase::Decode => decodes.push(step.outlier),
            Finding::Step(_) => {}
            Finding::BaselineShift(_) => shifts += 1,
        });
    }
    let last = decodes.iter().rposition(|outlier| *outlier != Outlier::None);
    assert!(last.is_some_and(|at| (100..200).contains(&at)), "{last:?}");
    assert_eq!(shifts, 2, "one for each phase");
}

#[test]
fn what_changed_is_told_once_and_an_end_is_a_change() {
    let mut server = Server::new(7);
    let (mut engine, _) = kept(&mut server);
    assert_eq!(engine.take_changed(), []);
    fed(&mut engine, served(&mut server, 3));
    assert_eq!(engine.take_changed(), [workload(&server)]);
    fed(&mut engine, served(&mut server, 3));
    engine.finish(&mut |_| ());
    assert_eq!(engine.take_changed(), [workload(&server)]);
    assert!(engine.baseline_record(workload(&server)).is_some());
}

#[test]
fn nothing_is_kept_of_a_warm_up_nor_of_a_process_that_nobody_described() {
    let mut engine = Engine::new(Settings::default());
    let (mut young, mut nameless) = (Server::new(7), Server::new(8));
    fed(&mut engine, [described(&young)]);
    fed(&mut engine, served(&mut young, 20));
    fed(&mut engine, served(&mut nameless, 500));
    engine.finish(&mut |_| ());
    let records = engine.take_changed().into_iter().filter_map(|id| engine.baseline_record(id));
    assert_eq!(records.collect::<Vec<_>>(), []);
}

#[test]
fn what_was_learnt_by_fingerprint_goes_to_the_process_that_it_was_learnt_of() {
    let baseline = BaselineSettings { key: BaselineKey::PhaseAndFingerprint, ..BaselineSettings::default() };
    let settings = Settings { baseline, ..Settings::default() };
    let mut server = Server::new(7);
    let mut engine = Engine::new(settings);
    fed(&mut engine, [described(&server)]);
    fed(&mut engine, served(&mut server, 500));
    let record = engine.baseline_record(workload(&server)).unwrap();
    for (pid, is_known) in [(7, true), (8, false)] {
        let mut again = Engine::new(settings);
        again.restore(&record);
        server.process.pid = pid;
        fed(&mut again, [described(&server)]);
        let steps = fed(&mut again, served(&mut server, 100));
        assert_eq!(steps[0].baseline.is_some(), is_known, "pid {pid}");
    }
}

#[test]
fn more_workloads_than_there_is_room_for_are_forgotten_and_counted() {
    let mut server = Server::new(7);
    let (_, records) = kept(&mut server);
    let mut engine = Engine::new(Settings { processes_max: 8, ..Settings::default() });
    for name in 0..100 {
        let mut record = BaselineRecord::decode(&records[0]).unwrap();
        record.workload = WorkloadId(name);
        engine.restore(&record);
    }
    assert_eq!(engine.tally().baselines_evicted, 92);
    assert!(engine.size_bytes() < 8 * 4096, "{}", engine.size_bytes());
    assert!(engine.baseline_record(WorkloadId(99)).is_some());
    let forgotten = engine.take_changed();
    assert!(forgotten.contains(&WorkloadId(0)) && engine.baseline_record(WorkloadId(0)).is_none());
}

#[test]
fn damaged_bytes_are_refused_with_a_reason() {
    let (_, records) = kept(&mut Server::new(7));
    let whole = &records[0];
    let told = |bytes: &[u8]| BaselineRecord::decode(bytes).unwrap_err().to_string();
    assert!(told(b"WTFR").starts_with("not a baseline record: it begins with "));
    for at in 0..whole.len() {
        let mut bytes = whole.clone();
        bytes[at] ^= 0x10;
        assert!(BaselineRecord::decode(&bytes).is_err(), "byte {at}");
        assert!(BaselineRecord::decode(&whole[..at]).is_err(), "length {at}");
    }
}

proptest! {
    /// Right around the fields, anything within: refused or sound, and never a panic.
    #[test]
    fn hostile_fields_break_nothing(changes in vec((any::<prop::sample::Index>(), any::<u8>()), 0..40)) {
        static RECORD: LazyLock<Vec<u8>> = LazyLock::new(|| kept(&mut Server::new(7)).1.remove(0));
        let mut server = Server::new(7);
        let mut fields = RECORD[10..RECORD.len() - 4].to_vec();
        for (at, byte) in changes {
            let at = at.index(fields.len());
            fields[at] = byte;
        }
        if let Ok(mut record) = BaselineRecord::decode(&FORMAT.seal(&fields)) {
            let mut engine = Engine::new(Settings::default());
            record.workload = workload(&server);
            engine.restore(&record);
            fed(&mut engine, [described(&server)]);
            let steps = fed(&mut engine, served(&mut server, 300));
            prop_assert!(steps.iter().all(|step| step.ratio.is_finite()));
        }
    }
}
