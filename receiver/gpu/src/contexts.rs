//! The traces that a process's threads worked for while steps ran, and what an outlier's span is to them.
//!
//! The one idea: a step's span tells of what a thread waited for, and where the application says for which of its spans
//! it waited, the step's span is that one's child. It is so only where that span is sure to be exported: a child of one
//! that is not would have no parent, and a late sampler publishes "not sampled" until it decides. Everywhere else the
//! span begins a trace of its own and links to theirs: also where a step was waited for on behalf of several.
//!
//! Bounded: [`CONTEXTS_MAX`] of a process, the oldest makes room; [`LINKS_MAX`] links of a span.

use std::collections::VecDeque;
use std::ops::RangeInclusive;

use event::TraceContext;
use opentelemetry::trace::{
    Link, SpanContext, SpanId, TraceContextExt as _, TraceFlags, TraceId, TraceState,
};
use opentelemetry::{Context, KeyValue};

/// Contexts remembered of a process: more than come between a wait and its step.
const CONTEXTS_MAX: usize = 256;
/// Links of one span.
const LINKS_MAX: usize = 8;

/// What an outlier's span is to the span that was active on its thread.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Relation {
    /// Its child where that is sampled, else linked to it.
    #[default]
    Auto,
    /// Its child.
    Child,
    /// Linked to it.
    Link,
    /// Nothing.
    None,
}

/// Where an outlier's span belongs.
#[derive(Clone, Debug, Default)]
pub(crate) struct Place {
    /// The parent, in an otherwise empty context.
    pub(crate) parent: Context,
    /// Spans that it is linked to.
    pub(crate) links: Vec<Link>,
}

/// The newest contexts of a process.
#[derive(Debug, Default)]
pub(crate) struct Contexts(VecDeque<TraceContext>);

impl Contexts {
    pub(crate) fn see(&mut self, context: &TraceContext) {
        if self.0.len() == CONTEXTS_MAX {
            self.0.pop_front();
        }
        self.0.push_back(*context);
    }

    /// What the thread that waited for a step worked for in its time (CLOCK_MONOTONIC ns) decides where the step's span
    /// belongs.
    pub(crate) fn place(&self, thread: u32, time: RangeInclusive<u64>, relation: Relation) -> Place {
        let of_step = self.within(thread, time);
        match (relation, of_step.as_slice()) {
            (Relation::None, _) | (_, []) => Place::default(),
            (Relation::Auto, [only]) if only.is_sampled() => Place::below(only),
            (Relation::Child, [only]) => Place::below(only),
            (_, several) => Place { links: several.iter().map(link).collect(), ..Place::default() },
        }
    }

    /// The spans that were active on the thread when it waited, each once, in the order of the waits.
    fn within(&self, thread: u32, time: RangeInclusive<u64>) -> Vec<TraceContext> {
        let mut all: Vec<TraceContext> = Vec::new();
        let is_of_step = |c: &&TraceContext| {
            c.header.tid == thread && time.contains(&c.header.entry_ns) && time.contains(&c.exit_ns())
        };
        for context in self.0.iter().filter(is_of_step) {
            match all.iter().position(|c| (c.trace_id, c.span_id) == (context.trace_id, context.span_id)) {
                // Decided meanwhile, perhaps.
                Some(at) => all[at].trace_flags |= context.trace_flags,
                None if all.len() < LINKS_MAX => all.push(*context),
                None => {}
            }
        }
        all
    }
}

impl Place {
    fn below(context: &TraceContext) -> Place {
        Place { parent: Context::new().with_remote_span_context(span(context)), links: Vec::new() }
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

    /// A parent's span id, and those of links, of a step of thread 5 from 100 to 200.
    fn placed(relation: Relation, contexts: &[TraceContext]) -> (Option<u8>, Vec<u8>) {
        let mut seen = Contexts::default();
        contexts.iter().for_each(|c| seen.see(c));
        let place = seen.place(5, 100..=200, relation);
        let first = |id: SpanId| id.to_bytes()[0];
        let parent =
            place.parent.has_active_span().then(|| first(place.parent.span().span_context().span_id()));
        (parent, place.links.iter().map(|l| first(l.span_context.span_id())).collect())
    }

    #[test]
    fn a_step_is_a_child_of_the_sampled_span_it_ran_in_and_linked_to_any_other() {
        let (sampled, not) = ([context(1, 5, 150, 1)], [context(1, 5, 150, 0)]);
        assert_eq!(placed(Relation::Auto, &sampled), (Some(1), vec![]));
        assert_eq!(placed(Relation::Auto, &not), (None, vec![1]));
        assert_eq!(placed(Relation::Child, &not), (Some(1), vec![]));
        assert_eq!(placed(Relation::Link, &sampled), (None, vec![1]));
        assert_eq!(placed(Relation::None, &sampled), (None, vec![]));
        assert_eq!(placed(Relation::Auto, &[]), (None, vec![]));
    }

    #[test]
    fn a_step_waited_for_on_behalf_of_several_spans_is_linked_to_each() {
        let several = [context(1, 5, 110, 1), context(2, 5, 150, 1), context(1, 5, 180, 1)];
        assert_eq!(placed(Relation::Auto, &several), (None, vec![1, 2]));
        assert_eq!(placed(Relation::Child, &several), (None, vec![1, 2]));
        let many: Vec<_> = (1..=20).map(|n| context(n, 5, 100 + u64::from(n), 1)).collect();
        assert_eq!(placed(Relation::Auto, &many).1.len(), LINKS_MAX);
    }

    #[test]
    fn other_threads_and_other_times_say_nothing_of_a_step() {
        let others = [context(1, 6, 150, 1), context(2, 5, 99, 1), context(3, 5, 191, 1)];
        assert_eq!(placed(Relation::Auto, &others), (None, vec![]));
    }

    #[test]
    fn no_more_contexts_are_remembered_than_there_is_room_for() {
        let mut seen = Contexts::default();
        (0..10_000).for_each(|at| seen.see(&context(1, 5, at, 1)));
        assert_eq!((seen.0.len(), seen.0[0].header.entry_ns), (CONTEXTS_MAX, 10_000 - CONTEXTS_MAX as u64));
    }
}
