//! Where calls of NCCL, and what is found of collectives, meet the processes that they are about.

use event::CallArgs;
use instrumentation::Sink;

use super::Analyzer;
use crate::collectives::Collectives;
use crate::collectives::tell::Teller;

impl Analyzer {
    /// A call of NCCL: its process is seen, and its failure counted.
    pub(super) fn told(&mut self, told: &CallArgs, sink: Sink<'_>) {
        let row = probe_abi::row(told.header.row).filter(|_| self.collectives.is_some());
        let Some(row) = row else { return };
        if let Some(traced) = self.traced((&told.header).into(), sink) {
            traced.told(row, told.result);
        }
    }

    /// Collectives, and what telling of them needs.
    pub(super) fn with_collectives(
        &mut self,
        sink: Sink<'_>,
        run: impl FnOnce(&mut Collectives, &mut Teller<'_, '_>),
    ) {
        let Analyzer { collectives, processes, records, account, clock, engine, .. } = self;
        if let Some(collectives) = collectives {
            run(collectives, &mut Teller { processes, records, account, clock, steps: engine, sink });
        }
    }

    /// What is so now of each rank, for its process's gauges.
    pub(super) fn look_at_ranks(&mut self) {
        let ranks = self.collectives.iter().flat_map(Collectives::ranks);
        for rank in ranks {
            if let Some(traced) = self.processes.get_mut(&rank.who.process) {
                traced.collectives().see(rank);
            }
        }
    }
}
