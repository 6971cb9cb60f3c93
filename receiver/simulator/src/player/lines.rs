//! A call as a line of the oracle log and as work on its stream.

use crate::invoke::{Outcome, Request};
use crate::model::call::Effect;
use crate::oracle::{CallLine, EnqueuedWork};
use crate::prototype::{ArgumentRole, has};
use crate::sentinel::Meaning;

/// Returns the work that a call adds to its stream.
pub(super) fn work_of(effect: Effect, meaning: &Meaning, request: &Request) -> EnqueuedWork {
    let mut work = EnqueuedWork { enqueues: 1, ..EnqueuedWork::default() };
    match effect {
        Effect::Launch => {
            work.launches = 1;
            work.threads = request.threads();
        }
        Effect::GraphLaunch => work.graph_launches = 1,
        Effect::Copy => {
            work.copies = 1;
            work.bytes[meaning.direction as usize % work.bytes.len()] = meaning.bytes;
        }
        _ => work.filled = meaning.bytes,
    }
    work
}

/// Returns the line of a call, without its step and thread name.
pub(super) fn call_line(tid: u32, request: &Request, made: &Outcome, meaning: &Meaning) -> CallLine {
    let makes = has(&request.function, ArgumentRole::Out);
    CallLine {
        symbol: request.function.symbol().into(),
        row: request.function.probe.id,
        twin: request.function.is_twin,
        pid: std::process::id(),
        tid,
        stream: meaning.stream,
        handle: if makes { made.written } else { meaning.handle },
        graph: meaning.graph,
        bytes: meaning.bytes,
        direction: meaning.direction,
        threads: meaning.threads,
        kernel: if has(&request.function, ArgumentRole::Kernel) { request.kernel } else { 0 },
        entry_ns: made.entry_ns,
        exit_ns: made.exit_ns,
        result: made.result,
        ..CallLine::default()
    }
}
