//! Outliers compared with the truth: servers under varying load, with injected slow steps.
//!
//! The truth: a healthy step has the duration of [`traffic::load`], with jitter and drift. The *true p95* of a phase is the
//! exact quantile of its healthy steps so far, whose weight is halved after 4,096 more, as in the baseline. An injected
//! step takes 1.6, 2.5 or 4 times the longer of that p95 and its own healthy duration.
//!
//! A step is slow if it was injected, or if its jitter alone makes it 1.5 times its usual duration: a report that it took 1.55
//! times the p95, and longer than others like it, is correct. That happens about once in 100,000 healthy steps, as often as
//! one in a thousand injected steps is near it; counted as a false alarm, it alone lowered some seeds below 0.99. The true
//! bucket of a slow step is that of its duration over the true p95. The bucket of a step 3 % shorter or longer is
//! accepted, too.
//!
//! A step that takes longer than usual for its size, and yet less than 1.5 times its phase's p95, is not an outlier by
//! definition, and none is injected. Prompts have at least 256 tokens: shorter ones cannot be classified by their shape,
//! which is not the task of the baseline.
//!
//! Each share of slow steps is scored separately, on enough steps for one percent to be significant, and each phase and
//! bucket over all shares. Of the few steps of one phase and bucket in one share, two may be wrong.
//! `OUTLIERS_TIMES=10` scores ten times as many seeds, `OUTLIERS_SEED=7` starts with another one.
//!
//! `cargo test --release -p steps --test outliers -- --nocapture` prints the tables.
#![allow(clippy::unwrap_used, reason = "a test")]
#![expect(clippy::print_stdout, reason = "the tables are a report")]

mod traffic;

use std::collections::BTreeMap;
use std::ops::Range;

use event::Event;
use steps::{BaselineShift, Engine, Outlier, Phase, Settings, Step, outlier_bucket};
use traffic::load::{Healthy, Load};
use traffic::{Rng, Server, Shape};

/// Steps per run.
const STEPS: usize = 12_000;
/// Steps before the first slow one, in which every phase and its common sizes warm up.
const WARM: usize = 1_500;
const FACTORS: [f64; 3] = [1.6, 2.5, 4.0];
/// The multiple of its usual duration from which a step is slow.
const SLOW: f64 = 1.5;
/// The distance from the bound of a bucket within which a true ratio belongs to both sides.
const NEAR: f64 = 0.03;
/// Steps after which the weight of a step in the true p95 is halved.
const HALF_LIFE: f64 = 4_096.0;

/// Returns the first seed.
fn first_seed() -> u64 {
    let seed = variable("OUTLIERS_SEED").unwrap_or(0);
    println!("\nseeds from {seed} on");
    seed
}

fn variable(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

/// The truth of a step.
#[derive(Clone, Copy, Debug)]
struct Truth {
    phase: Phase,
    is_injected: bool,
    /// Its duration over the true p95; 0 if not computed.
    ratio: f64,
    /// Its duration over the usual one of such a step.
    kind_ratio: f64,
}

impl Truth {
    fn bucket(&self) -> Outlier {
        self.bucket_if(1.0)
    }

    /// Returns the bucket if it had taken `times` as long.
    fn bucket_if(&self, times: f64) -> Outlier {
        match self.is_injected || self.kind_ratio * times >= SLOW {
            true => outlier_bucket(self.ratio * times),
            false => Outlier::None,
        }
    }

    fn allows(&self, found: Outlier) -> bool {
        [1.0 - NEAR, 1.0, 1.0 + NEAR].map(|times| self.bucket_if(times)).contains(&found)
    }
}

/// The exact p95 of values with decaying weights.
#[derive(Debug, Default)]
struct Exact {
    /// Values with their index in order of arrival, sorted.
    values: Vec<(f64, usize)>,
}

impl Exact {
    fn add(&mut self, value: f64) {
        let at = self.values.partition_point(|(other, _)| *other <= value);
        self.values.insert(at, (value, self.values.len()));
    }

    /// Returns the p95; infinite without values.
    fn p95(&self) -> f64 {
        let count = self.values.len() as f64;
        let fade = (-1.0 / HALF_LIFE).exp2();
        let total = (1.0 - (-count / HALF_LIFE).exp2()) / (1.0 - fade);
        let mut above = 0.0;
        let reached = self.values.iter().rev().find(|(_, at)| {
            above += ((*at as f64 + 1.0 - count) / HALF_LIFE).exp2();
            above > 0.05 * total
        });
        reached.map_or(f64::INFINITY, |(value, _)| *value)
    }
}

/// Returns the events of a server with slow steps, and the truth of each step.
fn injected(load: Load, share: f64, seed: u64) -> (Vec<Event>, Vec<Truth>) {
    let (mut server, mut healthy) = (Server::new(1), Healthy::new(load, seed));
    let mut rng = Rng::new(seed ^ 0x510);
    let mut exact = Phase::ALL.map(|_| Exact::default());
    let (mut events, mut truths) = (Vec::new(), Vec::new());
    for at in 0..STEPS {
        let (shape, usual_ns) = healthy.next();
        let phase = phase(shape);
        let p95 = &mut exact[phase as usize];
        let is_injected = at >= WARM && rng.chance(share);
        let kind_ns = healthy.kind_ns(shape);
        // Computed only if needed: it costs more than the step.
        let matters = is_injected || usual_ns * (1.0 + NEAR) >= SLOW * kind_ns;
        let p95_ns = if matters { p95.p95() } else { f64::INFINITY };
        let ns = match is_injected {
            true => FACTORS[rng.below(3) as usize] * usual_ns.max(p95_ns),
            false => usual_ns,
        };
        if !is_injected {
            p95.add(ns);
        }
        events.push(server.step(shape, ns));
        truths.push(Truth { phase, is_injected, ratio: ns / p95_ns, kind_ratio: ns / kind_ns });
    }
    (events, truths)
}

fn phase(shape: Shape) -> Phase {
    match shape {
        Shape::Prefill { .. } => Phase::Prefill,
        Shape::Decode { .. } => Phase::Decode,
    }
}

fn found(events: &[Event]) -> (Vec<Step>, Vec<BaselineShift>) {
    traffic::found(&mut Engine::new(Settings::default()), events)
}

/// The hits and errors of a bucket.
#[derive(Clone, Copy, Debug, Default)]
struct Score {
    hits: u32,
    missed: u32,
    false_alarms: u32,
}

impl Score {
    fn add(&mut self, other: Score) {
        self.hits += other.hits;
        self.missed += other.missed;
        self.false_alarms += other.false_alarms;
    }

    fn recall(&self) -> f64 {
        f64::from(self.hits) / f64::from((self.hits + self.missed).max(1))
    }

    /// Returns true if precision and recall are at least 0.99.
    fn holds(&self) -> bool {
        self.precision() >= 0.99 && self.recall() >= 0.99
    }

    /// Returns true if precision and recall are at least 0.99, or two steps at most are wrong.
    fn holds_of_few(&self) -> bool {
        self.holds() || self.false_alarms.max(self.missed) <= 2
    }

    fn precision(&self) -> f64 {
        f64::from(self.hits) / f64::from((self.hits + self.false_alarms).max(1))
    }
}

type Scores = BTreeMap<(Phase, Outlier), Score>;

fn scored(steps: &[Step], truths: &[Truth]) -> Scores {
    let mut scores = Scores::new();
    for (step, truth) in steps.iter().zip(truths) {
        let (is, was) = (step.outlier, truth.bucket());
        let is_right = step.phase == truth.phase && truth.allows(is);
        let mut count = |bucket, score| {
            if bucket != Outlier::None {
                scores.entry((truth.phase, bucket)).or_default().add(score);
            }
        };
        match is_right {
            true => count(is, Score { hits: 1, ..Score::default() }),
            false => {
                count(was, Score { missed: 1, ..Score::default() });
                count(is, Score { false_alarms: 1, ..Score::default() });
            }
        }
    }
    scores
}

fn row(name: &str, score: &Score) {
    let Score { hits, missed, false_alarms } = score;
    println!(
        "{name:<34} {hits:>6} {missed:>7} {false_alarms:>7} {:>10.4} {:>7.4}",
        score.precision(),
        score.recall()
    );
}

/// Shares of slow steps, with the number of seeds for each: more seeds where they are rare.
const SHARES: [(f64, u64); 4] = [(0.001, 20), (0.005, 6), (0.02, 3), (0.05, 2)];

/// Scores every load with this share of slow steps.
fn scores(share: f64, seeds: Range<u64>) -> Scores {
    let mut scores = Scores::new();
    for (load, seed) in Load::ALL.into_iter().flat_map(|load| seeds.clone().map(move |seed| (load, seed))) {
        let (events, truths) = injected(load, share, seed);
        let (steps, shifts) = found(&events);
        assert_eq!(steps.len(), truths.len());
        assert_eq!(shifts, [], "{load:?}, {share}, seed {seed}: slow steps are not a lasting change");
        add(&mut scores, &scored(&steps, &truths));
    }
    scores
}

fn add(sum: &mut Scores, more: &Scores) {
    more.iter().for_each(|(key, score)| sum.entry(*key).or_default().add(*score));
}

#[test]
fn slow_steps_get_their_bucket_under_any_load_and_share() {
    let (first, times) = (first_seed(), variable("OUTLIERS_TIMES").unwrap_or(1));
    println!("{:<34} {:>6} {:>7} {:>7} {:>10} {:>7}", "", "hits", "missed", "false", "precision", "recall");
    let mut all = Scores::new();
    for (number, (share, seeds)) in (0..).zip(SHARES) {
        let begin = first + 100_000 * number;
        let of_share = scores(share, begin..begin + seeds * times);
        assert_eq!(of_share.len(), 6, "both phases, three buckets: {of_share:?}");
        for ((phase, bucket), score) in &of_share {
            let name = format!("{:>4} % slow, {}, {}", 100.0 * share, phase.as_str(), bucket.as_str());
            row(&name, score);
            assert!(score.holds_of_few(), "{name}: {score:?}");
        }
        let mut sum = Score::default();
        of_share.values().for_each(|score| sum.add(*score));
        row(&format!("{:>4} % slow, all", 100.0 * share), &sum);
        assert!(sum.hits >= 400 && sum.holds(), "{share}: {sum:?}");
        add(&mut all, &of_share);
    }
    for ((phase, bucket), score) in &all {
        row(&format!("all, {}, {}", phase.as_str(), bucket.as_str()), score);
        assert!(score.holds(), "{phase:?}, {bucket:?}: {score:?}");
    }
}

/// The limit: healthy steps that reach 1.5 times their p95 cannot be distinguished from slow ones by a threshold.
#[test]
fn a_noisy_machine_has_some_false_outliers() {
    let seed = first_seed();
    let mut sum = Score::default();
    for seed in seed..seed + 4 {
        let (events, truths) = injected(Load::Noisy, 0.02, seed);
        scored(&found(&events).0, &truths).values().for_each(|score| sum.add(*score));
    }
    row("noisy, 2 % slow, all", &sum);
    assert!(sum.recall() >= 0.98 && sum.precision() >= 0.95, "{sum:?}");
}

#[test]
fn quiet_traffic_has_few_outliers() {
    let seed = first_seed();
    println!("{:<34} {:>8} {:>9} {:>7}", "", "steps", "outliers", "shifts");
    let (mut steps_all, mut outliers_all) = (0, 0);
    for load in Load::ALL {
        let (mut server, mut healthy) = (Server::new(1), Healthy::new(load, seed));
        let events: Vec<Event> = (0..3 * STEPS)
            .map(|_| {
                let (shape, ns) = healthy.next();
                server.step(shape, ns)
            })
            .collect();
        let (steps, shifts) = found(&events);
        let outliers = steps.iter().filter(|step| step.outlier != Outlier::None).count();
        println!("{:<34} {:>8} {outliers:>9} {:>7}", format!("quiet, {load:?}"), steps.len(), shifts.len());
        assert_eq!(shifts, [], "{load:?}");
        (steps_all, outliers_all) = (steps_all + steps.len(), outliers_all + outliers);
    }
    assert!(outliers_all * 10_000 < steps_all, "{outliers_all} of {steps_all}");
}

#[test]
fn a_lasting_shift_is_normal_and_reported_within_200_steps() {
    let seed = first_seed();
    println!("{:<34} {:>8} {:>9} {:>7}", "", "flagged", "last at", "events");
    for load in Load::ALL {
        for factor in [1.6, 2.0, 3.0] {
            let (mut server, mut healthy) = (Server::new(1), Healthy::new(load, seed));
            let events: Vec<Event> = (0..2 * STEPS / 3)
                .map(|at| {
                    let (shape, ns) = healthy.next();
                    server.step(shape, if at < STEPS / 3 { ns } else { factor * ns })
                })
                .collect();
            let (steps, shifts) = found(&events);
            for phase in [Phase::Decode, Phase::Prefill] {
                let before = steps[..STEPS / 3].iter().filter(|step| step.phase == phase).count();
                let of_phase: Vec<&Step> =
                    steps.iter().filter(|step| step.phase == phase).skip(before).collect();
                let flagged = |step: &&Step| step.outlier != Outlier::None;
                let last = of_phase.iter().rposition(flagged).map_or(0, |at| at + 1);
                let count = of_phase.iter().copied().filter(flagged).count();
                let reported = shifts.iter().filter(|shift| shift.phase == phase).count();
                let name = format!("{factor}x for good, {load:?}, {}", phase.as_str());
                println!("{name:<34} {count:>8} {last:>9} {reported:>7}");
                assert!(last <= 200, "{name}: step {last} after the shift is flagged");
                assert_eq!(reported, 1, "{name}");
            }
        }
    }
}
