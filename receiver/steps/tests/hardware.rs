//! Outliers and the clocks of their GPU: what held them down, for how long of the step, how sure that is, and where.

#![allow(clippy::unwrap_used, reason = "a panic in a test is its report")]

mod traffic;

use event::{Clocks, Device, Event, LauncherEnv, ProcessId, ThrottleReason, ThrottleTime};
use probe_abi::fold::Counter;
use probe_abi::record::StepRecord;
use proptest::collection::vec;
use proptest::prelude::*;
use steps::{CauseKind, Certainty, Engine, Finding, Outlier, Phase, Settings, Step};
use traffic::{Rng, Server, Shape};

const MS: u64 = 1_000_000;
const SECOND: u64 = 1_000_000_000;
/// `cudaStreamSynchronize`.
const STREAM_SYNC: u16 = 30;
const PID: u32 = 7;
/// The number of the step that takes long.
const SLOW: u64 = 300;
/// When it begins.
const SLOW_NS: u64 = BEGIN_NS + SLOW * 10 * MS;
const BEGIN_NS: u64 = 10 * SECOND;
/// Time between looks.
const LOOK_NS: u64 = 100 * MS;

/// A process that does a step every ten milliseconds, on this device of its own; one takes as much longer as told.
fn steps(device: i32, longer_ns: u64) -> Vec<Event> {
    let mut now_ns = BEGIN_NS;
    let step = |sequence: u64| {
        let mut record = StepRecord { stream: 1, sequence, device, first_tid: PID, ..StepRecord::default() };
        record.previous_exit_ns = if sequence == 0 { 0 } else { now_ns };
        record.first_ns = now_ns;
        record.header.row = STREAM_SYNC;
        (record.header.pid, record.header.tid, record.header.process_start_ns) = (PID, PID, 5);
        record.header.entry_ns = now_ns + 2 * MS;
        record.header.duration_ns = 8 * MS + if sequence == SLOW { longer_ns } else { 0 };
        record.work[Counter::Launches as usize] = 100;
        record.work[Counter::Threads as usize] = 1 << 20;
        record.work[Counter::Enqueues as usize] = 100;
        (record.enqueued_since_sync, record.process_enqueued_since_sync) = (100, 100);
        now_ns = record.header.entry_ns + record.header.duration_ns;
        Event::Step(record)
    };
    (0..SLOW + 100).map(step).collect()
}

fn device(index: u32, processes: &[u32]) -> Event {
    let id = format!("GPU-{index}");
    Event::Device(Box::new(Device {
        at_ns: BEGIN_NS,
        index,
        id,
        pci: String::new(),
        processes: processes.to_vec(),
    }))
}

/// Looks at a device on which one reason held the clocks down between two instants.
fn looks(device: u32, reason: ThrottleReason, from_ns: u64, to_ns: u64) -> Vec<Event> {
    let look = |at: u64| {
        let (begin_ns, end_ns) = (BEGIN_NS + at * LOOK_NS, BEGIN_NS + (at + 1) * LOOK_NS);
        let ns = end_ns.min(to_ns).saturating_sub(begin_ns.max(from_ns));
        let held = (ns > 0).then_some(ThrottleTime { reason, ns, is_counted: true }).into_iter().collect();
        Event::Clocks(Clocks { from_ns: begin_ns, to_ns: end_ns, device, throttled: held })
    };
    (0..60).map(look).collect()
}

/// The slow step, and when it was found, as the time of the event that brought it.
fn found(mut events: Vec<Event>) -> (Step, u64) {
    events.sort_by_key(|event| event.at_ns().unwrap_or(BEGIN_NS));
    let mut engine = Engine::new(Settings::default());
    let mut found = Vec::new();
    let take = |finding: Finding, at: u64, found: &mut Vec<(Step, u64)>| match finding {
        Finding::Step(step) if step.outlier != Outlier::None => found.push((step, at)),
        _ => {}
    };
    let mut last = 0;
    for event in &events {
        last = event.at_ns().unwrap_or(BEGIN_NS);
        engine.observe(event, &mut |finding| take(finding, last, &mut found));
    }
    engine.finish(&mut |finding| take(finding, last, &mut found));
    assert_eq!(found.len(), 1, "one step is slow: {found:#?}");
    found.pop().unwrap()
}

fn all(parts: [Vec<Event>; 2]) -> Vec<Event> {
    parts.concat()
}

#[test]
fn a_brake_within_an_outlier_is_its_cause_with_the_time_that_it_took() {
    let brake = looks(0, ThrottleReason::HwPowerBrake, SLOW_NS + 4 * MS, SLOW_NS + 35 * MS);
    let (step, at_ns) = found(all([steps(0, 31 * MS), [vec![device(0, &[PID])], brake].concat()]));
    assert_eq!(step.start_ns, SLOW_NS);
    let [throttled] = step.throttled[..] else { panic!("{:?}", step.throttled) };
    assert_eq!((throttled.reason, throttled.is_counted), (ThrottleReason::HwPowerBrake, true));
    // The look took 100 ms, the step 41 of them: of the 31 ms counted some may lie outside it.
    assert_eq!((throttled.at_least_ns, throttled.at_most_ns), (0, 31 * MS));
    assert!(throttled.ns.abs_diff(31 * MS * 41 / 100) < MS, "{throttled:?}");
    assert_eq!(step.cause(), CauseKind::Unknown);
    assert_eq!(step.causes[1].kind, CauseKind::Throttle);
    let gpu = step.gpu.unwrap();
    assert_eq!((gpu.id.as_str(), gpu.certainty), ("GPU-0", Certainty::Listed));
    // Known at the first look behind its end, and not before.
    assert_eq!(at_ns, (step.end_ns - BEGIN_NS).div_ceil(LOOK_NS) * LOOK_NS + BEGIN_NS);
}

#[test]
fn a_step_that_covers_its_looks_is_told_exactly() {
    let brake = looks(0, ThrottleReason::HwThermal, SLOW_NS + 30 * MS, SLOW_NS + 330 * MS);
    let (step, _) = found(all([steps(0, 400 * MS), [vec![device(0, &[PID])], brake].concat()]));
    let [throttled] = step.throttled[..] else { panic!("{:?}", step.throttled) };
    assert_eq!((throttled.ns, throttled.at_least_ns, throttled.at_most_ns), (300 * MS, 300 * MS, 300 * MS));
    assert_eq!(step.cause(), CauseKind::Throttle);
    assert!(
        step.causes[0]
            .evidence
            .starts_with("hw_thermal held the GPU's clocks down for 300.00 ms, usually 0.00 ms")
    );
}

#[test]
fn what_always_holds_the_clocks_down_is_no_cause() {
    let capped = looks(0, ThrottleReason::SwPowerCap, 0, u64::MAX);
    let (step, _) = found(all([steps(0, 31 * MS), [vec![device(0, &[PID])], capped].concat()]));
    assert_eq!(step.throttled[0].ns, step.duration_ns);
    assert!(step.causes.iter().all(|cause| cause.kind != CauseKind::Throttle), "{:?}", step.causes);
}

#[test]
fn another_gpu_that_brakes_is_no_cause() {
    let devices = vec![device(0, &[PID]), device(1, &[])];
    let (idle, brake) = (
        looks(0, ThrottleReason::Hw, 0, 0),
        looks(1, ThrottleReason::HwPowerBrake, SLOW_NS, SLOW_NS + SECOND),
    );
    let (step, _) = found([steps(0, 400 * MS), devices, idle, brake].concat());
    assert_eq!(
        (step.gpu.as_ref().map(|gpu| gpu.index), step.throttled.clone(), step.cause()),
        (Some(0), vec![], CauseKind::Unknown)
    );
}

#[test]
fn without_a_look_there_is_no_evidence_and_an_outlier_does_not_wait_for_one() {
    let (step, at_ns) = found(steps(0, 31 * MS));
    assert_eq!((step.gpu, step.throttled), (None, vec![]));
    assert!(at_ns < step.end_ns + SECOND);
    // A driver that stopped answering: a second, and no longer.
    let mut early = looks(0, ThrottleReason::Hw, 0, 0);
    early.truncate(5);
    let (step, at_ns) = found(all([steps(0, 31 * MS), [vec![device(0, &[PID])], early].concat()]));
    assert!(
        at_ns > step.end_ns + SECOND - 100 * MS || at_ns == BEGIN_NS + (SLOW + 100) * 10 * MS + 31 * MS,
        "{at_ns}"
    );
    assert_eq!(step.throttled, []);
}

/// Which of four devices a step on device `number` of its process ran on.
fn resolved(number: i32, variables: &[(&str, &str)], listed: &[u32]) -> Option<(u32, Certainty)> {
    let devices: Vec<Event> =
        (0..4).map(|index| device(index, if listed.contains(&index) { &[PID] } else { &[] })).collect();
    let looked: Vec<Event> = (0..4).flat_map(|index| looks(index, ThrottleReason::Hw, 0, 0)).collect();
    let process = ProcessId { pid: PID, start_ns: 5 };
    let variables = variables.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    let told = Event::LauncherEnv(Box::new(LauncherEnv { process, at_ns: BEGIN_NS, variables }));
    let (step, _) = found([vec![told], devices, looked, steps(number, 400 * MS)].concat());
    step.gpu.map(|gpu| (gpu.index, gpu.certainty))
}

#[test]
fn the_gpu_of_a_step_is_found_by_what_is_surest() {
    let cuda = |list: &'static str| ("CUDA_VISIBLE_DEVICES", list);
    let container = |list: &'static str| ("NVIDIA_VISIBLE_DEVICES", list);
    assert_eq!(resolved(0, &[cuda("3")], &[2]), Some((2, Certainty::Listed)));
    assert_eq!(resolved(1, &[cuda("3,1")], &[1, 3]), Some((1, Certainty::Visible)));
    assert_eq!(resolved(0, &[cuda("GPU-2,GPU-0")], &[]), Some((2, Certainty::Visible)));
    assert_eq!(resolved(0, &[container("GPU-3,GPU-1")], &[]), Some((1, Certainty::Visible)));
    assert_eq!(resolved(0, &[cuda("1"), container("2,3")], &[]), Some((3, Certainty::Visible)));
    assert_eq!(resolved(2, &[container("all")], &[]), Some((2, Certainty::Order)));
    let hip = |list: &'static str| ("HIP_VISIBLE_DEVICES", list);
    let rocr = |list: &'static str| ("ROCR_VISIBLE_DEVICES", list);
    assert_eq!(resolved(1, &[hip("3,1")], &[]), Some((1, Certainty::Visible)));
    assert_eq!(resolved(0, &[rocr("3,1")], &[]), Some((3, Certainty::Visible)));
    // HIP counts what ROCm leaves, in its order.
    assert_eq!(resolved(0, &[hip("1"), rocr("3,2")], &[]), Some((2, Certainty::Visible)));
    assert_eq!(resolved(0, &[hip("1"), cuda("2")], &[]), Some((1, Certainty::Visible)));
    assert_eq!(resolved(0, &[hip("1"), rocr("GPU-unheard-of,2")], &[]), None);
    // What is told contradicts what the driver lists, names nothing, or the number is not known.
    assert_eq!(resolved(0, &[cuda("0")], &[1, 2]), None);
    assert_eq!(resolved(5, &[cuda("0,1")], &[]), None);
    assert_eq!(resolved(-1, &[], &[]), None);
}

/// A server that decodes and prefills for two minutes, and whose GPU brakes for one of them: every step takes 1.8 times
/// as long. Who looks at its clocks, every 100 ms, sees the brake, or nothing.
fn braked_for_a_minute(sees_brake: bool) -> (Vec<Step>, Vec<steps::BaselineShift>) {
    const BRAKE: std::ops::Range<u64> = BEGIN_NS + 60 * SECOND..BEGIN_NS + 120 * SECOND;
    let (mut server, mut rng) = (Server::new(PID), Rng::new(3));
    let mut all = vec![device(0, &[PID])];
    for at in 0.. {
        if server.now_ns > BRAKE.end + 20 * SECOND {
            break;
        }
        let shape = match at % 5 {
            0 => Shape::Prefill { tokens: 888 },
            _ => Shape::Decode { batch: 32 },
        };
        let usual = if matches!(shape, Shape::Prefill { .. }) { 60.0 } else { 10.0 };
        let slow = if BRAKE.contains(&server.now_ns) { 1.8 } else { 1.0 };
        all.push(server.step(shape, usual * traffic::MS * slow * rng.uniform(0.97, 1.03)));
    }
    for at in 0..1_500 {
        let (from_ns, to_ns) = (BEGIN_NS + at * LOOK_NS, BEGIN_NS + (at + 1) * LOOK_NS);
        let held = ThrottleTime { reason: ThrottleReason::HwPowerBrake, ns: LOOK_NS, is_counted: true };
        let held = (sees_brake && BRAKE.contains(&from_ns)).then_some(held).into_iter().collect();
        all.push(Event::Clocks(Clocks { from_ns, to_ns, device: 0, throttled: held }));
    }
    all.sort_by_key(|event| event.at_ns().unwrap_or(BEGIN_NS));
    let (mut engine, mut steps, mut shifts) = (Engine::new(Settings::default()), Vec::new(), Vec::new());
    let mut take = |finding| match finding {
        Finding::Step(step) => steps.push(step),
        Finding::BaselineShift(shift) => shifts.push(shift),
    };
    all.iter().for_each(|event| engine.observe(event, &mut take));
    engine.finish(&mut take);
    steps.sort_by_key(|step| step.start_ns);
    (steps, shifts)
}

/// Steps in the minute of the brake, of which a tenth of a second at its edges is left out.
fn in_brake(steps: &[Step]) -> impl Iterator<Item = &Step> {
    let (from_ns, to_ns) = (BEGIN_NS + 60 * SECOND + LOOK_NS, BEGIN_NS + 120 * SECOND - LOOK_NS);
    let is_inside = move |step: &&Step| step.start_ns > from_ns && step.end_ns < to_ns;
    assert!(steps.iter().filter(is_inside).count() > 1_500);
    steps.iter().filter(is_inside)
}

fn p95_of(steps: &[Step], phase: Phase, from_ns: u64) -> f64 {
    let of_phase = |step: &&Step| step.phase == phase && step.start_ns >= from_ns;
    steps.iter().find(of_phase).unwrap().baseline.unwrap().p95_ns
}

#[test]
fn a_minute_of_brake_is_flagged_throughout_with_its_cause_and_teaches_nothing() {
    let (steps, shifts) = braked_for_a_minute(true);
    assert_eq!(shifts, []);
    for step in in_brake(&steps) {
        assert_eq!((step.outlier, step.cause()), (Outlier::Ratio15, CauseKind::Throttle), "{step:?}");
    }
    for phase in [Phase::Decode, Phase::Prefill] {
        let [before, after] = [60, 121].map(|at| p95_of(&steps, phase, BEGIN_NS + at * SECOND));
        assert!((after / before - 1.0).abs() < 0.005, "{phase:?}: {before}, then {after}");
    }
    let after = steps.iter().filter(|step| step.start_ns > BEGIN_NS + 120 * SECOND + LOOK_NS);
    assert!(after.clone().count() > 500 && after.clone().all(|step| step.outlier == Outlier::None));
}

#[test]
fn the_same_minute_without_a_look_at_the_clocks_is_learnt_as_a_lasting_change() {
    let (steps, shifts) = braked_for_a_minute(false);
    let decodes = shifts.iter().filter(|shift| shift.phase == Phase::Decode);
    // Once when the brake comes, once when it goes.
    assert_eq!(decodes.count(), 2);
    let flagged =
        in_brake(&steps).filter(|step| step.outlier != Outlier::None && step.phase == Phase::Decode);
    assert!((100..=200).contains(&flagged.count()));
}

/// What always holds the clocks down is usual, and a brake on top of it is not.
#[test]
fn a_brake_of_a_gpu_at_its_power_limit_is_the_cause_and_the_limit_is_not() {
    let both = looks(0, ThrottleReason::HwPowerBrake, SLOW_NS, SLOW_NS + 390 * MS).into_iter().map(|look| {
        let Event::Clocks(mut clocks) = look else { panic!("a look") };
        clocks.throttled.push(ThrottleTime {
            reason: ThrottleReason::SwPowerCap,
            ns: LOOK_NS,
            is_counted: true,
        });
        Event::Clocks(clocks)
    });
    let (step, _) = found(all([steps(0, 400 * MS), [vec![device(0, &[PID])], both.collect()].concat()]));
    assert_eq!(step.throttled[0].reason, ThrottleReason::SwPowerCap, "longest");
    assert_eq!(step.cause(), CauseKind::Throttle);
    assert!(step.causes[0].evidence.starts_with("hw_power_brake held"), "{:?}", step.causes);
}

/// Looks of any length, in any order, with any time held in them.
fn any_look() -> impl Strategy<Value = Event> {
    let times = (0..60u64, any::<u64>(), any::<bool>());
    (times, 0..3u32, 0..ThrottleReason::ALL.len(), any::<u64>()).prop_map(|(times, device, reason, ns)| {
        let from_ns = BEGIN_NS + times.0 * LOOK_NS;
        let to_ns = if times.2 { from_ns + LOOK_NS } else { times.1 };
        let held = vec![ThrottleTime { reason: ThrottleReason::ALL[reason], ns, is_counted: true }];
        Event::Clocks(Clocks { from_ns, to_ns, device, throttled: held })
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    /// Whatever a driver tells, every step comes out once, with shares that are shares.
    #[test]
    fn no_look_whatever_loses_a_step(looks in vec((0..400usize, any_look()), 0..60)) {
        let mut all = vec![device(0, &[PID]), device(1, &[])];
        all.extend(steps(0, 31 * MS));
        looks.into_iter().for_each(|(at, look)| all.insert(at, look));
        let (mut engine, mut found) = (Engine::new(Settings::default()), Vec::new());
        let mut take = |finding| if let Finding::Step(step) = finding { found.push(step) };
        all.iter().for_each(|event| engine.observe(event, &mut take));
        engine.finish(&mut take);
        found.sort_by_key(|step| step.sequence);
        prop_assert_eq!(found.iter().map(|step| step.sequence).collect::<Vec<_>>(), (0..SLOW + 100).collect::<Vec<_>>());
        for step in &found {
            let shares = ThrottleReason::ALL.map(|reason| step.usually_throttled.of(reason));
            prop_assert!(shares.iter().all(|share| (0.0..=1.0).contains(share)), "{:?}", step);
        }
    }
}
