//! Collectives: what probes tell of NCCL, analysed by `nccl`, and what it finds, as telemetry of the processes that it
//! is about.
//!
//! The one idea: events cross a [`bridge`] into observations, and findings come out where they are told. Nothing here
//! knows NCCL's functions, and nothing in `nccl` knows events or telemetry.
//!
//! ```text
//! Event -- bridge --> nccl::Engine --> Finding --+--> meters of its process, at every collection
//!                                                |--> spans of collectives that are traced, at once
//!                                                `--> log records, at once
//! ```

mod bridge;
pub(crate) mod dump;
pub(crate) mod keeping;
mod launcher;
pub(crate) mod meters;
pub(crate) mod says;
mod spans;
mod straggler;
pub(crate) mod tell;

use event::Event;
use nccl::finding::Completed;
use nccl::observe::StepNote;
use nccl::{Engine, Finding, Observation, RankState, Tally};

use self::bridge::Bridge;
use self::keeping::Keeping;
use self::spans::Selection;
use self::tell::Teller;
use crate::analyzer::{Found, Look};

/// How collectives are analysed and told.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CollectiveSettings {
    /// False where nobody looks at them.
    pub is_enabled: bool,
    /// Ranks of communicators that a process has series of its own for; the rest share one.
    pub communicators_max: usize,
    /// Log records about stragglers and the like that a process may emit at once; hangs and ends are never limited.
    pub notices_burst: u32,
    /// The same in the long run.
    pub notices_per_minute: u32,
    /// Collectives that are traced for their skew, at once.
    pub traces_burst: u32,
    /// The same in the long run. Those chosen by rate are not limited.
    pub traces_per_minute: u32,
    /// How they are analysed.
    pub engine: nccl::Settings,
}

impl Default for CollectiveSettings {
    fn default() -> Self {
        CollectiveSettings {
            is_enabled: true,
            communicators_max: 32,
            notices_burst: 20,
            notices_per_minute: 20,
            traces_burst: 20,
            traces_per_minute: 30,
            engine: nccl::Settings::default(),
        }
    }
}

/// The analysis of collectives.
#[derive(Clone, Debug)]
pub(crate) struct Collectives {
    bridge: Bridge,
    engine: Engine,
    selection: Selection,
    /// What was brought to light and not told yet.
    findings: Vec<Finding>,
    keeping: Keeping,
}

impl Collectives {
    /// An analysis that has seen nothing.
    pub(crate) fn new(settings: &CollectiveSettings) -> Collectives {
        Collectives {
            bridge: Bridge::new(),
            engine: Engine::new(settings.engine),
            selection: Selection::new(settings.traces_per_minute, settings.traces_burst),
            findings: Vec::new(),
            keeping: Keeping::default(),
        }
    }

    /// Takes the next event.
    pub(crate) fn observe(&mut self, event: &Event) {
        self.take_back(event);
        let Collectives { bridge, engine, findings, .. } = self;
        bridge.cross(event, &mut |observation| {
            engine.observe(&observation, &mut |finding| findings.push(finding));
        });
    }

    /// A step is over: a process's last ones are kept for the flight recorder.
    pub(crate) fn note(&mut self, step: &steps::Step) {
        let note = StepNote {
            process: step.process,
            end_ns: step.end_ns,
            duration_ns: step.duration_ns,
            sequence: step.sequence,
        };
        let findings = &mut self.findings;
        self.engine.observe(&Observation::Step(note), &mut |finding| findings.push(finding));
    }

    /// Tells what was brought to light.
    pub(crate) fn tell(&mut self, teller: &mut Teller<'_, '_>, look: Look<'_>) {
        if self.findings.is_empty() {
            return;
        }
        let mut findings = std::mem::take(&mut self.findings);
        for finding in findings.drain(..) {
            look(Found::Collective(&finding));
            self.tell_one(&finding, teller);
        }
        self.findings = findings;
    }

    /// The ranks as they are now.
    pub(crate) fn ranks(&self) -> impl Iterator<Item = RankState> + '_ {
        self.engine.ranks()
    }

    /// What was counted, and operations that nobody has waited for yet.
    pub(crate) fn tally(&self) -> (Tally, u64) {
        (self.engine.tally(), self.engine.outstanding())
    }

    fn tell_one(&mut self, finding: &Finding, teller: &mut Teller<'_, '_>) {
        match finding {
            Finding::Enqueued(found) => {
                teller.process(&found.who).into_iter().for_each(|p| p.collectives().enqueued(found));
            }
            Finding::Completed(found) => self.completed(found, teller),
            Finding::Arrived(found) => {
                teller.process(&found.last).into_iter().for_each(|p| p.collectives().arrived(found));
            }
            Finding::Rank(found) if found.is_new => teller.rank(&found.who),
            Finding::Rank(_) => {}
            Finding::Straggler(found) => teller.straggler(found),
            Finding::Recovered(found) => teller.recovered(found),
            Finding::Hang(found) => teller.hang(found, &self.engine),
            Finding::HangOver(found) => teller.hang_over(found, &self.engine),
            Finding::Mismatch(found) => teller.mismatch(found),
            Finding::Disagreement(found) => teller.disagreement(found),
            Finding::Ended(found) => teller.ended(found),
        }
    }

    fn completed(&mut self, found: &Completed, teller: &mut Teller<'_, '_>) {
        let Some(traced) = teller.process(&found.who) else { return };
        traced.collectives().completed(found);
        let Some(trace) = &found.trace else { return };
        if !self.selection.takes(trace, teller.clock.now_ns()) {
            teller.account.collectives.untraced += 1;
            return;
        }
        spans::emit(found, trace, teller.clock, teller.records);
        teller.hand_over(&found.who);
    }
}
