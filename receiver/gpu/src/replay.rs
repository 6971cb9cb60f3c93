//! A source from its first event to its last, without threads: for `replay`, for tests, for everything that has
//! time to wait for what it gets.

use event::EventSource;

use crate::analyzer::{Analyzer, Look, Settings};
use crate::batch::Sink;

/// Reads `source` to its end and hands what it gives to `sink`; equal events give equal batches, whatever the
/// source's own. `look` sees every finding on the way, for summaries. What was read before an error is in `sink`.
pub fn replay<S: EventSource>(
    source: &mut S,
    settings: Settings,
    sink: Sink<'_>,
    look: Look<'_>,
) -> Result<(), S::Error> {
    let mut analyzer = Analyzer::new(settings);
    let mut events = Vec::new();
    loop {
        let read = source.read(&mut events);
        for event in events.drain(..) {
            analyzer.observe_with(&event, sink, look);
        }
        if !matches!(read, Ok(true)) {
            analyzer.finish_with(sink, look);
            return read.map(drop);
        }
    }
}
