//! Synchronous analysis of a source to its end, without threads, for `replay` and for tests.

use event::EventSource;

use crate::analyzer::{Analyzer, Look, Settings};
use crate::batch::Sink;

/// Reads `source` to its end and sends the telemetry to `sink`; equal events give equal telemetry, whatever the
/// batches of the source. `look` is called with every finding. After an error, `sink` has the telemetry of what was
/// read before.
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
