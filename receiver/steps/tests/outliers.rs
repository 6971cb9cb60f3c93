//! Outliers against truth: servers under moving load, with slow steps put in.
//!
//! What truth is. A healthy step takes what [`traffic::load`] says, jitter and drift included. The *true p95* of a
//! phase is the exact quantile of its healthy steps so far, each weighing half after 4,096 more: what the baseline
//! claims to be. A slow step takes 1.6, 2.5 or 4 times the longer of that p95 and its own healthy duration; its true
//! bucket is the one of its duration over the true p95. Where that lies within 3 % of a bucket's bound, the bucket on
//! either side is right. A step that takes longer than usual for its size and yet less than 1.5 times its phase's p95
//! is no outlier by definition, and none is put in. Prompts have at least 256 tokens: what a shorter one is cannot be
//! told from its shape, and is not the baseline's to know.
//!
//! `cargo test --release -p steps --test outliers -- --nocapture` prints the tables.
#![allow(clippy::unwrap_used, reason = "a test")]
#![expect(clippy::print_stdout, reason = "the tables are a report")]

mod traffic;

use std::collections::BTreeMap;

use event::Event;
use steps::{BaselineShift, Engine, Finding, Outlier, Phase, Settings, Step};
use traffic::load::{Healthy, Load};
use traffic::{Rng, Server, Shape};

/// Steps per run.
const STEPS: usize = 12_000;
/// Steps before the first slow one: every phase, and the sizes that are common in it, are warmed up.
const WARM: usize = 1_500;
const FACTORS: [f64; 3] = [1.6, 2.5, 4.0];
/// How near to a bound of a bucket a true ratio belongs to both sides.
const NEAR: f64 = 0.03;
/// Steps after which a step weighs half in the true p95.
const HALF_LIFE: f64 = 4_096.0;

/// Where seeds begin: `OUTLIERS_SEED=7 cargo test ...` draws other steps.
fn first_seed() -> u64 {
    let seed = std::env::var("OUTLIERS_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(0);
    println!("\nseeds from {seed} on");
    seed
}

/// What is true of a step.
#[derive(Clone, Copy, Debug)]
struct Truth {
    phase: Phase,
    /// Its duration over the true p95, for a slow step.
    slow: Option<f64>,
}

impl Truth {
    fn bucket(&self) -> Outlier {
        self.slow.map_or(Outlier::None, Outlier::of)
    }

    fn allows(&self, found: Outlier) -> bool {
        let sides = |ratio: f64| [ratio * (1.0 - NEAR), ratio * (1.0 + NEAR)].map(Outlier::of);
        found == self.bucket() || self.slow.is_some_and(|ratio| sides(ratio).contains(&found))
    }
}

/// The exact p95 of what it was given, older values weighing less. Asked again after [`Exact::STALE`] values only.
#[derive(Debug, Default)]
struct Exact {
    values: Vec<f64>,
    known: Option<(usize, f64)>,
}

impl Exact {
    const STALE: usize = 50;

    fn p95(&mut self) -> f64 {
        match self.known {
            Some((count, p95)) if self.values.len() < count + Self::STALE => p95,
            _ => {
                let p95 = weighted_p95(&self.values);
                self.known = Some((self.values.len(), p95));
                p95
            }
        }
    }
}

fn weighted_p95(values: &[f64]) -> f64 {
    let count = values.len() as f64;
    let weigh = |(at, value): (usize, &f64)| (*value, ((at as f64 - count) / HALF_LIFE).exp2());
    let mut weighed: Vec<(f64, f64)> = values.iter().enumerate().map(weigh).collect();
    weighed.sort_by(|a, b| a.0.total_cmp(&b.0));
    let total: f64 = weighed.iter().map(|(_, weight)| weight).sum();
    let mut below = 0.0;
    let reached = weighed.iter().find(|(_, weight)| {
        below += weight;
        below >= 0.95 * total
    });
    reached.unwrap().0
}

/// Events of a server with slow steps in it, and the truth of each.
fn injected(load: Load, share: f64, seed: u64) -> (Vec<Event>, Vec<Truth>) {
    let (mut server, mut healthy) = (Server::new(1), Healthy::new(load, seed));
    let mut rng = Rng::new(seed ^ 0x510);
    let mut exact = [Exact::default(), Exact::default()];
    let (mut events, mut truths) = (Vec::new(), Vec::new());
    for at in 0..STEPS {
        let (shape, usual_ns) = healthy.next();
        let phase = phase(shape);
        let p95 = &mut exact[phase as usize];
        let slow = (at >= WARM && rng.chance(share)).then(|| {
            let p95 = p95.p95();
            (FACTORS[rng.below(3) as usize] * usual_ns.max(p95), p95)
        });
        p95.values.extend(slow.is_none().then_some(usual_ns));
        events.push(server.step(shape, slow.map_or(usual_ns, |(ns, _)| ns)));
        truths.push(Truth { phase, slow: slow.map(|(ns, p95)| ns / p95) });
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
    let mut engine = Engine::new(Settings::default());
    let (mut steps, mut shifts) = (Vec::new(), Vec::new());
    let mut take = |finding| match finding {
        Finding::Step(step) => steps.push(step),
        Finding::BaselineShift(shift) => shifts.push(shift),
    };
    events.iter().for_each(|event| engine.observe(event, &mut take));
    engine.finish(&mut take);
    (steps, shifts)
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

#[test]
fn slow_steps_are_found_in_their_bucket_whatever_the_load() {
    let first_seed = first_seed();
    println!("{:<34} {:>6} {:>7} {:>7} {:>10} {:>7}", "", "hits", "missed", "false", "precision", "recall");
    let mut all = Scores::new();
    for (number, share) in [0.001, 0.005, 0.02, 0.05].into_iter().enumerate() {
        let mut of_share = Scores::new();
        for load in Load::ALL {
            // Where slow steps are rare, more steps are needed to find some.
            for seed in 0..if share < 0.004 { 5 } else { 1 } {
                let (events, truths) = injected(load, share, first_seed + 100 * number as u64 + seed);
                let (steps, shifts) = found(&events);
                assert_eq!(steps.len(), truths.len());
                assert_eq!(shifts, [], "{load:?}, {share}: slow steps are no lasting change");
                for (key, score) in scored(&steps, &truths) {
                    of_share.entry(key).or_default().add(score);
                    all.entry(key).or_default().add(score);
                }
            }
        }
        for ((phase, bucket), score) in &of_share {
            row(&format!("{:>4} % slow, {}, {}", 100.0 * share, phase.name(), bucket.name()), score);
        }
        let mut sum = Score::default();
        of_share.values().for_each(|score| sum.add(*score));
        assert!(sum.precision() >= 0.99 && sum.recall() >= 0.99, "{share}: {sum:?}");
    }
    assert_eq!(all.len(), 6, "both phases, three buckets: {all:?}");
    for ((phase, bucket), score) in &all {
        row(&format!("all, {}, {}", phase.name(), bucket.name()), score);
    }
    for (key, score) in &all {
        assert!(score.precision() >= 0.99 && score.recall() >= 0.99, "{key:?}: {score:?}");
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
                let name = format!("{factor}x for good, {load:?}, {}", phase.name());
                println!("{name:<34} {count:>8} {last:>9} {told:>7}");
                assert!(last <= 200, "{name}: step {last} after the shift is flagged");
                assert_eq!(told, 1, "{name}");
            }
        }
    }
}
