//! NCCL calls and findings about collectives, recorded for their processes.

use event::CallArgs;
use instrumentation::Sink;

use super::Analyzer;
use crate::collectives::Collectives;
use crate::collectives::emit::Emitter;

impl Analyzer {
    /// Records an NCCL call for its process, and counts its error.
    pub(super) fn call_args(&mut self, args: &CallArgs, sink: Sink<'_>) {
        let row = probe_abi::row(args.header.row).filter(|_| self.collectives.is_some());
        let Some(row) = row else { return };
        if let Some(traced) = self.traced((&args.header).into(), sink) {
            traced.call_args(row, args.result);
        }
    }

    /// Runs `run` with the collectives and an emitter of their findings.
    pub(super) fn with_collectives(
        &mut self,
        sink: Sink<'_>,
        run: impl FnOnce(&mut Collectives, &mut Emitter<'_, '_>),
    ) {
        let Analyzer { collectives, processes, records, account, clock, engine, .. } = self;
        if let Some(collectives) = collectives {
            run(collectives, &mut Emitter { processes, records, account, clock, steps: engine, sink });
        }
    }

    /// Records the state of each rank for the gauges of its process.
    pub(super) fn record_rank_states(&mut self) {
        let ranks = self.collectives.iter().flat_map(Collectives::ranks);
        for rank in ranks {
            if let Some(traced) = self.processes.get_mut(&rank.who.process) {
                traced.collectives().set_state(rank);
            }
        }
    }
}
