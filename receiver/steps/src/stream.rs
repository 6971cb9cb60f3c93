//! The streams of one process: small numbers for handles that come and go.
//!
//! The one idea: a handle is an address, and addresses are reused; a number stays with one stream for as long as
//! the stream is remembered. [`STREAMS_MAX`] places: a stream that was destroyed makes room first, then the one
//! unused longest, which is counted.

use crate::phase::{Classifier, Label, StreamClassifier};
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

/// Where a segment belongs.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) struct Place {
    /// The stream's number.
    pub(crate) stream: u32,
    /// The number was another stream's until now.
    pub(crate) is_taken_over: bool,
    /// Segments of the stream that never came.
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

    /// The place of the segment that the kernel numbered `sequence` on the stream with this handle.
    pub(crate) fn place(&mut self, handle: u64, sequence: u64) -> Place {
        self.tick += 1;
        let known = self.streams.iter().position(|s| s.handle == Some(handle));
        // The kernel counts from 0 again: another stream came back at the same address.
        let known = known.filter(|at| self.streams[*at].next_sequence <= sequence);
        let (at, is_taken_over) = known.map_or_else(|| self.enter(handle, sequence), |at| (at, false));
        let stream = &mut self.streams[at];
        let missed = sequence.saturating_sub(stream.next_sequence);
        stream.next_sequence = sequence.saturating_add(1);
        stream.used = self.tick;
        Place { stream: at as u32, is_taken_over, missed }
    }

    /// The stream with this handle is gone; the handle may come back as another. Returns its number.
    pub(crate) fn destroy(&mut self, handle: u64) -> Option<u32> {
        let at = self.streams.iter().position(|s| s.handle == Some(handle))?;
        self.streams[at].handle = None;
        Some(at as u32)
    }

    /// Labels the next step of the stream with this number.
    pub(crate) fn label(&mut self, stream: u32, shape: &Shape) -> Label {
        self.streams.get_mut(stream as usize).map(|s| s.classifier.label(shape)).unwrap_or(Label::UNKNOWN)
    }

    /// The graph with this fingerprint is another from here on, or is gone.
    pub(crate) fn forget_graph(&mut self, graph: u64) {
        self.streams.iter_mut().for_each(|s| s.classifier.forget_graph(graph));
    }

    /// Streams forgotten to make room.
    pub(crate) fn evicted(&self) -> u64 {
        self.evicted
    }

    /// Clusters forgotten to make room.
    pub(crate) fn clusters_evicted(&self) -> u64 {
        self.clusters_evicted + self.streams.iter().map(|s| s.classifier.evicted()).sum::<u64>()
    }

    /// Bytes held beside the struct itself.
    pub(crate) fn heap_bytes(&self) -> usize {
        let classifiers: usize = self.streams.iter().map(|s| s.classifier.heap_bytes()).sum();
        self.streams.capacity() * size_of::<Stream>() + classifiers
    }

    /// Gives the handle a place. What came before `sequence` was before our time.
    fn enter(&mut self, handle: u64, sequence: u64) -> (usize, bool) {
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

    fn streams() -> Streams {
        Streams::new(Classifier::default())
    }

    #[track_caller]
    fn check(streams: &mut Streams, handle: u64, sequence: u64, stream: u32, missed: u64) {
        let place = streams.place(handle, sequence);
        assert_eq!((place.stream, place.missed), (stream, missed), "handle {handle}, sequence {sequence}");
    }

    #[test]
    fn a_stream_keeps_its_number() {
        let mut s = streams();
        check(&mut s, 0xaaaa, 0, 0, 0);
        check(&mut s, 0xbbbb, 0, 1, 0);
        check(&mut s, 0xaaaa, 1, 0, 0);
    }

    #[test]
    fn what_was_before_our_time_is_not_missed_and_what_is_lost_later_is() {
        let mut s = streams();
        check(&mut s, 1, 900, 0, 0);
        check(&mut s, 1, 903, 0, 2);
    }

    #[test]
    fn a_handle_that_comes_back_is_another_stream() {
        let mut s = streams();
        check(&mut s, 1, 0, 0, 0);
        s.destroy(1);
        check(&mut s, 1, 0, 1, 0);
        // Destroyed unseen: the kernel begins to count anew.
        check(&mut s, 1, 1, 1, 0);
        check(&mut s, 1, 0, 2, 0);
    }

    #[test]
    fn ten_thousand_streams_take_the_memory_of_a_few() {
        let mut s = streams();
        for handle in 0..10_000u64 {
            s.place(handle, 0);
            assert!(s.place(u64::MAX, handle).stream < STREAMS_MAX as u32);
        }
        assert_eq!(s.evicted(), 10_001 - STREAMS_MAX as u64);
        assert!(s.heap_bytes() < 32 * 1024, "{}", s.heap_bytes());
    }

    #[test]
    fn a_destroyed_stream_makes_room_first_and_is_not_missed() {
        let mut s = streams();
        (0..STREAMS_MAX as u64).for_each(|handle| {
            s.place(handle, 0);
        });
        s.destroy(40);
        let place = s.place(u64::MAX, 0);
        assert_eq!((place.stream, place.is_taken_over, s.evicted()), (40, true, 0));
    }
}
