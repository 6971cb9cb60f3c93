//! Outliers against truth: servers under moving load, with slow steps put in.
//!
//! What truth is. A healthy step takes what [`traffic::load`] says, jitter and drift included. The *true p95* of a
//! phase is the exact quantile of its healthy steps so far, each weighing half after 4,096 more: what the baseline
//! claims to be. An injected step takes 1.6, 2.5 or 4 times the longer of that p95 and its own healthy duration.
//!
//! A step is slow if it was injected, or if its jitter alone made it 1.5 times what such a step takes as a rule: who is
//! told that it took 1.55 times the p95, and as much more than others like it, is told nothing wrong. It comes about
//! once in 100,000 healthy steps, as often as one in a thousand injected comes near it; taken for a false alarm, it
//! alone brought some seeds below 0.99. The true bucket of a slow step is the one of its duration over the true p95.
//! What would be right of a step 3 % shorter or longer is right of it too.
//!
//! A step that takes longer than usual for its size and yet less than 1.5 times its phase's p95
//! is no outlier by definition, and none is put in. Prompts have at least 256 tokens: what a shorter one is cannot be
//! told from its shape, and is not the baseline's to know.
//!
//! Each share of slow steps is scored by itself, on enough of them for one in a hundred to mean something, and each
//! phase and bucket over all shares; of the few of one phase and bucket in one share, two may be wrong.
//! `OUTLIERS_TIMES=10` scores ten times as many seeds, `OUTLIERS_SEED=7` begins with another one.
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
/// Steps before the first slow one: every phase, and the sizes that are common in it, are warmed up.
const WARM: usize = 1_500;
const FACTORS: [f64; 3] = [1.6, 2.5, 4.0];
/// From this multiple of what such a step takes as a rule on, one is slow.
const SLOW: f64 = 1.5;
/// How near to a bound of a bucket a true ratio belongs to both sides.
const NEAR: f64 = 0.03;
/// Steps after which a step weighs half in the true p95.
const HALF_LIFE: f64 = 4_096.0;

/// Where seeds begin.
fn first_seed() -> u64 {
    let seed = told("OUTLIERS_SEED").unwrap_or(0);
    println!("\nseeds from {seed} on");
    seed
}

fn told(variable: &str) -> Option<u64> {
    std::env::var(variable).ok()?.parse().ok()
}

/// What is true of a step.
#[derive(Clone, Copy, Debug)]
struct Truth {
    phase: Phase,
    is_injected: bool,
    /// Its duration over the true p95; 0 where nobody asked.
    ratio: f64,
    /// Its duration over what such a step takes as a rule.
    kind_ratio: f64,
}

impl Truth {
    fn bucket(&self) -> Outlier {
        self.bucket_if(1.0)
    }

    /// The bucket if it had taken so many times as long.
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

/// The exact p95 of what it was given, older values weighing less.
#[derive(Debug, Default)]
struct Exact {
    /// Values with their place in the order they came, the smallest first.
    values: Vec<(f64, usize)>,
}

impl Exact {
    fn add(&mut self, value: f64) {
        let at = self.values.partition_point(|(other, _)| *other <= value);
        self.values.insert(at, (value, self.values.len()));
    }

    /// Infinite as long as there are none.
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

/// Events of a server with slow steps in it, and the truth of each.
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
        // Asked only where it matters: it costs more than the step.
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

/// How often a bucket was right.
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

    /// Precision and recall of 0.99.
    fn holds(&self) -> bool {
        self.precision() >= 0.99 && self.recall() >= 0.99
    }

    /// The same, of few: two may be wrong.
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

/// Shares of slow steps, and over how many seeds each is scored: where they are rare, it takes more to find some.
const SHARES: [(f64, u64); 4] = [(0.001, 20), (0.005, 6), (0.02, 3), (0.05, 2)];

/// Every load under this share of slow steps, by this many seeds.
fn scores(share: f64, seeds: Range<u64>) -> Scores {
    let mut scores = Scores::new();
    for (load, seed) in Load::ALL.into_iter().flat_map(|load| seeds.clone().map(move |seed| (load, seed))) {
        let (events, truths) = injected(load, share, seed);
        let (steps, shifts) = found(&events);
        assert_eq!(steps.len(), truths.len());
        assert_eq!(shifts, [], "{load:?}, {share}, seed {seed}: slow steps are no lasting change");
        add(&mut scores, &scored(&steps, &truths));
    }
    scores
}

fn add(sum: &mut Scores, more: &Scores) {
    more.iter().for_each(|(key, score)| sum.entry(*key).or_default().add(*score));
}

#[test]
fn slow_steps_are_found_in_their_bucket_whatever_the_load_and_however_rare_they_are() {
    let (first, times) = (first_seed(), told("OUTLIERS_TIMES").unwrap_or(1));
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

/// The limit of it: where healthy steps reach 1.5 times their p95, a threshold cannot tell them from slow ones.
#[test]
fn on_a_noisy_machine_slow_steps_are_found_and_some_healthy_ones_with_them() {
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
fn quiet_traffic_has_fewer_than_one_outlier_in_ten_thousand_steps() {
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
fn a_lasting_shift_stops_being_flagged_within_200_steps_and_is_told_once() {
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
                let told = shifts.iter().filter(|shift| shift.phase == phase).count();
                let name = format!("{factor}x for good, {load:?}, {}", phase.as_str());
                println!("{name:<34} {count:>8} {last:>9} {told:>7}");
                assert!(last <= 200, "{name}: step {last} after the shift is flagged");
                assert_eq!(told, 1, "{name}");
            }
        }
    }
}
