//! Attachment to a running job at any moments: for every rank another, whatever the ranks do meanwhile.
//!
//! What is not seen of a rank is unknown: its first collectives have no number, and their waits no beginning. Reported
//! waits, skews and verdicts are those of the job all the same.

mod sim;

use nccl::observe::{Environment, Function, Observation};
use nccl::{Finding, Operation, Settings};
use proptest::collection::vec;
use proptest::prelude::*;
use sim::{MS, Rank, Rng, S, US, Watch};

/// A job in which each rank is attached to at its own moment.
#[derive(Clone, Debug)]
struct LateJob {
    seed: u64,
    rounds: u64,
    /// When each rank is attached to, in microseconds after the start of the job.
    attached_us: Vec<u64>,
    /// Time after that in which collectives are seen and marked, since some probes were missing, in microseconds.
    arming_us: u64,
    /// Each rank waits after this many collectives.
    waits_every: u64,
    jitter_us: u64,
    /// One of so many records of collectives is lost; 0 for none.
    lost_every: u64,
    /// The rank that is late, and by how much, in microseconds.
    late: Option<(usize, u64)>,
}

/// Arrival, return of the call, and end of the wait of one rank in one collective, ns.
#[derive(Clone, Copy, Debug)]
struct Part {
    arrived_ns: u64,
    enqueued_ns: u64,
    sync_ns: u64,
    done_ns: u64,
}

impl LateJob {
    fn attached_ns(&self, rank: usize) -> u64 {
        S + self.attached_us[rank] * US
    }

    /// Returns the parts of all ranks, by collective.
    fn play(&self) -> Vec<Vec<Part>> {
        let (mut rng, count) = (Rng::new(self.seed), self.attached_us.len());
        let mut free_ns = vec![S; count];
        let mut rounds: Vec<Vec<Part>> = Vec::new();
        for round in 0..self.rounds {
            let parts = (0..count).map(|rank| {
                let late_us = self.late.filter(|(late, _)| *late == rank).map_or(0, |(_, us)| us);
                let arrived_ns = free_ns[rank] + (200 + late_us + rng.below(self.jitter_us)) * US;
                let enqueued_ns = arrived_ns + 5 * US + rng.below(10 * US);
                Part { arrived_ns, enqueued_ns, sync_ns: 0, done_ns: 0 }
            });
            let parts: Vec<Part> = parts.collect();
            free_ns.iter_mut().zip(&parts).for_each(|(free, part)| *free = part.enqueued_ns);
            rounds.push(parts);
            if (round + 1) % self.waits_every == 0 {
                let last_ns = rounds[round as usize].iter().map(|p| p.arrived_ns).max().unwrap_or(0);
                for (rank, free_ns) in free_ns.iter_mut().enumerate() {
                    let sync_ns = *free_ns + 3 * US;
                    *free_ns = sync_ns.max(last_ns) + 20 * US + rng.below(20 * US);
                    let first = (round + 1 - self.waits_every) as usize;
                    for parts in &mut rounds[first..] {
                        (parts[rank].sync_ns, parts[rank].done_ns) = (sync_ns, *free_ns);
                    }
                }
            }
        }
        rounds
    }

    /// Returns true if every rank was attached to before it reached the collective.
    fn has_seen_all(&self, parts: &[Part]) -> bool {
        parts.iter().enumerate().all(|(rank, part)| part.arrived_ns >= self.attached_ns(rank))
    }

    /// Returns what is seen of the ranks after they were attached to.
    fn observe(&self, rounds: &[Vec<Part>]) -> Watch {
        let mut watch = Watch::new(Settings { join_grace_ns: 50 * MS, ..Settings::default() });
        let (mut seen, mut rng) = (Vec::new(), Rng::new(self.seed ^ 1));
        for rank in 0..self.attached_us.len() {
            let of = Rank::new(1000 + rank as u32);
            let environment = Environment {
                process: of.process,
                rank: Some(rank as u32),
                world_size: Some(self.attached_us.len() as u32),
                job: 77,
            };
            watch.see(Observation::Environment(environment));
            let (attached_ns, mut ordinal) = (self.attached_ns(rank), 0);
            for parts in rounds {
                let part = parts[rank];
                if part.arrived_ns >= attached_ns {
                    let mut arguments = of.arguments(Operation::AllReduce);
                    arguments.is_unarmed = part.arrived_ns < attached_ns + self.arming_us * US;
                    arguments.ordinal = Some(ordinal);
                    ordinal += 1;
                    let duration_ns = part.enqueued_ns - part.arrived_ns;
                    if self.lost_every == 0 || rng.below(self.lost_every) > 0 {
                        seen.push(of.call(part.arrived_ns, duration_ns, Function::Operation(arguments)));
                    }
                }
            }
            let mut waits: Vec<(u64, u64)> =
                rounds.iter().map(|p| (p[rank].sync_ns, p[rank].done_ns)).collect();
            waits.dedup();
            let waits = waits.into_iter().filter(|(sync_ns, _)| *sync_ns >= attached_ns);
            seen.extend(waits.map(|(sync_ns, done_ns)| of.sync(sync_ns, done_ns)));
        }
        watch.see_all(seen);
        watch.finish();
        watch
    }
}

fn job() -> impl Strategy<Value = LateJob> {
    let late = proptest::option::of((0usize..8, 4_000u64..20_000));
    let lost_every = prop_oneof![Just(0u64), 20u64..500];
    let parts = (vec(0u64..150_000, 2..8), any::<u64>(), 0u64..3_000, 1u64..5, 1u64..1_000, lost_every, late);
    parts.prop_map(|(attached_us, seed, arming_us, waits_every, jitter_us, lost_every, late)| {
        let ranks = attached_us.len();
        let late = late.map(|(rank, us)| (rank % ranks, us));
        // The job is longer than the last attachment, whatever its pace.
        let rounds = 1_200 / waits_every * waits_every;
        LateJob { seed, rounds, attached_us, arming_us, waits_every, jitter_us, lost_every, late }
    })
}

/// Returns the number of the collective that the rank reached at this time.
fn at(rounds: &[Vec<Part>], rank: usize, arrived_ns: u64) -> usize {
    rounds.iter().position(|parts| parts[rank].arrived_ns == arrived_ns).expect("a collective of the job")
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, ..ProptestConfig::default() })]

    #[test]
    fn reported_waits_skews_and_verdicts_are_those_of_the_job(job in job()) {
        let rounds = job.play();
        let watch = job.observe(&rounds);
        watch.check_balance();
        for found in watch.completed() {
            let rank = (found.who.process.pid - 1000) as usize;
            let round = at(&rounds, rank, found.op.arrival_ns);
            let parts = &rounds[round];
            prop_assert_eq!(found.barrier_wait_ns, parts[rank].done_ns - parts[rank].enqueued_ns);
            prop_assert!(found.op.arrival_ns >= job.attached_ns(rank) + job.arming_us * US);
            let first_ns = parts.iter().map(|p| p.arrived_ns).min().unwrap_or(0);
            // Ranks that were attached to earlier are compared with each other before.
            let is_known = round > 0 && job.has_seen_all(&rounds[round - 1]);
            if let Some(behind_ns) = found.behind_first_ns.filter(|_| is_known) {
                prop_assert_eq!(behind_ns, found.op.arrival_ns - first_ns);
            }
        }
        for found in watch.arrived().into_iter().filter(|found| found.ranks == job.attached_us.len()) {
            let last = (found.last.process.pid - 1000) as usize;
            let parts = &rounds[at(&rounds, last, found.first_ns + found.skew_ns)];
            let arrivals = parts.iter().map(|p| p.arrived_ns);
            let (first_ns, last_ns) = (arrivals.clone().min(), arrivals.max());
            prop_assert_eq!((Some(found.first_ns), Some(found.first_ns + found.skew_ns)), (first_ns, last_ns));
        }
        for found in watch.stragglers() {
            let rank = (found.who.process.pid - 1000) as usize;
            prop_assert_eq!(job.late.map(|(late, _)| late), Some(rank), "{:?}", found);
        }
    }

    #[test]
    fn late_rank_is_named_after_any_attachment(job in job()) {
        let late = job.late.unwrap_or((0, 9_000));
        let job = LateJob { late: Some(late), waits_every: 1, ..job };
        let watch = job.observe(&job.play());
        prop_assert!(!watch.stragglers().is_empty(), "{:?}", watch.engine.tally());
    }
}

/// A wait that is not reported is counted.
#[test]
fn waits_of_marked_collectives_are_counted() {
    let job = LateJob {
        seed: 1,
        rounds: 100,
        attached_us: vec![5_000, 6_000],
        arming_us: 2_000,
        waits_every: 1,
        jitter_us: 100,
        lost_every: 0,
        late: None,
    };
    let watch = job.observe(&job.play());
    let tally = watch.engine.tally();
    let reported = watch.count(|f| matches!(f, Finding::Completed(_))) as u64;
    assert!(tally.waits_unarmed > 2, "{tally:?}");
    assert_eq!(reported + tally.waits_unarmed, tally.completed);
}
