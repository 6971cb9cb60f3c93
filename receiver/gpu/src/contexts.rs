//! The trace contexts of a process's threads during steps, and the relation of an outlier's span to them.
//!
//! If the application publishes the span for which a thread waited, the span of the step is its child, provided
//! that it is sampled: an unsampled parent would not be exported, and a late sampler publishes "not sampled" until
//! it decides. Otherwise, and if a step was waited for by several spans, the span is the root of a new trace and
//! has links to them.
//!
//! Bounded: [`CONTEXTS_MAX`] contexts of a process, of which the oldest is evicted, and [`LINKS_MAX`] links of a
//! span.

use std::collections::VecDeque;
use std::ops::RangeInclusive;

use event::TraceContext;
use opentelemetry::trace::{
    Link, SpanContext, SpanId, TraceContextExt as _, TraceFlags, TraceId, TraceState,
};
use opentelemetry::{Context, KeyValue};

/// Number of stored contexts of a process, more than are recorded between a wait and its step.
const CONTEXTS_MAX: usize = 256;
/// The maximum number of links of one span.
const LINKS_MAX: usize = 8;

/// The relation of an outlier's span to the span that was active on its thread.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Relation {
    /// A child of a sampled span, linked to any other.
    #[default]
    Auto,
    /// A child of the span, sampled or not.
    Child,
    /// Linked to the span.
    Link,
    /// Unrelated to the span.
    None,
}

/// The parent and the links of an outlier's span.
#[derive(Clone, Debug, Default)]
pub(crate) struct SpanPlacement {
    /// The parent, in an otherwise empty context.
    pub(crate) parent: Context,
    /// The linked spans.
    pub(crate) links: Vec<Link>,
}

/// The most recent contexts of a process.
#[derive(Debug, Default)]
pub(crate) struct Contexts(VecDeque<TraceContext>);

impl Contexts {
    pub(crate) fn add(&mut self, context: &TraceContext) {
        if self.0.len() == CONTEXTS_MAX {
            self.0.pop_front();
        }
        self.0.push_back(*context);
    }

    /// Returns the parent and the links of a step's span, from the contexts of the thread that waited for it.
    /// `time` is the time of the step, CLOCK_MONOTONIC ns.
    pub(crate) fn parent_and_links(
        &self,
        thread: u32,
        time: RangeInclusive<u64>,
        relation: Relation,
    ) -> SpanPlacement {
        let of_step = self.within(thread, time);
        match (relation, of_step.as_slice()) {
            (Relation::None, _) | (_, []) => SpanPlacement::default(),
            (Relation::Auto, [only]) if only.is_sampled() => SpanPlacement::below(only),
            (Relation::Child, [only]) => SpanPlacement::below(only),
            (_, several) => {
                SpanPlacement { links: several.iter().map(link).collect(), ..SpanPlacement::default() }
            }
        }
    }

    /// Returns the spans that were active on the thread when it waited, without duplicates, in the order of the
    /// waits.
    fn within(&self, thread: u32, time: RangeInclusive<u64>) -> Vec<TraceContext> {
        let mut all: Vec<TraceContext> = Vec::new();
        let is_of_step = |c: &&TraceContext| {
            c.header.tid == thread && time.contains(&c.header.entry_ns) && time.contains(&c.exit_ns())
        };
        for context in self.0.iter().filter(is_of_step) {
            match all.iter().position(|c| (c.trace_id, c.span_id) == (context.trace_id, context.span_id)) {
                // The sampling decision may have been made since.
                Some(at) => all[at].trace_flags |= context.trace_flags,
                None if all.len() < LINKS_MAX => all.push(*context),
                None => {}
            }
        }
        all
    }
}

impl SpanPlacement {
    fn below(context: &TraceContext) -> SpanPlacement {
        SpanPlacement { parent: Context::new().with_remote_span_context(span(context)), links: Vec::new() }
    }
}

fn link(context: &TraceContext) -> Link {
    Link::new(span(context), Vec::<KeyValue>::new(), 0)
}

fn span(context: &TraceContext) -> SpanContext {
    let (trace, span) = (TraceId::from_bytes(context.trace_id), SpanId::from_bytes(context.span_id));
    SpanContext::new(trace, span, TraceFlags::new(context.trace_flags), true, TraceState::NONE)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn context(span: u8, tid: u32, entry_ns: u64, trace_flags: u8) -> TraceContext {
        let mut context =
            TraceContext { trace_id: [7; 16], span_id: [span; 8], trace_flags, ..Default::default() };
        (context.header.tid, context.header.entry_ns, context.header.duration_ns) = (tid, entry_ns, 10);
        context
    }

    /// Returns the parent's span id and the linked ones for a step of thread 5 from 100 to 200.
    fn placement_of(relation: Relation, contexts: &[TraceContext]) -> (Option<u8>, Vec<u8>) {
        let mut seen = Contexts::default();
        contexts.iter().for_each(|c| seen.add(c));
        let parent_and_links = seen.parent_and_links(5, 100..=200, relation);
        let first = |id: SpanId| id.to_bytes()[0];
        let parent = parent_and_links
            .parent
            .has_active_span()
            .then(|| first(parent_and_links.parent.span().span_context().span_id()));
        (parent, parent_and_links.links.iter().map(|l| first(l.span_context.span_id())).collect())
    }

    #[test]
    fn step_is_a_child_of_a_sampled_span() {
        let (sampled, not) = ([context(1, 5, 150, 1)], [context(1, 5, 150, 0)]);
        assert_eq!(placement_of(Relation::Auto, &sampled), (Some(1), vec![]));
        assert_eq!(placement_of(Relation::Auto, &not), (None, vec![1]));
        assert_eq!(placement_of(Relation::Child, &not), (Some(1), vec![]));
        assert_eq!(placement_of(Relation::Link, &sampled), (None, vec![1]));
        assert_eq!(placement_of(Relation::None, &sampled), (None, vec![]));
        assert_eq!(placement_of(Relation::Auto, &[]), (None, vec![]));
    }

    #[test]
    fn step_of_several_spans_is_linked_to_each() {
        let several = [context(1, 5, 110, 1), context(2, 5, 150, 1), context(1, 5, 180, 1)];
        assert_eq!(placement_of(Relation::Auto, &several), (None, vec![1, 2]));
        assert_eq!(placement_of(Relation::Child, &several), (None, vec![1, 2]));
        let many: Vec<_> = (1..=20).map(|n| context(n, 5, 100 + u64::from(n), 1)).collect();
        assert_eq!(placement_of(Relation::Auto, &many).1.len(), LINKS_MAX);
    }

    #[test]
    fn contexts_of_other_threads_and_times_are_ignored() {
        let others = [context(1, 6, 150, 1), context(2, 5, 99, 1), context(3, 5, 191, 1)];
        assert_eq!(placement_of(Relation::Auto, &others), (None, vec![]));
    }

    #[test]
    fn stored_contexts_are_bounded() {
        let mut seen = Contexts::default();
        (0..10_000).for_each(|at| seen.add(&context(1, 5, at, 1)));
        assert_eq!((seen.0.len(), seen.0[0].header.entry_ns), (CONTEXTS_MAX, 10_000 - CONTEXTS_MAX as u64));
    }
}
