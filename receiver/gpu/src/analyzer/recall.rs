//! What outlives the analysis: what it takes over from an earlier run, and what it leaves to the next.

use event::ProcessId;

use super::Analyzer;
use crate::batch::Sink;
use crate::keep::{Change, Kept, Left};
use crate::tell;

impl Analyzer {
    /// Takes what an earlier run left, before the first event. `lives` tells whether a process is still there.
    pub fn recall(&mut self, left: &Left, lives: &dyn Fn(ProcessId) -> bool, sink: Sink<'_>) {
        self.clock.set(left.clock);
        self.clock.see(left.clock.at_ns);
        let unread = left.records.iter().filter(|kept| !self.recall_one(kept, lives, sink)).count();
        self.account.damaged = left.damaged.saturating_add(unread as u64);
        if self.account.damaged > 0 {
            tell::damaged(&self.receiver, self.account.damaged, &self.records, &self.clock, sink);
        }
    }

    /// What changed, since this was last asked, of the records that are to outlive the analysis.
    pub fn changes(&mut self, out: &mut dyn FnMut(Change)) {
        self.gone.drain(..).for_each(|key| out(Change { key, bytes: None }));
    }

    /// False where it cannot be read. Then it is not kept any longer.
    fn recall_one(&mut self, kept: &Kept, _lives: &dyn Fn(ProcessId) -> bool, _sink: Sink<'_>) -> bool {
        self.gone.push(kept.key.clone());
        false
    }
}
