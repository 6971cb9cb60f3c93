//! Attachment in the middle of a job, as root: the waits and verdicts that are reported, compared with the logs of the
//! ranks themselves.
//!
//! `WARPTAP_LATE_ROUNDS` sets the number of rounds, `WARPTAP_LATE_SEED` the seed of their moments. Without permission to
//! load eBPF programs, every test prints so and passes.

#![allow(clippy::unwrap_used, clippy::print_stdout, clippy::panic, dead_code, reason = "a test")]

mod restart;
#[path = "../../../capture/tests/live/rig.rs"]
mod rig;

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use capture::Settings;
use event::Event;
use gpu::{Analyzer, Found};
use nccl::Finding;
use nccl::finding::{Completed, Straggler};
use probe_abi::fold::mix;
use simulator::oracle::{Line, NcclLine, WaitLine, read};
use steps::Step;

use rig::Rig;

/// Eight ranks, of which rank 5 is late. The others differ by up to a millisecond.
const JOB: &str = "\
ranks 8
seed 23
comm world
repeat 3600s
  sleep 14ms..15ms
  late 5ms only=5
  allreduce world 1048576 bfloat16 sum
  sync
end
";
const LATE_RANK: u32 = 5;
/// Largest difference between a reported wait and that of the rank's own log.
const TOLERANCE_NS: u64 = 50_000;
/// Share of the waits, in hundredths, that may differ by more: a thread can lose its CPU between a call's return and the
/// time that it logs.
const INTERRUPTED_MAX: usize = 2;

/// The entry point of a player process; not a test.
#[test]
fn player_process() {
    simulator::player::main_by_variable(rig::PLAYER);
}

/// What an analysis reports of some processes.
#[derive(Default)]
struct Reported {
    waits: Vec<Completed>,
    stragglers: Vec<Straggler>,
    steps: Vec<Step>,
}

impl Reported {
    fn of(events: &[Event], pids: &[u32]) -> Reported {
        let mut analyzer = Analyzer::new(gpu::Settings::default());
        let mut reported = Reported::default();
        for event in events {
            analyzer.observe_with(event, &mut |_| {}, &mut |found| reported.take(found, pids));
        }
        analyzer.finish_with(&mut |_| {}, &mut |found| reported.take(found, pids));
        reported
    }

    fn take(&mut self, found: Found<'_>, pids: &[u32]) {
        match found {
            Found::Collective(Finding::Completed(c)) if pids.contains(&c.who.process.pid) => {
                self.waits.push(*c);
            }
            Found::Collective(Finding::Straggler(s)) if pids.contains(&s.who.process.pid) => {
                self.stragglers.push((**s).clone());
            }
            Found::Step(steps::Finding::Step(s)) if pids.contains(&s.process.pid) && !s.is_unfinished => {
                self.steps.push(s.clone());
            }
            _ => {}
        }
    }
}

/// The collectives of one rank and the waits for them, by its own log.
#[derive(Default)]
struct RankLog {
    operations: Vec<NcclLine>,
    waits: BTreeMap<u64, WaitLine>,
}

impl RankLog {
    /// Returns the collective that was under way at this time, and the wait for it.
    fn at(&self, ns: u64) -> Option<(&NcclLine, &WaitLine)> {
        let operation = self.operations.iter().find(|o| (o.entry_ns..=o.exit_ns).contains(&ns))?;
        Some((operation, self.waits.get(&operation.seq?)?))
    }
}

fn logs(rig: &Rig) -> BTreeMap<u32, RankLog> {
    let mut logs: BTreeMap<u32, RankLog> = BTreeMap::new();
    for line in read(&rig.oracle()).unwrap() {
        match line {
            Line::Nccl(line) if line.seq.is_some() => {
                logs.entry(line.pid).or_default().operations.push(line);
            }
            Line::Wait(wait) => {
                let log = logs.entry(wait.pid).or_default();
                log.waits.extend(wait.covers.iter().map(|(_, seq)| (*seq, wait.clone())));
            }
            _ => {}
        }
    }
    logs
}

/// Reads events for some time.
fn read_for(rig: &mut Rig, time: Duration) {
    let began = Instant::now();
    rig.wait("the time to pass", |_| began.elapsed() >= time);
}

/// Starts the job, attaches after some time, and returns the rig, the pids of the ranks, and when it attached. Attaches to
/// each process in turn, or to all as an agent that starts.
fn attach_late(name: &str, after: Duration, to_all: bool) -> Option<(Rig, Vec<u32>, u64)> {
    let mut rig = rig::rig(name, &rig::settings())?;
    let (mut player, ranks) = rig.unattached_ranks(JOB);
    player.go().unwrap();
    read_for(&mut rig, after);
    let began_ns = capture::now_ns();
    if to_all {
        rig.capture = capture::Capture::start(&Settings { linger_ns: 0, ..Settings::default() }).unwrap();
    } else {
        ranks.iter().for_each(|pid| rig.capture.trace(*pid).unwrap());
    }
    read_for(&mut rig, Duration::from_secs(3));
    drop(player);
    Some((rig, ranks, began_ns))
}

/// Checks each reported wait, and returns their differences from the rank's own log, ns.
fn check_waits(reported: &Reported, logs: &BTreeMap<u32, RankLog>, began_ns: u64) -> Vec<u64> {
    let difference = |c: &Completed| {
        assert!(c.op.entry_ns >= began_ns, "began before the probes: {c:?}");
        let (operation, wait) = logs[&c.who.process.pid].at(c.op.entry_ns)?;
        let truth_ns = wait.exit_ns - operation.exit_ns;
        // Both ends are within the calls, so that a difference is time that the rank lost before it logged.
        assert!(wait.enter_ns < c.end_ns && c.end_ns <= wait.exit_ns, "{c:?} is not the wait {wait:?}");
        assert!(c.op.enqueued_ns <= operation.exit_ns, "{c:?} is not the collective {operation:?}");
        Some(c.barrier_wait_ns.abs_diff(truth_ns))
    };
    // The last wait of each rank is logged after it ended, when the job may have been killed.
    reported.waits.iter().filter_map(difference).collect()
}

/// Checks that each step is one collective and the wait for it, and each gap the time between two of them.
fn check_steps(reported: &Reported, logs: &BTreeMap<u32, RankLog>) {
    for step in &reported.steps {
        let log = &logs[&step.process.pid];
        let Some((operation, wait)) = log.at(step.start_ns) else { continue };
        assert!(wait.enter_ns < step.end_ns && step.end_ns <= wait.exit_ns, "{step:?}: {wait:?}");
        let previous = operation.seq.and_then(|seq| log.waits.get(&seq.checked_sub(1)?));
        let Some(previous) = previous.filter(|_| step.gap_ns > 0) else { continue };
        let returned_ns = step.start_ns - step.gap_ns;
        assert!((previous.enter_ns..=previous.exit_ns).contains(&returned_ns), "{step:?}: {previous:?}");
    }
}

fn check_round(round: u64, seed: u64) -> bool {
    let random = mix(seed.wrapping_add(round));
    let (after, to_all) = (Duration::from_micros(100_000 + random % 1_900_000), random >> 40 & 1 == 1);
    let Some((rig, ranks, began_ns)) = attach_late(&format!("late-ranks-{round}"), after, to_all) else {
        return false;
    };
    let (reported, logs) = (Reported::of(&rig.events, &ranks), logs(&rig));
    let way = format!("attached after {after:?}{}", if to_all { " to all" } else { "" });
    check_reported(&format!("round {round}, {way}"), &reported, &logs, began_ns);
    check_sums(&reported, &ranks);
    true
}

/// Checks all waits, steps and verdicts of a round.
fn check_reported(round: &str, reported: &Reported, logs: &BTreeMap<u32, RankLog>, began_ns: u64) {
    let mut differences = check_waits(reported, logs, began_ns);
    check_steps(reported, logs);
    differences.sort_unstable();
    let over = differences.iter().filter(|ns| **ns > TOLERANCE_NS).count();
    let summary = format!(
        "{round}: {} waits, {} steps, {} verdicts; differences of waits: median {} us, p99 {} us, max {} us, {over} over \
         {} us",
        differences.len(),
        reported.steps.len(),
        reported.stragglers.len(),
        differences[differences.len() / 2] / 1_000,
        differences[differences.len() * 99 / 100] / 1_000,
        differences[differences.len() - 1] / 1_000,
        TOLERANCE_NS / 1_000,
    );
    println!("{summary}");
    assert!(over * 100 <= INTERRUPTED_MAX * differences.len(), "{summary}");
    assert!(!reported.stragglers.is_empty(), "no verdict: {summary}");
    for straggler in &reported.stragglers {
        assert_eq!(straggler.who.rank.value, Some(LATE_RANK), "{straggler:?}");
    }
}

/// The late rank waits least.
fn check_sums(reported: &Reported, ranks: &[u32]) {
    let mean = |pid: &u32| {
        let waits = reported.waits.iter().filter(|c| c.who.process.pid == *pid).map(|c| c.barrier_wait_ns);
        let (sum, count) = waits.fold((0, 0), |(sum, count), ns| (sum + ns, count + 1));
        sum / count
    };
    let least = ranks.iter().min_by_key(|pid| mean(pid)).unwrap();
    assert_eq!(*least, ranks[LATE_RANK as usize], "{:?}", ranks.iter().map(mean).collect::<Vec<_>>());
}

fn variable(name: &str) -> Option<u64> {
    std::env::var(name).ok().and_then(|value| value.parse().ok())
}

/// Attached in the middle of a job, the mean of the waits was 193.7 ms instead of 2.9 ms, and the late rank seemed to wait
/// longer than its peers: collectives were probed 300 ms before the waits for them.
#[test]
fn reported_waits_and_verdicts_after_a_late_attach_are_true() {
    let seed = variable("WARPTAP_LATE_SEED").unwrap_or_else(capture::now_ns);
    println!("seed {seed}");
    for round in 0..variable("WARPTAP_LATE_ROUNDS").unwrap_or(3) {
        if !check_round(round, seed) {
            return;
        }
    }
}
