//! The demo without privileges: a recording of the live one, at the pace it was made.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use event::{Event, EventSource as _};
use trace::Limits;
use trace::replay::Replay;

use super::Stage;

/// Recordings of the scenarios, made by `demo` as root. Sorted by name.
const RECORDINGS: &[(&str, &[u8])] = &[
    ("cold-start", include_bytes!("../../../recordings/cold-start.rec.gz")),
    ("cpu-contention", include_bytes!("../../../recordings/cpu-contention.rec.gz")),
    ("gpu-steal", include_bytes!("../../../recordings/gpu-steal.rec.gz")),
    ("incident", include_bytes!("../../../recordings/incident.rec.gz")),
    ("late-rank", include_bytes!("../../../recordings/late-rank.rec.gz")),
    ("memcpy-bottleneck", include_bytes!("../../../recordings/memcpy-bottleneck.rec.gz")),
    ("periodic-spike", include_bytes!("../../../recordings/periodic-spike.rec.gz")),
    ("slow-decode", include_bytes!("../../../recordings/slow-decode.rec.gz")),
];

/// Events that wait for their time.
pub(super) struct Recorded {
    waiting: VecDeque<Event>,
    began: Instant,
    first_ns: u64,
    limit: Duration,
}

impl Recorded {
    /// Opens the scenario's recording; no more than `limit` of it is shown.
    pub(super) fn open(scenario: &str, limit: Duration) -> anyhow::Result<Recorded> {
        let recording = RECORDINGS.iter().find(|(name, _)| *name == scenario);
        let (_, bytes) = recording.with_context(|| format!("there is no recording of {scenario}"))?;
        let mut source = Replay::open(*bytes, &Limits::default())?;
        let mut events = Vec::new();
        while source.read(&mut events)? {}
        let first_ns = events.iter().find_map(Event::at_ns).unwrap_or(0);
        Ok(Recorded { waiting: events.into(), began: Instant::now(), first_ns, limit })
    }

    fn is_due(&self, event: &Event) -> bool {
        let after = Duration::from_nanos(event.at_ns().unwrap_or(0).saturating_sub(self.first_ns));
        after <= self.began.elapsed()
    }
}

impl Stage for Recorded {
    fn read(&mut self, into: &mut Vec<Event>) -> anyhow::Result<bool> {
        while self.waiting.front().is_some_and(|event| self.is_due(event)) {
            into.extend(self.waiting.pop_front());
        }
        Ok(!self.waiting.is_empty() && self.began.elapsed() < self.limit)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_recording_reads_to_its_end_and_holds_steps() {
        for (name, bytes) in RECORDINGS {
            let mut events = Vec::new();
            let mut source = Replay::open(*bytes, &Limits::default()).unwrap();
            while source.read(&mut events).unwrap() {}
            let steps = events.iter().filter(|e| matches!(e, Event::Step(_))).count();
            assert!(steps > 100, "{name}: {steps} steps");
        }
    }
}
