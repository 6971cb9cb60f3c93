//! Collectives: what probes tell of NCCL, analysed by `nccl`, and what it finds, as telemetry of the processes that it
//! is about.
//!
//! Events cross a [`bridge`] into observations, and findings are emitted as telemetry. Nothing here
//! knows NCCL's functions, and nothing in `nccl` knows events or telemetry.
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
    /// Ranks of communicators that a process has series of its own for; the rest share one.
    pub communicators_max: usize,
    /// Log records about stragglers and the like that a process may emit at once; hangs and ends have a limit of their
    /// own, far above what happens.
    pub verdicts_burst: u32,
    /// The rate of log records about verdicts.
    pub verdicts_per_minute: u32,
    /// Collectives that are traced for their skew, at once.
    pub traces_burst: u32,
    /// The rate of collectives traced for their skew; those selected by hash are not limited.
    pub traces_per_minute: u32,
    /// How they are analysed.
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
    /// An analysis that has seen nothing.
    pub(crate) fn new(settings: &CollectiveSettings) -> Collectives {
        Collectives {
            bridge: Bridge::new(),
            engine: Engine::new(settings.engine),
            selection: Selection::new(settings.traces_per_minute, settings.traces_burst),
            findings: Vec::new(),
            persisted: PersistedFlights::default(),
        }
    }

    /// Takes the next event, and tells what it brings to light.
    pub(crate) fn observe(&mut self, event: &Event, emitter: &mut Emitter<'_, '_>, look: Look<'_>) {
        self.restore_process(event);
        let Collectives { bridge, engine, selection, findings, .. } = self;
        bridge.cross(event, &mut |observation| {
            engine.observe(&observation, &mut |finding| match is_usual(&finding) {
                true => {
                    look(Found::Collective(&finding));
                    emitter.usual(&finding, selection);
                }
                false => findings.push(finding),
            });
        });
        self.tell(emitter, look);
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

    /// Emits the pending findings, which may need data of the engine.
    pub(crate) fn tell(&mut self, emitter: &mut Emitter<'_, '_>, look: Look<'_>) {
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

    /// The source has ended.
    pub(crate) fn finish(&mut self, emitter: &mut Emitter<'_, '_>, look: Look<'_>) {
        let Collectives { engine, findings, .. } = self;
        engine.finish(&mut |finding| findings.push(finding));
        self.tell(emitter, look);
    }

    /// The ranks as they are now.
    pub(crate) fn ranks(&self) -> impl Iterator<Item = RankState> + '_ {
        self.engine.ranks()
    }

    /// Returns the counters and the number of outstanding operations.
    pub(crate) fn tally(&self) -> (Tally, u64) {
        (self.engine.tally(), self.engine.outstanding())
    }
}

/// Returns whether a finding occurs for every collective; such findings are recorded at once, not deferred.
fn is_usual(finding: &Finding) -> bool {
    matches!(finding, Finding::Enqueued(_) | Finding::Completed(_) | Finding::Arrived(_))
}
