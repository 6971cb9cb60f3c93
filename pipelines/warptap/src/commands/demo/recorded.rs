//! The demo without privileges: replays a recording of the live demo at its original pace.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use event::{Account, Event, EventSource as _};
use trace::Limits;
use trace::replay::Replay;

use super::Stage;

/// A recording that is being replayed.
pub(super) struct Recorded {
    waiting: VecDeque<Event>,
    began: Instant,
    first_ns: u64,
    limit: Duration,
}

impl Recorded {
    /// Reads a recording; at most `limit` of it is shown.
    pub(super) fn open(recording: &[u8], limit: Duration) -> anyhow::Result<Recorded> {
        let mut source = Replay::open(recording, &Limits::default())?;
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

    /// Returns the next counters if the replay ends before the recording, which has them every few seconds only.
    fn last_account(&self) -> Option<Account> {
        self.waiting.iter().find_map(|event| match event {
            Event::Account(account) => Some((**account).clone()),
            _ => None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::demo::scenario::SCENARIOS;

    /// A demo shorter than the interval of the counters ended in "0 hits".
    #[test]
    fn short_replay_ends_with_counters() {
        for scenario in SCENARIOS {
            let mut stage = Recorded::open(scenario.recording, Duration::from_millis(1)).unwrap();
            let mut events = Vec::new();
            while stage.read(&mut events).unwrap() {}
            // On a slow machine, the first counters are due within the first read.
            let read = events.into_iter().rev().find_map(|event| match event {
                Event::Account(account) => Some(*account),
                _ => None,
            });
            let account = stage.last_account().or(read);
            assert!(account.is_some_and(|account| account.hits > 0), "{}", scenario.name);
        }
    }
}
