//! Collectives: observations of NCCL calls, analyzed by `nccl`, and its findings as telemetry of the processes
//! concerned.
//!
//! A [`bridge`] converts events into observations, and findings are emitted as telemetry. This module does not know
//! NCCL's functions, and `nccl` knows neither events nor telemetry.
//!
//! ```text
//! Event -- bridge --> nccl::Engine --> Finding --+--> meters of its process, at every collection
//!                                                |--> spans of collectives that are traced, at once
//!                                                `--> log records, at once
//! ```

pub(crate) mod attributes;
mod bridge;
pub(crate) mod dump;
pub(crate) mod emit;
mod launcher;
pub(crate) mod meters;
pub(crate) mod persisted;
mod spans;
mod straggler;

use event::Event;
use nccl::observe::StepNote;
use nccl::{Engine, Finding, Observation, RankState, Tally};

use self::bridge::Bridge;
use self::emit::Emitter;
use self::persisted::PersistedFlights;
use self::spans::Selection;
use crate::analyzer::{Found, Look};

/// The settings of the analysis of collectives.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CollectiveSettings {
    /// Whether collectives are analysed.
    pub is_enabled: bool,
    /// The maximum number of ranks of one process with series of their own; the rest share one.
    pub communicators_max: usize,
    /// Burst of log records about stragglers and mismatches of one process. Hangs and ends have a higher limit of
    /// their own.
    pub verdicts_burst: u32,
    /// The rate of log records about verdicts.
    pub verdicts_per_minute: u32,
    /// Burst of collectives that are traced for their skew.
    pub traces_burst: u32,
    /// The rate of collectives traced for their skew; those selected by hash are not limited.
    pub traces_per_minute: u32,
    /// Settings of the engine.
    pub engine: nccl::Settings,
}

impl Default for CollectiveSettings {
    fn default() -> Self {
        CollectiveSettings {
            is_enabled: true,
            communicators_max: 32,
            verdicts_burst: 20,
            verdicts_per_minute: 20,
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
    /// Pending findings.
    findings: Vec<Finding>,
    persisted: PersistedFlights,
}

impl Collectives {
    /// Creates an analysis without state.
    pub(crate) fn new(settings: &CollectiveSettings) -> Collectives {
        Collectives {
            bridge: Bridge::new(),
            engine: Engine::new(settings.engine),
            selection: Selection::new(settings.traces_per_minute, settings.traces_burst),
            findings: Vec::new(),
            persisted: PersistedFlights::default(),
        }
    }

    /// Observes an event and emits the resulting findings.
    pub(crate) fn observe(&mut self, event: &Event, emitter: &mut Emitter<'_, '_>, look: Look<'_>) {
        self.restore_process(event);
        let Collectives { bridge, engine, findings, .. } = self;
        bridge.cross(event, &mut |observation| {
            engine.observe(&observation, findings);
        });
        self.report(emitter, look);
    }

    /// Records a completed step, of which the flight recorder has the last ones of each process.
    pub(crate) fn note(&mut self, step: &steps::Step) {
        let note = StepNote {
            process: step.process,
            end_ns: step.end_ns,
            duration_ns: step.duration_ns,
            sequence: step.sequence,
        };
        self.engine.observe(&Observation::Step(note), &mut self.findings);
    }

    /// Emits the pending findings, which may need data of the engine.
    pub(crate) fn report(&mut self, emitter: &mut Emitter<'_, '_>, look: Look<'_>) {
        let Collectives { engine, findings, selection, .. } = self;
        for finding in findings.drain(..) {
            look(Found::Collective(&finding));
            match &finding {
                Finding::Rank(found) if found.is_new => emitter.rank(&found.who),
                Finding::Straggler(found) => emitter.straggler(found),
                Finding::Recovered(found) => emitter.recovered(found),
                Finding::Hang(found) => emitter.hang(found, engine),
                Finding::HangOver(found) => emitter.hang_over(found, engine),
                Finding::Mismatch(found) => emitter.mismatch(found),
                Finding::Disagreement(found) => emitter.disagreement(found),
                Finding::Ended(found) => emitter.ended(found),
                usual => emitter.usual(usual, selection),
            }
        }
    }

    /// Emits the remaining findings at the end of the source.
    pub(crate) fn finish(&mut self, emitter: &mut Emitter<'_, '_>, look: Look<'_>) {
        self.engine.finish(&mut self.findings);
        self.report(emitter, look);
    }

    /// Returns the current state of each rank.
    pub(crate) fn ranks(&self) -> impl Iterator<Item = RankState> + '_ {
        self.engine.ranks()
    }

    /// Returns the counters and the number of outstanding operations.
    pub(crate) fn tally(&self) -> (Tally, u64) {
        (self.engine.tally(), self.engine.outstanding())
    }
}
