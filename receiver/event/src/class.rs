//! Classes of probed functions, in the order in which they are thinned.

use probe_abi::{Action, Probe};

/// A class of functions whose probes are attached and detached together. The order is that of thinning: what comes first
/// is given up first.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub enum ProbeClass {
    /// Kernel launches.
    Launch,
    /// Copies and fills that do not wait.
    Copy,
    /// Calls that are only counted and timed, and queries.
    Call,
    /// Everything that ends, orders or contains work, memory, objects and collectives. Never thinned: one missing call
    /// would falsify later ones.
    Essential,
}

/// Number of classes.
pub const CLASSES: usize = ProbeClass::ALL.len();

impl ProbeClass {
    /// Every class, in order.
    pub const ALL: [ProbeClass; 4] =
        [ProbeClass::Launch, ProbeClass::Copy, ProbeClass::Call, ProbeClass::Essential];
    /// The classes that can be thinned, in order.
    pub const THINNABLE: [ProbeClass; 3] = [ProbeClass::Launch, ProbeClass::Copy, ProbeClass::Call];

    /// Returns the class of a function.
    pub fn of(row: &Probe) -> ProbeClass {
        match row.action {
            Action::Launch => ProbeClass::Launch,
            Action::Copy | Action::Fill if !row.wiring.blocking => ProbeClass::Copy,
            Action::Time | Action::Query => ProbeClass::Call,
            _ => ProbeClass::Essential,
        }
    }

    /// Returns the class of the function with this row id; unknown ones are essential.
    pub fn of_row(row: u16) -> ProbeClass {
        probe_abi::row(row).map_or(ProbeClass::Essential, ProbeClass::of)
    }

    /// Returns the name in logs.
    pub fn name(self) -> &'static str {
        match self {
            ProbeClass::Launch => "launches",
            ProbeClass::Copy => "copies",
            ProbeClass::Call => "other calls",
            ProbeClass::Essential => "synchronizing calls, graphs, memory and collectives",
        }
    }
}

/// A set of classes.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct ClassSet(u8);

impl ClassSet {
    /// The empty set.
    pub const NONE: ClassSet = ClassSet(0);

    /// Returns the set with `class` added.
    pub fn with(self, class: ProbeClass) -> ClassSet {
        ClassSet(self.0 | 1 << class as u8)
    }

    /// Returns whether the set contains `class`.
    pub fn contains(self, class: ProbeClass) -> bool {
        self.0 >> (class as u8) & 1 == 1
    }

    /// Returns whether the set is empty.
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Returns the classes of the set, in order.
    pub fn iter(self) -> impl Iterator<Item = ProbeClass> {
        ProbeClass::ALL.into_iter().filter(move |class| self.contains(*class))
    }
}

#[cfg(test)]
mod tests {
    use probe_abi::PROBES;

    use super::*;

    fn class(symbol: &str) -> ProbeClass {
        PROBES.iter().find(|p| p.symbol == symbol).map(ProbeClass::of).unwrap()
    }

    #[test]
    fn calls_that_end_or_order_work_are_essential() {
        for symbol in [
            "cudaStreamSynchronize",
            "cudaEventSynchronize",
            "cudaDeviceSynchronize",
            "cudaMemcpy",
            "cudaEventRecord",
            "cudaStreamWaitEvent",
            "cudaGraphLaunch",
            "cudaMalloc",
            "cudaFree",
            "cudaSetDevice",
            "ncclAllReduce",
        ] {
            assert_eq!(class(symbol), ProbeClass::Essential, "{symbol}");
        }
    }

    #[test]
    fn launches_are_thinned_before_copies_and_other_calls() {
        let classes = ["cudaLaunchKernel", "cudaMemcpyAsync", "cudaEventQuery"].map(class);
        assert_eq!(classes, ProbeClass::THINNABLE);
        assert!(classes.is_sorted());
    }

    #[test]
    fn sets_contain_what_was_added() {
        let set = ClassSet::NONE.with(ProbeClass::Copy).with(ProbeClass::Launch);
        assert_eq!(set.iter().collect::<Vec<_>>(), [ProbeClass::Launch, ProbeClass::Copy]);
        assert!(ClassSet::NONE.is_empty() && !set.contains(ProbeClass::Call));
    }
}
