//! Plays a planned trace: its threads as real threads, its calls at their times.
//!
//! Calls are entered in the order of the trace, independent of scheduling: a call raises a counter after its entry was
//! probed, and the next call, on any thread, waits for that. So the work that a wait covers is always the same.

use std::collections::BTreeMap;
use std::io;
use std::sync::Mutex;
use std::sync::atomic::{
    AtomicU64,
    Ordering::{Acquire, Release},
};

use super::lines::{call_line, work_of};
use super::plan::{Plan, Planned, PlannedThread};
use super::world::locked;
use crate::functions::{Functions, is_enqueue};
use crate::invoke::Outcome;
use crate::model::call::Effect;
use crate::model::order::Order;
use crate::model::{clock, thread};
use crate::oracle::{Line, Log, StepLine};
use crate::sentinel;
use crate::truth::StreamTruth;

/// Time before the first call, in which all threads start, ns.
const LEAD_NS: u64 = 5_000_000;
/// A thread spins instead of sleeping if its next call is closer than this, ns.
const SPIN_NS: u64 = 80_000;
/// Polls of the turn before a thread sleeps between polls, and the duration of that sleep, ns.
const POLLS_MAX: u32 = 200;
const POLL_NS: u64 = 20_000;
/// Lines buffered before they are written.
const LINES_MAX: usize = 4_096;

/// The state that the threads share.
struct Stage<'a> {
    functions: &'a Functions,
    log: &'a Log,
    speed: f64,
    begins_ns: u64,
    /// Number of calls entered.
    entered: AtomicU64,
    streams: BTreeMap<u64, Mutex<StreamTruth>>,
    /// Stream and position that a wait for each recorded event covers.
    events: Mutex<BTreeMap<u64, (u64, u64)>>,
}

/// Plays the plan; returns the number of calls made.
pub(super) fn run(plan: &Plan, functions: &Functions, log: &Log, speed: f64) -> io::Result<u64> {
    functions.set_lenient(true);
    let calls = || plan.threads.iter().flat_map(|t| &t.calls);
    let stage = Stage {
        functions,
        log,
        speed,
        begins_ns: clock::now_ns() + LEAD_NS,
        entered: AtomicU64::new(0),
        streams: calls().map(|c| (c.request.stream, Mutex::default())).collect(),
        events: Mutex::default(),
    };
    let written: Vec<io::Result<()>> = std::thread::scope(|scope| {
        let stage = &stage;
        let start = |thread| scope.spawn(move || Player::new(stage).play(thread));
        let threads: Vec<_> = plan.threads.iter().map(start).collect();
        threads.into_iter().map(|t| t.join().unwrap_or(Ok(()))).collect()
    });
    functions.set_lenient(false);
    written.into_iter().collect::<io::Result<()>>()?;
    Ok(calls().count() as u64)
}

/// One thread of the trace.
struct Player<'a> {
    stage: &'a Stage<'a>,
    tid: u32,
    lines: Vec<Line>,
}

impl<'a> Player<'a> {
    fn new(stage: &'a Stage<'a>) -> Player<'a> {
        Player { stage, tid: thread::tid(), lines: Vec::new() }
    }

    fn play(mut self, thread: &PlannedThread) -> io::Result<()> {
        for planned in &thread.calls {
            self.wait_for(planned.at_ns);
            self.wait_for_turn(planned.turn);
            self.call(planned, thread.tid);
            if self.lines.len() >= LINES_MAX {
                self.flush()?;
            }
        }
        self.flush()
    }

    /// Waits until a time of the trace; returns immediately if it is past.
    fn wait_for(&self, at_ns: u64) {
        let at_ns = self.stage.begins_ns + (at_ns as f64 / self.stage.speed) as u64;
        clock::sleep_until(at_ns.saturating_sub(SPIN_NS));
        while clock::now_ns() < at_ns {
            std::hint::spin_loop();
        }
    }

    /// Waits until all calls before this one in the trace were entered.
    fn wait_for_turn(&self, turn: u64) {
        let entered = || self.stage.entered.load(Acquire);
        let mut polls = 0;
        while entered() < turn {
            polls += 1;
            match polls < POLLS_MAX {
                true => std::thread::yield_now(),
                false => clock::sleep_until(clock::now_ns() + POLL_NS),
            }
        }
    }

    fn call(&mut self, planned: &Planned, trace_tid: u32) {
        let Planned { request, order, turn, .. } = planned;
        let covered = self.covered(planned);
        self.follow(planned);
        let entered = self.stage.entered.as_ptr() as u64;
        let order = Order { entered, entered_as: turn + 1, ..self.scaled(order) };
        let made = self.stage.functions.call(request, &order);
        // A missing function does not raise the counter.
        self.stage.entered.fetch_max(turn + 1, Release);
        let meaning = sentinel::meaning(request, &made);
        if !self.stage.log.is_open() {
            return;
        }
        let mut line = call_line(self.tid, request, &made, &meaning);
        line.thread = trace_tid.to_string().into();
        self.lines.push(Line::Call(line));
        for (stream, until) in covered {
            self.close(stream, until, planned, &made);
        }
    }

    fn scaled(&self, order: &Order) -> Order {
        let faster = |ns: u64| if ns == Order::BY_MODEL { ns } else { (ns as f64 / self.stage.speed) as u64 };
        Order { host_ns: faster(order.host_ns), block_ns: faster(order.block_ns), ..*order }
    }

    /// Returns the streams that the call waits for, and up to which position, taken before the call.
    fn covered(&self, planned: &Planned) -> Vec<(u64, u64)> {
        let request = &planned.request;
        let end = |(handle, truth): (&u64, &Mutex<StreamTruth>)| (*handle, locked(truth).end());
        match Effect::of(request.function.probe) {
            Effect::StreamSync => {
                self.stage.streams.get_key_value(&request.stream).map(end).into_iter().collect()
            }
            Effect::DeviceSync => self.stage.streams.iter().map(end).collect(),
            Effect::EventSync => {
                locked(&self.stage.events).get(&request.handle).copied().into_iter().collect()
            }
            Effect::Copy if reads_back(planned) => vec![(request.stream, u64::MAX)],
            _ => Vec::new(),
        }
    }

    /// Adds the work of a call to its stream, before the call.
    fn follow(&self, planned: &Planned) {
        let request = &planned.request;
        let effect = Effect::of(request.function.probe);
        let Some(truth) = self.stage.streams.get(&request.stream) else { return };
        if is_enqueue(effect) {
            let meaning = sentinel::meaning(request, &Outcome::default());
            locked(truth).enqueue(&work_of(effect, &meaning, request), None, clock::now_ns(), self.tid);
        } else if effect == Effect::EventRecord {
            let until = locked(truth).record();
            locked(&self.stage.events).insert(request.handle, (request.stream, until));
        }
    }

    fn close(&mut self, stream: u64, until: u64, planned: &Planned, made: &Outcome) {
        let Some(truth) = self.stage.streams.get(&stream) else { return };
        let mut truth = locked(truth);
        let until = if until == u64::MAX { truth.end() } else { until };
        let Some(step) = truth.close(until) else { return };
        self.lines.push(Line::Step(StepLine {
            pid: std::process::id(),
            tid: self.tid,
            stream,
            closer: planned.request.function.symbol().into(),
            enter_ns: made.entry_ns,
            exit_ns: made.exit_ns,
            ..step
        }));
    }

    fn flush(&mut self) -> io::Result<()> {
        self.stage.log.write(&std::mem::take(&mut self.lines))
    }
}

/// Returns true for a blocking copy from the device, which ends a step.
fn reads_back(planned: &Planned) -> bool {
    let request = &planned.request;
    let meaning = sentinel::meaning(request, &Outcome::default());
    request.function.probe.wiring.blocking && meaning.direction == probe_abi::Direction::DeviceToHost as u32
}
