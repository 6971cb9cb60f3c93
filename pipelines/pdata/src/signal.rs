//! The signals of OpenTelemetry, and a table with one entry for each.

use std::ops::{Index, IndexMut};

/// A kind of telemetry; every pipeline transports one.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub enum Signal {
    /// Log records.
    Logs,
    /// Metrics, whose items are data points.
    Metrics,
    /// Traces, whose items are spans.
    Traces,
    /// Profiles, forwarded unchanged behind the feature gate `service.profilesSupport`.
    Profiles,
}

impl Signal {
    /// All signals: the stable ones first.
    pub const ALL: [Signal; 4] = [Signal::Logs, Signal::Metrics, Signal::Traces, Signal::Profiles];

    /// The signals whose protocol is stable.
    pub const STABLE: [Signal; 3] = [Signal::Logs, Signal::Metrics, Signal::Traces];

    /// Returns the name that a pipeline id begins with: `logs`, `metrics`, `traces` or `profiles`.
    pub const fn name(self) -> &'static str {
        match self {
            Signal::Logs => "logs",
            Signal::Metrics => "metrics",
            Signal::Traces => "traces",
            Signal::Profiles => "profiles",
        }
    }
}

/// One value for each signal, indexed by [`Signal`].
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct PerSignal<T>([T; Signal::ALL.len()]);

impl<T> PerSignal<T> {
    /// Creates the table from a function of the signal.
    pub fn from_fn(value: impl FnMut(Signal) -> T) -> Self {
        PerSignal(Signal::ALL.map(value))
    }

    /// Returns the values with their signals, in the order of [`Signal::ALL`].
    pub fn iter(&self) -> impl Iterator<Item = (Signal, &T)> {
        Signal::ALL.into_iter().zip(&self.0)
    }

    /// Returns the values, in the order of [`Signal::ALL`].
    pub fn values(&self) -> &[T] {
        &self.0
    }

    /// Converts every value.
    pub fn map<U>(self, convert: impl FnMut(T) -> U) -> PerSignal<U> {
        PerSignal(self.0.map(convert))
    }
}

impl<T> Index<Signal> for PerSignal<T> {
    type Output = T;

    fn index(&self, signal: Signal) -> &T {
        &self.0[signal as usize]
    }
}

impl<T> IndexMut<Signal> for PerSignal<T> {
    fn index_mut(&mut self, signal: Signal) -> &mut T {
        &mut self.0[signal as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_signal_has_its_own_entry() {
        let mut names = PerSignal::from_fn(Signal::name);
        for signal in Signal::ALL {
            assert_eq!(names[signal], signal.name());
        }
        names[Signal::Profiles] = "";
        assert_eq!(names.values(), ["logs", "metrics", "traces", ""]);
    }
}
