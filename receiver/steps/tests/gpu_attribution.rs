//! The attribution of outliers to their GPU and to the throttling of its clocks.

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
/// The start of the slow step.
const SLOW_NS: u64 = BEGIN_NS + SLOW * 10 * MS;
const BEGIN_NS: u64 = 10 * SECOND;
/// Time between samples.
const SAMPLE_NS: u64 = 100 * MS;

/// Returns the steps of a process, one every ten milliseconds, on device number `device`; one takes `longer_ns` more.
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

/// Returns samples of a device that one reason throttled between two instants.
fn samples(device: u32, reason: ThrottleReason, from_ns: u64, to_ns: u64) -> Vec<Event> {
    let sample = |at: u64| {
        let (begin_ns, end_ns) = (BEGIN_NS + at * SAMPLE_NS, BEGIN_NS + (at + 1) * SAMPLE_NS);
        let ns = end_ns.min(to_ns).saturating_sub(begin_ns.max(from_ns));
        let throttled =
            (ns > 0).then_some(ThrottleTime { reason, ns, is_counted: true }).into_iter().collect();
        Event::Clocks(Clocks { from_ns: begin_ns, to_ns: end_ns, device, throttled })
    };
    (0..60).map(sample).collect()
}

/// Returns the slow step and the time of the event that reported it.
fn found(mut events: Vec<Event>) -> (Step, u64) {
    events.sort_by_key(|event| event.at_ns().unwrap_or(BEGIN_NS));
    let mut engine = Engine::new(Settings::default());
    let (mut findings, mut found, mut last) = (Vec::new(), Vec::new(), 0);
    let outlier = |finding| match finding {
        Finding::Step(step) if step.outlier != Outlier::None => Some(step),
        _ => None,
    };
    for event in &events {
        last = event.at_ns().unwrap_or(BEGIN_NS);
        engine.observe(event, &mut findings);
        found.extend(findings.drain(..).filter_map(outlier).map(|step| (step, last)));
    }
    engine.finish(&mut findings);
    found.extend(findings.into_iter().filter_map(outlier).map(|step| (step, last)));
    assert_eq!(found.len(), 1, "one step is slow: {found:#?}");
    found.pop().unwrap()
}

fn all(parts: [Vec<Event>; 2]) -> Vec<Event> {
    parts.concat()
}

#[test]
fn throttling_within_an_outlier_is_its_cause() {
    let throttled = samples(0, ThrottleReason::HwPowerBrake, SLOW_NS + 4 * MS, SLOW_NS + 35 * MS);
    let (step, at_ns) = found(all([steps(0, 31 * MS), [vec![device(0, &[PID])], throttled].concat()]));
    assert_eq!(step.start_ns, SLOW_NS);
    let [throttled] = step.throttled[..] else { panic!("{:?}", step.throttled) };
    assert_eq!((throttled.reason, throttled.is_counted), (ThrottleReason::HwPowerBrake, true));
    // The sample covers 100 ms, the step 41 of them: some of the 31 ms counted may be outside it.
    assert_eq!((throttled.at_least_ns, throttled.at_most_ns), (0, 31 * MS));
    assert!(throttled.ns.abs_diff(31 * MS * 41 / 100) < MS, "{throttled:?}");
    assert_eq!(step.cause(), CauseKind::Unknown);
    assert_eq!(step.causes[1].kind, CauseKind::Throttle);
    let gpu = step.gpu.unwrap();
    assert_eq!((gpu.id.as_str(), gpu.certainty), ("GPU-0", Certainty::Listed));
    // Reported at the first sample after its end.
    assert_eq!(at_ns, (step.end_ns - BEGIN_NS).div_ceil(SAMPLE_NS) * SAMPLE_NS + BEGIN_NS);
}

#[test]
fn throttling_of_whole_samples_is_exact() {
    let throttled = samples(0, ThrottleReason::HwThermal, SLOW_NS + 30 * MS, SLOW_NS + 330 * MS);
    let (step, _) = found(all([steps(0, 400 * MS), [vec![device(0, &[PID])], throttled].concat()]));
    let [throttled] = step.throttled[..] else { panic!("{:?}", step.throttled) };
    assert_eq!((throttled.ns, throttled.at_least_ns, throttled.at_most_ns), (300 * MS, 300 * MS, 300 * MS));
    assert_eq!(step.cause(), CauseKind::Throttle);
    assert!(
        step.causes[0]
            .evidence
            .starts_with("hw_thermal throttled the GPU's clocks for 300.00 ms, usually 0.00 ms")
    );
}

#[test]
fn permanent_throttling_is_not_a_cause() {
    let capped = samples(0, ThrottleReason::SwPowerCap, 0, u64::MAX);
    let (step, _) = found(all([steps(0, 31 * MS), [vec![device(0, &[PID])], capped].concat()]));
    assert_eq!(step.throttled[0].ns, step.duration_ns);
    assert!(step.causes.iter().all(|cause| cause.kind != CauseKind::Throttle), "{:?}", step.causes);
}

#[test]
fn throttling_of_another_gpu_is_not_a_cause() {
    let devices = vec![device(0, &[PID]), device(1, &[])];
    let (idle, throttled) = (
        samples(0, ThrottleReason::Hw, 0, 0),
        samples(1, ThrottleReason::HwPowerBrake, SLOW_NS, SLOW_NS + SECOND),
    );
    let (step, _) = found([steps(0, 400 * MS), devices, idle, throttled].concat());
    assert_eq!(
        (step.gpu.as_ref().map(|gpu| gpu.index), step.throttled.clone(), step.cause()),
        (Some(0), vec![], CauseKind::Unknown)
    );
}

#[test]
fn an_outlier_does_not_wait_without_samples() {
    let (step, at_ns) = found(steps(0, 31 * MS));
    assert_eq!((step.gpu, step.throttled), (None, vec![]));
    assert!(at_ns < step.end_ns + SECOND);
    // A driver that stopped answering: the outlier waits one second at most.
    let mut early = samples(0, ThrottleReason::Hw, 0, 0);
    early.truncate(5);
    let (step, at_ns) = found(all([steps(0, 31 * MS), [vec![device(0, &[PID])], early].concat()]));
    assert!(
        at_ns > step.end_ns + SECOND - 100 * MS || at_ns == BEGIN_NS + (SLOW + 100) * 10 * MS + 31 * MS,
        "{at_ns}"
    );
    assert_eq!(step.throttled, []);
}

/// Returns which of four devices a step on device `number` of its process is attributed to.
fn resolved(number: i32, variables: &[(&str, &str)], listed: &[u32]) -> Option<(u32, Certainty)> {
    let devices: Vec<Event> =
        (0..4).map(|index| device(index, if listed.contains(&index) { &[PID] } else { &[] })).collect();
    let sampled: Vec<Event> = (0..4).flat_map(|index| samples(index, ThrottleReason::Hw, 0, 0)).collect();
    let process = ProcessId { pid: PID, start_ns: 5 };
    let variables = variables.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    let launched = Event::LauncherEnv(Box::new(LauncherEnv { process, at_ns: BEGIN_NS, variables }));
    let (step, _) = found([vec![launched], devices, sampled, steps(number, 400 * MS)].concat());
    step.gpu.map(|gpu| (gpu.index, gpu.certainty))
}

#[test]
fn the_gpu_of_a_step_has_the_best_evidence() {
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
    // HIP numbers the devices that ROCm leaves, in its order.
    assert_eq!(resolved(0, &[hip("1"), rocr("3,2")], &[]), Some((2, Certainty::Visible)));
    assert_eq!(resolved(0, &[hip("1"), cuda("2")], &[]), Some((1, Certainty::Visible)));
    assert_eq!(resolved(0, &[hip("1"), rocr("GPU-unknown,2")], &[]), None);
    // The variable contradicts the driver or names no device, or the number is not known.
    assert_eq!(resolved(0, &[cuda("0")], &[1, 2]), None);
    assert_eq!(resolved(5, &[cuda("0,1")], &[]), None);
    assert_eq!(resolved(-1, &[], &[]), None);
}

/// Returns the findings on a server whose GPU is throttled for one of two minutes, in which every step takes 1.8 times as
/// long. Its clocks are sampled every 100 ms; `is_sampled` if the samples show the throttling.
fn throttled_for_a_minute(is_sampled: bool) -> (Vec<Step>, Vec<steps::BaselineShift>) {
    const THROTTLED: std::ops::Range<u64> = BEGIN_NS + 60 * SECOND..BEGIN_NS + 120 * SECOND;
    let (mut server, mut rng) = (Server::new(PID), Rng::new(3));
    let mut all = vec![device(0, &[PID])];
    for at in 0.. {
        if server.now_ns > THROTTLED.end + 20 * SECOND {
            break;
        }
        let shape = match at % 5 {
            0 => Shape::Prefill { tokens: 888 },
            _ => Shape::Decode { batch: 32 },
        };
        let usual = if matches!(shape, Shape::Prefill { .. }) { 60.0 } else { 10.0 };
        let slow = if THROTTLED.contains(&server.now_ns) { 1.8 } else { 1.0 };
        all.push(server.step(shape, usual * traffic::MS * slow * rng.uniform(0.97, 1.03)));
    }
    for at in 0..1_500 {
        let (from_ns, to_ns) = (BEGIN_NS + at * SAMPLE_NS, BEGIN_NS + (at + 1) * SAMPLE_NS);
        let throttled =
            ThrottleTime { reason: ThrottleReason::HwPowerBrake, ns: SAMPLE_NS, is_counted: true };
        let throttled =
            (is_sampled && THROTTLED.contains(&from_ns)).then_some(throttled).into_iter().collect();
        all.push(Event::Clocks(Clocks { from_ns, to_ns, device: 0, throttled }));
    }
    all.sort_by_key(|event| event.at_ns().unwrap_or(BEGIN_NS));
    let (mut steps, shifts) = traffic::found(&mut Engine::new(Settings::default()), &all);
    steps.sort_by_key(|step| step.start_ns);
    (steps, shifts)
}

/// Returns the steps within the throttled minute, except a tenth of a second at its edges.
fn in_throttled_minute(steps: &[Step]) -> impl Iterator<Item = &Step> {
    let (from_ns, to_ns) = (BEGIN_NS + 60 * SECOND + SAMPLE_NS, BEGIN_NS + 120 * SECOND - SAMPLE_NS);
    let is_inside = move |step: &&Step| step.start_ns > from_ns && step.end_ns < to_ns;
    assert!(steps.iter().filter(is_inside).count() > 1_500);
    steps.iter().filter(is_inside)
}

fn p95_of(steps: &[Step], phase: Phase, from_ns: u64) -> f64 {
    let of_phase = |step: &&Step| step.phase == phase && step.start_ns >= from_ns;
    steps.iter().find(of_phase).unwrap().baseline.unwrap().p95_ns
}

#[test]
fn a_throttled_minute_is_reported_and_not_learnt() {
    let (steps, shifts) = throttled_for_a_minute(true);
    assert_eq!(shifts, []);
    for step in in_throttled_minute(&steps) {
        assert_eq!((step.outlier, step.cause()), (Outlier::Ratio15, CauseKind::Throttle), "{step:?}");
    }
    for phase in [Phase::Decode, Phase::Prefill] {
        let [before, after] = [60, 121].map(|at| p95_of(&steps, phase, BEGIN_NS + at * SECOND));
        assert!((after / before - 1.0).abs() < 0.005, "{phase:?}: {before}, then {after}");
    }
    let after = steps.iter().filter(|step| step.start_ns > BEGIN_NS + 120 * SECOND + SAMPLE_NS);
    assert!(after.clone().count() > 500 && after.clone().all(|step| step.outlier == Outlier::None));
}

#[test]
fn an_unsampled_slow_minute_is_learnt_as_a_change() {
    let (steps, shifts) = throttled_for_a_minute(false);
    let decodes = shifts.iter().filter(|shift| shift.phase == Phase::Decode);
    // Once at the start of the throttling, once at its end.
    assert_eq!(decodes.count(), 2);
    let flagged = in_throttled_minute(&steps)
        .filter(|step| step.outlier != Outlier::None && step.phase == Phase::Decode);
    assert!((100..=200).contains(&flagged.count()));
}

#[test]
fn only_unusual_throttling_is_a_cause() {
    let both =
        samples(0, ThrottleReason::HwPowerBrake, SLOW_NS, SLOW_NS + 390 * MS).into_iter().map(|sample| {
            let Event::Clocks(mut clocks) = sample else { panic!("a sample") };
            clocks.throttled.push(ThrottleTime {
                reason: ThrottleReason::SwPowerCap,
                ns: SAMPLE_NS,
                is_counted: true,
            });
            Event::Clocks(clocks)
        });
    let (step, _) = found(all([steps(0, 400 * MS), [vec![device(0, &[PID])], both.collect()].concat()]));
    assert_eq!(step.throttled[0].reason, ThrottleReason::SwPowerCap, "longest");
    assert_eq!(step.cause(), CauseKind::Throttle);
    assert!(step.causes[0].evidence.starts_with("hw_power_brake throttled"), "{:?}", step.causes);
}

/// Samples of any length, in any order, with any throttled time.
fn any_sample() -> impl Strategy<Value = Event> {
    let times = (0..60u64, any::<u64>(), any::<bool>());
    (times, 0..3u32, 0..ThrottleReason::ALL.len(), any::<u64>()).prop_map(|(times, device, reason, ns)| {
        let from_ns = BEGIN_NS + times.0 * SAMPLE_NS;
        let to_ns = if times.2 { from_ns + SAMPLE_NS } else { times.1 };
        let throttled = vec![ThrottleTime { reason: ThrottleReason::ALL[reason], ns, is_counted: true }];
        Event::Clocks(Clocks { from_ns, to_ns, device, throttled })
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    /// With any samples, every step is reported once, with valid shares.
    #[test]
    fn arbitrary_samples_lose_no_step(samples in vec((0..400usize, any_sample()), 0..60)) {
        let mut all = vec![device(0, &[PID]), device(1, &[])];
        all.extend(steps(0, 31 * MS));
        samples.into_iter().for_each(|(at, sample)| all.insert(at, sample));
        let (mut found, _) = traffic::found(&mut Engine::new(Settings::default()), &all);
        found.sort_by_key(|step| step.sequence);
        prop_assert_eq!(found.iter().map(|step| step.sequence).collect::<Vec<_>>(), (0..SLOW + 100).collect::<Vec<_>>());
        for step in &found {
            let shares = ThrottleReason::ALL.map(|reason| step.usually_throttled.of(reason));
            prop_assert!(shares.iter().all(|share| (0.0..=1.0).contains(share)), "{:?}", step);
        }
    }
}
