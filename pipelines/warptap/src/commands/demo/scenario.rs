//! The scenarios of the demo, a row each: a name, what is shown, and a recording.
//!
//! A new scenario needs its row here, its script `receiver/simulator/scripts/NAME.script` and its recording
//! `recordings/NAME.rec.gz`, which `warptap record` makes of the live demo.

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};

/// A demo: the simulator's built-in script of the same name, and a recording of it for machines without eBPF.
#[derive(Debug, Eq, PartialEq)]
pub struct Scenario {
    /// Name on the command line, of the script and of the recording.
    pub name: &'static str,
    /// One line that describes the problem shown: the help text and the title of the demo.
    pub story: &'static str,
    /// The recording, gzip.
    pub recording: &'static [u8],
}

macro_rules! scenarios {
    ($($name:literal: $story:literal;)*) => {
        &[$(Scenario {
            name: $name,
            story: $story,
            recording: include_bytes!(concat!("../../../recordings/", $name, ".rec.gz")),
        }),*]
    };
}

/// All scenarios; `--help` shows them in this order.
pub static SCENARIOS: &[Scenario] = scenarios! {
    "incident": "a batch job competes with the server for its CPU for a few seconds";
    "cold-start": "a server that has just started: the first steps are slow";
    "cpu-contention": "short bursts of other work on the server's CPU, every few seconds";
    "gpu-steal": "another process uses the same GPU in bursts";
    "late-rank": "four ranks of a training job; one arrives late at collectives, the others wait for it";
    "memcpy-bottleneck": "single steps wait for a large copy";
    "periodic-spike": "one step is slow at regular intervals";
    "slow-decode": "single decode steps are slow on the GPU, among longer prefill steps";
};

impl Scenario {
    /// Returns the command line parser of a scenario's name.
    pub fn parser() -> impl TypedValueParser<Value = &'static Scenario> {
        let names = SCENARIOS.iter().map(|s| PossibleValue::new(s.name).help(s.story));
        PossibleValuesParser::new(names).try_map(|name| Scenario::find(&name).ok_or("unknown scenario"))
    }

    fn find(name: &str) -> Option<&'static Scenario> {
        SCENARIOS.iter().find(|s| s.name == name)
    }
}

#[cfg(test)]
mod tests {
    use event::{Event, EventSource as _};
    use trace::Limits;
    use trace::replay::Replay;

    use super::*;

    #[test]
    fn every_scenario_has_a_script() {
        for scenario in SCENARIOS {
            assert!(simulator::scripts::find(scenario.name).is_some(), "{}", scenario.name);
        }
    }

    #[test]
    fn every_recording_reads_to_its_end_and_holds_steps() {
        for scenario in SCENARIOS {
            let mut events = Vec::new();
            let mut source = Replay::open(scenario.recording, &Limits::default()).unwrap();
            while source.read(&mut events).unwrap() {}
            let steps = events.iter().filter(|e| matches!(e, Event::Step(_))).count();
            assert!(steps > 100, "{}: {steps} steps", scenario.name);
        }
    }
}
