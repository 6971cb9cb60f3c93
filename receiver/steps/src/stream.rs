//! The streams of one process: small numbers for handles, which are addresses and are reused.
//!
//! A number stays with one stream while the stream is remembered. There are [`STREAMS_MAX`] numbers: those of destroyed
//! streams are reused first, then that of the least recently used one, which is counted as evicted.

use crate::phase::names::Facts;
use crate::phase::{Classifier, PhaseLabel, StreamClassifier};
use crate::settings::STREAMS_MAX;
use crate::shape::Shape;

#[derive(Clone, Debug)]
struct Stream {
    /// `None` once destroyed.
    handle: Option<u64>,
    used: u64,
    next_sequence: u64,
    classifier: StreamClassifier,
}

/// The stream number of a segment.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) struct Numbered {
    /// The stream's number.
    pub(crate) stream: u32,
    /// True if the number was another stream's until now.
    pub(crate) is_taken_over: bool,
    /// Segments of the stream missing before this one.
    pub(crate) missed: u64,
}

/// The streams of one process.
#[derive(Clone, Debug)]
pub(crate) struct Streams {
    classifier: Classifier,
    streams: Vec<Stream>,
    tick: u64,
    evicted: u64,
    clusters_evicted: u64,
}

impl Streams {
    pub(crate) fn new(classifier: Classifier) -> Streams {
        Streams { classifier, streams: Vec::new(), tick: 0, evicted: 0, clusters_evicted: 0 }
    }

    /// Returns the number of the stream with this handle, for the segment that the kernel numbered `sequence` on it.
    pub(crate) fn number(&mut self, handle: u64, sequence: u64) -> Numbered {
        self.tick += 1;
        let known = self.streams.iter().position(|s| s.handle == Some(handle));
        // A sequence that starts again belongs to a new stream at the same address.
        let known = known.filter(|at| self.streams[*at].next_sequence <= sequence);
        let (at, is_taken_over) = known.map_or_else(|| self.insert(handle, sequence), |at| (at, false));
        let stream = &mut self.streams[at];
        let missed = sequence.saturating_sub(stream.next_sequence);
        stream.next_sequence = sequence.saturating_add(1);
        stream.used = self.tick;
        Numbered { stream: at as u32, is_taken_over, missed }
    }

    /// Releases the handle of a destroyed stream, which may be reused, and returns the stream's number.
    pub(crate) fn destroy(&mut self, handle: u64) -> Option<u32> {
        let at = self.streams.iter().position(|s| s.handle == Some(handle))?;
        self.streams[at].handle = None;
        Some(at as u32)
    }

    /// Returns the label of the next step of the stream with this number.
    pub(crate) fn label(&mut self, stream: u32, shape: &Shape, facts: Facts<'_>) -> PhaseLabel {
        self.streams
            .get_mut(stream as usize)
            .map(|s| s.classifier.label(shape, facts))
            .unwrap_or(PhaseLabel::UNKNOWN)
    }

    /// Discards what is known of the graph with this fingerprint, which was updated or destroyed.
    pub(crate) fn change_graph(&mut self, graph: u64) {
        self.streams.iter_mut().for_each(|s| s.classifier.change_graph(graph));
    }

    /// Returns the number of streams evicted.
    pub(crate) fn evicted(&self) -> u64 {
        self.evicted
    }

    /// Returns the number of clusters evicted, of all streams.
    pub(crate) fn clusters_evicted(&self) -> u64 {
        self.clusters_evicted + self.streams.iter().map(|s| s.classifier.evicted()).sum::<u64>()
    }

    /// Adds a stream. Segments before `sequence` were before the agent attached and are not missing.
    fn insert(&mut self, handle: u64, sequence: u64) -> (usize, bool) {
        self.destroy(handle);
        let classifier = StreamClassifier::new(&self.classifier);
        let new = Stream { handle: Some(handle), used: 0, next_sequence: sequence, classifier };
        if self.streams.len() < STREAMS_MAX {
            self.streams.push(new);
            return (self.streams.len() - 1, false);
        }
        let by_use = |at: &usize| (self.streams[*at].handle.is_some(), self.streams[*at].used);
        let oldest = (0..STREAMS_MAX).min_by_key(by_use).expect("STREAMS_MAX > 0");
        self.evicted += u64::from(self.streams[oldest].handle.is_some());
        self.clusters_evicted += self.streams[oldest].classifier.evicted();
        self.streams[oldest] = new;
        (oldest, true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::allocated_bytes;

    fn streams() -> Streams {
        Streams::new(Classifier::default())
    }

    #[track_caller]
    fn check(streams: &mut Streams, handle: u64, sequence: u64, stream: u32, missed: u64) {
        let numbered = streams.number(handle, sequence);
        assert_eq!(
            (numbered.stream, numbered.missed),
            (stream, missed),
            "handle {handle}, sequence {sequence}"
        );
    }

    #[test]
    fn a_stream_keeps_its_number() {
        let mut s = streams();
        check(&mut s, 0xaaaa, 0, 0, 0);
        check(&mut s, 0xbbbb, 0, 1, 0);
        check(&mut s, 0xaaaa, 1, 0, 0);
    }

    #[test]
    fn only_segments_after_the_first_can_be_missing() {
        let mut s = streams();
        check(&mut s, 1, 900, 0, 0);
        check(&mut s, 1, 903, 0, 2);
    }

    #[test]
    fn a_reused_handle_is_another_stream() {
        let mut s = streams();
        check(&mut s, 1, 0, 0, 0);
        s.destroy(1);
        check(&mut s, 1, 0, 1, 0);
        // Destroyed unnoticed: the kernel's sequence starts again.
        check(&mut s, 1, 1, 1, 0);
        check(&mut s, 1, 0, 2, 0);
    }

    #[test]
    fn ten_thousand_streams_take_bounded_memory() {
        let before = allocated_bytes();
        let mut s = streams();
        for handle in 0..10_000u64 {
            s.number(handle, 0);
            assert!(s.number(u64::MAX, handle).stream < STREAMS_MAX as u32);
        }
        assert_eq!(s.evicted(), 10_001 - STREAMS_MAX as u64);
        let bytes = allocated_bytes() - before;
        assert!(bytes < 32 * 1024, "{bytes}");
    }

    #[test]
    fn numbers_of_destroyed_streams_are_reused_first() {
        let mut s = streams();
        (0..STREAMS_MAX as u64).for_each(|handle| {
            s.number(handle, 0);
        });
        s.destroy(40);
        let numbered = s.number(u64::MAX, 0);
        assert_eq!((numbered.stream, numbered.is_taken_over, s.evicted()), (40, true, 0));
    }
}
