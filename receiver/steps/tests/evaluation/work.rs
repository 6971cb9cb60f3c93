//! Work with the functions that it launches.

use std::collections::BTreeMap;

use probe_abi::fold::{Counter, mix};
use steps::StepWork;

use crate::names::{Role, Style};

/// A function by its number, and what gives it a name.
#[derive(Clone, Copy, Debug)]
pub struct Function {
    pub kernel: u64,
    pub role: Role,
    pub style: Style,
}

impl Function {
    /// Returns the identity of the function: kernels that several roles share have one name.
    pub fn identity(&self) -> u64 {
        self.name().bytes().fold(0, |hash, byte| mix(hash ^ u64::from(byte)))
    }

    pub fn name(&self) -> String {
        self.style.name(self.kernel, self.role)
    }
}

/// Launches of functions by kernel and role.
pub type Launches = BTreeMap<(u64, Role, u64), (Function, u64)>;

/// The work of a segment: its counters, and its launches by function.
#[derive(Clone, Debug, Default)]
pub struct Work {
    pub counters: StepWork,
    /// Functions launched one by one.
    pub launched: Launches,
    /// Functions in launched graphs.
    pub in_graphs: Launches,
}

impl Work {
    /// Returns a counter.
    pub fn of(&self, counter: Counter) -> u64 {
        self.counters.of(counter)
    }

    /// Sets a counter.
    pub fn set(&mut self, counter: Counter, value: u64) {
        self.counters.0[counter as usize] = value;
    }

    /// Adds other work.
    pub fn add(&mut self, other: &Work) {
        self.counters.add(&other.counters);
        for (to, from) in [(&mut self.launched, &other.launched), (&mut self.in_graphs, &other.in_graphs)] {
            from.iter()
                .for_each(|(key, (function, times))| to.entry(*key).or_insert((*function, 0)).1 += times);
        }
    }

    /// Adds launches of a function.
    pub fn launch(&mut self, function: Function, times: u64) {
        let key = (function.kernel, function.role, function.style.seed);
        self.launched.entry(key).or_insert((function, 0)).1 += times;
    }
}
