//! Steps of which a part was ended by the call that began the next training iteration ([`flag::ITERATION`]).
//!
//! Where such a part is incomplete, because calls were made before the probes or outside of a window of observation, so is
//! the step that the rest of it belongs to.

use std::collections::BTreeSet;

use probe_abi::record::{StepRecord, flag};

/// Streams with an incomplete part; further ones are not remembered.
const STREAMS_MAX: usize = 4096;

/// Streams whose last record is an incomplete part of a step, by process id and handle.
#[derive(Debug, Default)]
pub(crate) struct Fragments(BTreeSet<(u32, u64)>);

impl Fragments {
    /// Marks a step whose first part was incomplete.
    pub(crate) fn mark_step(&mut self, step: &mut StepRecord) {
        let key = (step.header.pid, step.stream);
        let is_incomplete_part =
            step.header.flags & flag::ITERATION != 0 && step.header.flags & flag::UNARMED != 0;
        if self.0.remove(&key) {
            step.header.flags |= flag::UNARMED;
        } else if is_incomplete_part && self.0.len() < STREAMS_MAX {
            self.0.insert(key);
        }
    }

    /// Forgets the streams of a process that has ended.
    pub(crate) fn remove(&mut self, pid: u32) {
        self.0.retain(|(of, _)| *of != pid);
    }
}

#[cfg(test)]
mod tests {
    use probe_abi::record::Header;

    use super::*;

    fn marked(fragments: &mut Fragments, flags: u32) -> bool {
        let header = Header { pid: 7, flags, ..Header::default() };
        let mut step = StepRecord { header, stream: 1, ..StepRecord::default() };
        fragments.mark_step(&mut step);
        step.header.flags & flag::UNARMED != 0
    }

    #[test]
    fn the_rest_of_an_incomplete_part_is_marked() {
        let mut fragments = Fragments::default();
        let part = flag::ITERATION | flag::UNARMED;
        assert_eq!([part, 0, 0].map(|flags| marked(&mut fragments, flags)), [true, true, false]);
        let of_loop = [part, flag::ITERATION, flag::ITERATION, 0];
        assert_eq!(of_loop.map(|flags| marked(&mut fragments, flags)), [true, true, false, false]);
        assert!(marked(&mut fragments, part));
        fragments.remove(7);
        assert!(!marked(&mut fragments, 0));
    }

    #[test]
    fn steps_that_a_wait_ended_mark_no_other() {
        let mut fragments = Fragments::default();
        assert_eq!([flag::UNARMED, 0].map(|flags| marked(&mut fragments, flags)), [true, false]);
    }
}
