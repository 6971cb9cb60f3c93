//! Baselines survive restarts of the agent and of the process; damaged records are refused.
#![allow(clippy::unwrap_used, reason = "a test")]

mod traffic;

use std::sync::LazyLock;

use event::{Event, ExitStatus};
use proptest::collection::vec;
use proptest::prelude::*;
use steps::record::FORMAT;
use steps::{
    BaselineKey, BaselineLevel, BaselineRecord, BaselineSettings, Engine, Finding, Outlier, Phase, Settings,
    Step, WorkloadId,
};
use traffic::{MS, Rng, Server, Shape};

const MODEL: &str = "meta/llama";

fn fed(engine: &mut Engine, events: impl IntoIterator<Item = Event>) -> Vec<Step> {
    let mut findings = Vec::new();
    events.into_iter().for_each(|event| engine.observe(&event, &mut findings));
    traffic::sorted(findings).0
}

/// Returns `count` steps: decodes of 10 ms with prefills between them.
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

fn levels(engine: &Engine, server: &Server) -> Vec<(Phase, BaselineLevel)> {
    let mut levels: Vec<_> = engine.baseline_record(workload(server)).unwrap().levels().collect();
    levels.sort_by_key(|(phase, _)| *phase);
    levels
}

/// Returns an engine that has observed a server for 500 steps, and its encoded records.
fn learnt(server: &mut Server) -> (Engine, Vec<Vec<u8>>) {
    let mut engine = Engine::new(Settings::default());
    fed(&mut engine, [described(server)]);
    fed(&mut engine, served(server, 500));
    let records = engine.take_changed().into_iter().map(|id| engine.baseline_record(id).unwrap().encode());
    let records = records.collect();
    (engine, records)
}

#[test]
fn a_restarted_agent_judges_the_next_step_as_before() {
    let mut server = Server::new(7);
    let (before, records) = learnt(&mut server);
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
    assert!(!steps[0].causes.is_empty(), "usual quantities are restored, too");
    assert!(steps[1..].iter().all(|step| step.outlier == Outlier::None && step.baseline.is_some()));
}

#[test]
fn a_late_record_is_restored_to_a_running_process() {
    let mut server = Server::new(7);
    let (_, records) = learnt(&mut server);
    let mut engine = Engine::new(Settings::default());
    fed(&mut engine, [described(&server)]);
    fed(&mut engine, served(&mut server, 10));
    engine.restore(&BaselineRecord::decode(&records[0]).unwrap());
    let steps = fed(&mut engine, served(&mut server, 100));
    assert!(steps[1..].iter().all(|step| step.baseline.is_some_and(|level| level.count > 60)));
}

#[test]
fn learnt_baselines_are_not_replaced_by_stored_ones() {
    let mut server = Server::new(7);
    let (_, records) = learnt(&mut server);
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
fn the_next_process_of_a_workload_inherits_its_baselines() {
    let (mut old, mut new) = (Server::new(7), Server::new(8));
    new.addresses = 0x4_0000;
    let (mut engine, _) = learnt(&mut old);
    fed(&mut engine, [Event::Exit { process: old.process, at_ns: old.now_ns, status: ExitStatus::Unknown }]);
    new.now_ns = old.now_ns;
    fed(&mut engine, [described(&new)]);
    let steps = fed(&mut engine, served(&mut new, 300));
    assert!(steps.iter().all(|step| step.baseline.is_some() && step.outlier == Outlier::None));
    // Its graphs differ: until they are known, only steps of the highest bucket are outliers.
    let record = engine.baseline_record(workload(&new)).unwrap();
    assert_eq!(record.process, new.process);
}

/// While the agent was away, everything became twice as slow.
#[test]
fn an_outdated_baseline_is_replaced_within_200_steps() {
    let mut server = Server::new(7);
    let (_, records) = learnt(&mut server);
    let mut engine = Engine::new(Settings::default());
    engine.restore(&BaselineRecord::decode(&records[0]).unwrap());
    fed(&mut engine, [described(&server)]);
    let (mut findings, mut decodes, mut shifts) = (Vec::new(), Vec::new(), 0);
    for at in 0..1_000 {
        let (shape, ns) = match at % 5 {
            0 => (Shape::Prefill { tokens: 888 }, 180.0 * MS),
            _ => (Shape::Decode { batch: 32 }, 20.0 * MS),
        };
        engine.observe(&server.step(shape, ns), &mut findings);
        for finding in findings.drain(..) {
            match finding {
                Finding::Step(step) if step.phase == Phase::Decode => decodes.push(step.outlier),
                Finding::Step(_) => {}
                Finding::BaselineShift(_) => shifts += 1,
            }
        }
    }
    let last = decodes.iter().rposition(|outlier| *outlier != Outlier::None);
    assert!(last.is_some_and(|at| (100..200).contains(&at)), "{last:?}");
    assert_eq!(shifts, 2, "one for each phase");
}

#[test]
fn changes_are_returned_once_and_an_end_is_one() {
    let mut server = Server::new(7);
    let (mut engine, _) = learnt(&mut server);
    assert_eq!(engine.take_changed(), []);
    fed(&mut engine, served(&mut server, 3));
    assert_eq!(engine.take_changed(), [workload(&server)]);
    fed(&mut engine, served(&mut server, 3));
    engine.finish(&mut Vec::new());
    assert_eq!(engine.take_changed(), [workload(&server)]);
    assert!(engine.baseline_record(workload(&server)).is_some());
}

#[test]
fn warm_ups_and_undescribed_processes_have_no_record() {
    let mut engine = Engine::new(Settings::default());
    let (mut young, mut nameless) = (Server::new(7), Server::new(8));
    fed(&mut engine, [described(&young)]);
    fed(&mut engine, served(&mut young, 20));
    fed(&mut engine, served(&mut nameless, 500));
    engine.finish(&mut Vec::new());
    let records = engine.take_changed().into_iter().filter_map(|id| engine.baseline_record(id));
    assert_eq!(records.collect::<Vec<_>>(), []);
}

#[test]
fn baselines_by_fingerprint_are_restored_for_their_process() {
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
fn the_least_recently_used_records_are_evicted_and_counted() {
    let mut server = Server::new(7);
    let (_, records) = learnt(&mut server);
    let before = traffic::allocated_bytes();
    let mut engine = Engine::new(Settings { processes_max: 8, ..Settings::default() });
    for name in 0..100 {
        let mut record = BaselineRecord::decode(&records[0]).unwrap();
        record.workload = WorkloadId(name);
        engine.restore(&record);
    }
    assert_eq!(engine.tally().baselines_evicted, 92);
    let bytes = traffic::allocated_bytes() - before;
    assert!(bytes < 8 * 4096, "{bytes}");
    assert!(engine.baseline_record(WorkloadId(99)).is_some());
    let evicted = engine.take_changed();
    assert!(evicted.contains(&WorkloadId(0)) && engine.baseline_record(WorkloadId(0)).is_none());
}

#[test]
fn damaged_records_are_refused_with_a_reason() {
    let (_, records) = learnt(&mut Server::new(7));
    let whole = &records[0];
    let error = |bytes: &[u8]| BaselineRecord::decode(bytes).unwrap_err().to_string();
    assert!(error(b"WTFR").starts_with("not a baseline record: it begins with "));
    for at in 0..whole.len() {
        let mut bytes = whole.clone();
        bytes[at] ^= 0x10;
        assert!(BaselineRecord::decode(&bytes).is_err(), "byte {at}");
        assert!(BaselineRecord::decode(&whole[..at]).is_err(), "length {at}");
    }
}

proptest! {
    /// A valid frame with arbitrary fields is refused or sound, and never causes a panic.
    #[test]
    fn arbitrary_fields_are_refused_or_sound(changes in vec((any::<prop::sample::Index>(), any::<u8>()), 0..40)) {
        static RECORD: LazyLock<Vec<u8>> = LazyLock::new(|| learnt(&mut Server::new(7)).1.remove(0));
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
