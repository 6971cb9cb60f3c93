//! Simulated jobs: ranks with scripted lateness and jitter, observed by an engine as through probes.
//!
//! A job's ranks reach a collective, each at its own time, wait for it, and continue together once the last has
//! arrived. The true times are known, so the engine's findings can be checked against them.
#![allow(dead_code, reason = "each test file uses its own part")]

#[path = "../../../steps/src/testing/heap.rs"]
mod heap;

use event::ProcessId;
use nccl::hash::UniqueId;
use nccl::observe::{Arguments, Function, NcclCall, Observation, Out, StreamAction, StreamCall};
use nccl::{Engine, Finding, Operation, Settings};
use probe_abi::fold::mix;
use probe_abi::record::StreamKey;

#[allow(unused_imports, reason = "each test file uses its own part")]
pub(crate) use heap::allocated_bytes;

pub const US: u64 = 1_000;
pub const MS: u64 = 1_000_000;
pub const S: u64 = 1_000_000_000;

/// A SplitMix64 random number generator.
#[derive(Clone, Debug)]
pub struct Rng(u64);

impl Rng {
    pub fn new(seed: u64) -> Rng {
        Rng(mix(seed.wrapping_add(0x9e37_79b9_7f4a_7c15)))
    }

    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mix(self.0)
    }

    pub fn below(&mut self, end: u64) -> u64 {
        self.next() % end.max(1)
    }

    pub fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }
}

/// Distribution of arrival times.
#[derive(Clone, Copy, Debug)]
pub enum Jitter {
    /// Uniform from 0 to this, ns.
    Uniform(u64),
    /// Normal with this standard deviation, ns; never before the earliest possible time.
    Normal(u64),
    /// Exponential with this mean, ns.
    Exponential(u64),
}

impl Jitter {
    pub fn draw(self, rng: &mut Rng) -> u64 {
        match self {
            Jitter::Uniform(ns) => rng.below(ns),
            Jitter::Normal(sigma) => {
                let radius = (-2.0 * rng.unit().max(1e-12).ln()).sqrt();
                let normal = radius * (std::f64::consts::TAU * rng.unit()).cos();
                (sigma as f64 * (8.0 + normal)).max(0.0) as u64
            }
            Jitter::Exponential(mean) => (-(rng.unit().max(1e-12).ln()) * mean as f64) as u64,
        }
    }
}

/// An engine and its findings.
pub struct Watch {
    pub engine: Engine,
    pub findings: Vec<Finding>,
}

impl Watch {
    pub fn new(settings: Settings) -> Watch {
        Watch { engine: Engine::new(settings), findings: Vec::new() }
    }

    pub fn see(&mut self, observation: Observation) {
        self.engine.observe(&observation, &mut self.findings);
    }

    /// Reports the deferred completions after the last observation.
    pub fn finish(&mut self) {
        self.engine.finish(&mut self.findings);
    }

    /// Observes calls in the order of their returns.
    pub fn see_all(&mut self, mut observations: Vec<Observation>) {
        observations.sort_by_key(|o| o.at_ns());
        observations.into_iter().for_each(|o| self.see(o));
    }

    /// Retains only verdicts, since a long run would fill the memory with other findings.
    pub fn retain_verdicts(&mut self) {
        let is_verdict = |f: &Finding| {
            !matches!(
                f,
                Finding::Enqueued(_) | Finding::Completed(_) | Finding::Arrived(_) | Finding::Rank(_)
            )
        };
        self.findings.retain(is_verdict);
    }

    pub fn count(&self, is: impl Fn(&Finding) -> bool) -> usize {
        self.findings.iter().filter(|f| is(f)).count()
    }

    /// Returns the straggler findings in order.
    pub fn stragglers(&self) -> Vec<&nccl::finding::Straggler> {
        self.findings
            .iter()
            .filter_map(|f| match f {
                Finding::Straggler(s) => Some(&**s),
                _ => None,
            })
            .collect()
    }

    pub fn hangs(&self) -> Vec<&nccl::finding::Hang> {
        self.findings
            .iter()
            .filter_map(|f| match f {
                Finding::Hang(h) => Some(&**h),
                _ => None,
            })
            .collect()
    }

    pub fn completed(&self) -> Vec<&nccl::finding::Completed> {
        self.findings
            .iter()
            .filter_map(|f| match f {
                Finding::Completed(c) => Some(c),
                _ => None,
            })
            .collect()
    }

    pub fn arrived(&self) -> Vec<&nccl::finding::Arrived> {
        self.findings
            .iter()
            .filter_map(|f| match f {
                Finding::Arrived(a) => Some(a),
                _ => None,
            })
            .collect()
    }

    /// Checks that every operation is accounted for.
    #[track_caller]
    pub fn check_balance(&self) {
        let t = self.engine.tally();
        let over = t.completed + t.ended + t.expired + t.evicted;
        assert_eq!(t.operations, over + self.engine.outstanding(), "{t:?}");
    }
}

/// One rank of a job.
#[derive(Clone, Copy, Debug)]
pub struct Rank {
    pub process: ProcessId,
    pub tid: u32,
    pub handle: u64,
    pub stream: u64,
}

impl Rank {
    pub fn new(pid: u32) -> Rank {
        Rank { process: ProcessId { pid, start_ns: 1 }, tid: pid, handle: 0x1000, stream: 0x77 }
    }

    pub fn key(&self) -> StreamKey {
        StreamKey::of(self.process.pid, self.tid, self.stream, false)
    }

    pub fn call(&self, entry_ns: u64, duration_ns: u64, function: Function) -> Observation {
        Observation::Call(NcclCall {
            process: self.process,
            tid: self.tid,
            entry_ns,
            duration_ns,
            result: 0,
            device: (self.process.pid % 8) as i32,
            function,
        })
    }

    pub fn arguments(&self, operation: Operation) -> Arguments {
        Arguments {
            operation,
            comm: self.handle,
            stream: self.key(),
            count: 1 << 20,
            datatype: 7,
            reduction: 0,
            peer: -1,
            ordinal: None,
            is_unarmed: false,
        }
    }

    pub fn all_reduce(&self, entry_ns: u64, duration_ns: u64) -> Observation {
        self.call(entry_ns, duration_ns, Function::Operation(self.arguments(Operation::AllReduce)))
    }

    pub fn stream(&self, entry_ns: u64, duration_ns: u64, action: StreamAction) -> Observation {
        Observation::Stream(StreamCall {
            process: self.process,
            tid: self.tid,
            entry_ns,
            duration_ns,
            action,
        })
    }

    pub fn sync(&self, entry_ns: u64, exit_ns: u64) -> Observation {
        self.stream(entry_ns, exit_ns.saturating_sub(entry_ns), StreamAction::Sync(self.key()))
    }

    pub fn init(&self, entry_ns: u64, exit_ns: u64, nranks: usize, rank: usize, id: UniqueId) -> Observation {
        let function = Function::Init {
            out: Out { at: 0x10, handle: self.handle },
            nranks: nranks as i32,
            rank: rank as i32,
            id: Some(Box::new(id)),
        };
        self.call(entry_ns, exit_ns - entry_ns, function)
    }
}

pub fn unique_id(seed: u8) -> UniqueId {
    std::array::from_fn(|at| seed.wrapping_add(at as u8))
}

/// Ranks of one communicator that wait for each collective before the next.
pub struct Job {
    pub ranks: Vec<Rank>,
    pub id: UniqueId,
    pub now_ns: u64,
    pub rng: Rng,
    pub jitter: Jitter,
    /// Time from the end of a collective to the earliest arrival at the next, ns.
    pub period_ns: u64,
}

impl Job {
    pub fn new(count: usize, pid: u32, seed: u64) -> Job {
        let ranks = (0..count).map(|rank| Rank::new(pid + rank as u32)).collect();
        Job {
            ranks,
            id: unique_id(seed as u8 ^ pid as u8),
            now_ns: S,
            rng: Rng::new(seed ^ u64::from(pid) << 32),
            jitter: Jitter::Uniform(MS),
            period_ns: 10 * MS,
        }
    }

    pub fn communicator(&self) -> u64 {
        nccl::hash::of_unique_id(&self.id)
    }

    /// Observes that every rank makes the communicator.
    pub fn init(&mut self, watch: &mut Watch) {
        let count = self.ranks.len();
        let end_ns = self.now_ns + 50 * MS;
        let calls = self.ranks.iter().enumerate();
        let calls =
            calls.map(|(rank, r)| r.init(self.now_ns, end_ns + rank as u64 * US, count, rank, self.id));
        watch.see_all(calls.collect());
        self.now_ns = end_ns + self.period_ns;
    }

    /// Returns the observations of one collective in which rank `r` arrives `late(r)` later. Ranks with `None` never
    /// arrive, and then no wait ends.
    pub fn round(&mut self, late: impl Fn(usize) -> Option<u64>) -> Vec<Observation> {
        let base_ns = self.now_ns;
        let arrivals: Vec<Option<u64>> = (0..self.ranks.len())
            .map(|rank| late(rank).map(|ns| base_ns + ns + self.jitter.draw(&mut self.rng)))
            .collect();
        let end_ns =
            arrivals.iter().copied().collect::<Option<Vec<u64>>>().and_then(|all| all.into_iter().max());
        let mut observations = Vec::new();
        for (rank, at_ns) in self.ranks.iter().zip(&arrivals) {
            let Some(at_ns) = *at_ns else { continue };
            let enqueue_ns = 5 * US + self.rng.below(10 * US);
            observations.push(rank.all_reduce(at_ns, enqueue_ns));
            if let Some(end_ns) = end_ns {
                let exit_ns = end_ns + MS + self.rng.below(50 * US);
                observations.push(rank.sync(at_ns + enqueue_ns + 20 * US, exit_ns));
            }
        }
        let last_ns = end_ns.or(arrivals.iter().flatten().copied().max()).unwrap_or(base_ns);
        self.now_ns = last_ns + MS + self.period_ns;
        observations
    }

    pub fn play(&mut self, watch: &mut Watch, late: impl Fn(usize) -> Option<u64>) {
        let round = self.round(late);
        watch.see_all(round);
    }
}
