//! The calls of a thread: makes the call of a script's line, logs it in the oracle log and updates the expected steps.

use std::borrow::Cow;
use std::io::Write;
use std::sync::atomic::Ordering::Relaxed;

use probe_abi::{Action, Direction, NON_BLOCKING};

use super::lines::{call_line, work_of};
use super::world::{World, locked};
use crate::functions::is_enqueue;
use crate::invoke::{Outcome, Request};
use crate::model::call::Effect;
use crate::model::order::Order;
use crate::model::thread;
use crate::oracle::{CallLine, Line, StepLine};
use crate::prototype::{ArgumentRole, has};
use crate::script::{CallSpec, Object};
use crate::sentinel;
use crate::text::{Random, ValueRange};
use crate::truth::StepLabel;
use crate::truth::order::{RecordedEvent, StreamId, StreamPosition};

/// Lines buffered before they are written.
const LINES_MAX: usize = 4_096;
/// Address of the first kernel.
const KERNELS: u64 = 0x5555_0000_0000;

/// Scale of sizes and times in a step, thousandths.
#[derive(Clone, Copy, Debug)]
struct Scale {
    size: u64,
    gpu: u64,
    host: u64,
}

const UNSCALED: Scale = Scale { size: 1_000, gpu: 1_000, host: 1_000 };

fn times(value: u64, thousandths: u64) -> u64 {
    (u128::from(value) * u128::from(thousandths) / 1_000).min(u128::from(u64::MAX)) as u64
}

/// The current step of a thread, and its scale.
#[derive(Clone, Debug)]
pub(super) struct CurrentStep {
    step: Option<StepLabel>,
    scale: Scale,
}

/// A series of queries for an event or stream that is not done.
#[derive(Clone, Copy, Debug)]
struct Polling {
    handle: u64,
    began_ns: u64,
    last_ns: u64,
}

/// Longest pause between queries of one series, ns.
const POLL_PAUSE_MAX_NS: u64 = 10_000_000;

/// A thread that makes calls.
#[derive(Debug)]
pub(super) struct Caller<'w> {
    world: &'w World,
    tid: u32,
    name: Cow<'static, str>,
    random: Random,
    current: CurrentStep,
    polling: Option<Polling>,
    device: u64,
    lines: Vec<Line>,
}

impl<'w> Caller<'w> {
    pub(super) fn new(world: &'w World, name: &str, copy: u64) -> Caller<'w> {
        let name_hash = name.bytes().fold(copy, |hash, b| hash.wrapping_mul(31).wrapping_add(b.into()));
        Caller {
            world,
            tid: thread::tid(),
            name: name.to_string().into(),
            random: Random::new(world.script.seed ^ name_hash << 20),
            current: CurrentStep { step: None, scale: UNSCALED },
            polling: None,
            device: 0,
            lines: Vec::new(),
        }
    }

    /// Samples a time and scales it by the player's speed.
    pub(super) fn sample_ns(&mut self, span: &ValueRange) -> u64 {
        self.world.scaled(span.sample(&mut self.random))
    }

    /// Samples a time of host work, which a fault may scale.
    pub(super) fn host_ns(&mut self, span: &ValueRange) -> u64 {
        times(self.sample_ns(span), self.current.scale.host)
    }

    /// Begins a step; returns the previous one, for [`Caller::end_step`].
    pub(super) fn begin_step(&mut self, phase: &str, size: &ValueRange) -> CurrentStep {
        let step = Some(locked(&self.world.truth).label(phase));
        let scale = Scale { size: size.sample(&mut self.random), ..self.current.scale };
        let begun = CurrentStep { step, scale };
        std::mem::replace(&mut self.current, begun)
    }

    /// Ends a step.
    pub(super) fn end_step(&mut self, before: CurrentStep) {
        self.current = before;
    }

    /// Slows the rest of the step down.
    pub(super) fn fault(&mut self, name: &str, gpu: u64, host: u64) {
        let scale = &mut self.current.scale;
        scale.gpu = times(scale.gpu, gpu);
        scale.host = times(scale.host, host);
        if let Some(label) = &mut self.current.step {
            label.fault = name.to_string();
            locked(&self.world.truth).fault(label.step, name);
        }
    }

    /// Makes the call of a line.
    pub(super) fn call(&mut self, spec: &CallSpec, turn: u64) {
        self.call_for(spec, turn);
    }

    /// Makes the call of a line; returns the handle that it wrote, or 0.
    pub(super) fn call_for(&mut self, spec: &CallSpec, turn: u64) -> u64 {
        let Some(request) = self.request(spec, turn) else { return 0 };
        self.make(spec, &request).written
    }

    /// Makes a query; returns true if the work is done or there is none.
    pub(super) fn query(&mut self, spec: &CallSpec, turn: u64) -> bool {
        self.request(spec, turn).is_none_or(|request| self.make(spec, &request).result == 0)
    }

    /// Makes the call of a line on a captured graph.
    pub(super) fn call_on(&mut self, spec: &CallSpec, graph: u64) {
        let handle = self.handle(spec).unwrap_or(0);
        let request = Request { graph, handle, ..Request::new(spec.index, spec.function) };
        self.make(spec, &request);
    }

    /// Returns the arguments of a call; `None` if its event was not recorded or its allocation does not exist.
    fn request(&mut self, spec: &CallSpec, turn: u64) -> Option<Request> {
        let scale = self.current.scale;
        let mut grid = spec.grid.map(|side| self.side(&side));
        let unnamed = || KERNELS + (spec.kernel << 20) + (turn % spec.kernels) * 0x100;
        grid[0] = times(u64::from(grid[0]), scale.size).clamp(1, u64::from(u32::MAX)) as u32;
        Some(Request {
            kernel: spec.named.map_or_else(unnamed, |at| self.world.kernels[at].load(Relaxed)),
            stream: self.world.streams[spec.stream].load(Relaxed),
            handle: self.handle(spec)?,
            bytes: [times(spec.bytes.sample(&mut self.random), scale.size), spec.rows],
            kind: spec.kind,
            grid,
            block: spec.block,
            ..Request::new(spec.index, spec.function)
        })
    }

    fn side(&mut self, side: &ValueRange) -> u32 {
        side.sample(&mut self.random).clamp(1, u64::from(u32::MAX)) as u32
    }

    fn handle(&self, spec: &CallSpec) -> Option<u64> {
        let is_made = has(&spec.function, ArgumentRole::Out);
        match spec.object {
            Object::None => Some(0),
            Object::Number(value) => Some(value),
            Object::Stream(at) => Some(self.world.streams[at].load(Relaxed)),
            Object::Graph(at) => Some(self.world.graphs[at].load(Relaxed)),
            Object::Buffer(_) if is_made => Some(0),
            Object::Buffer(at) => locked(&self.world.buffers[at]).pop_front(),
            Object::Event(at, back) => {
                let ring = &self.world.events[at];
                let slot = match spec.function.probe.action {
                    Action::EventRecord => ring.next(),
                    _ => ring.recorded_back(back)?,
                };
                Some(ring.handles[slot].load(Relaxed))
            }
        }
    }

    fn order(&mut self, spec: &CallSpec) -> Order {
        let scale = self.current.scale;
        let nested = match spec.inner {
            Some((index, depth)) => self.world.functions.nest(index, depth),
            None => Order::NONE,
        };
        let gpu = spec.gpu.map(|span| self.sample_ns(&span));
        Order {
            host_ns: self.host_ns(&spec.host),
            gpu_ns: gpu.map_or(Order::BY_MODEL, |ns| times(times(ns, scale.gpu), scale.size)),
            block_ns: spec.blocks.map_or(Order::BY_MODEL, |ns| self.world.scaled(ns)),
            result: spec.result.unwrap_or(Order::BY_MODEL),
            ..nested
        }
    }

    /// Makes a call, then updates the expected steps and the oracle log.
    fn make(&mut self, spec: &CallSpec, request: &Request) -> Outcome {
        let order = self.order(spec);
        let waited = self.waited_for(spec);
        let made = self.world.functions.call(request, &order);
        self.world.calls.fetch_add(1, Relaxed);
        self.store(spec, request, &made);
        let meaning = sentinel::meaning(request, &made);
        self.enqueued(spec, request, &made, &meaning);
        if self.world.log.is_open() {
            let line = self.line(spec, request, &made, &meaning);
            self.lines.push(Line::Call(line));
        }
        self.close(&waited, spec, &meaning, made);
        made
    }

    /// Returns the stream of a line.
    fn id(&self, spec: &CallSpec) -> StreamId {
        let own = spec.stream == 0 && spec.function.is_twin;
        let device = if spec.stream == 0 { self.device } else { 0 };
        StreamId { index: spec.stream, tid: if own { self.tid } else { 0 }, device }
    }

    /// Returns the positions that the call waits for, taken before the call.
    fn waited_for(&self, spec: &CallSpec) -> Vec<StreamPosition> {
        let mut truth = locked(&self.world.truth);
        match Effect::of(spec.function.probe) {
            Effect::StreamSync | Effect::StreamQuery => vec![truth.now(self.id(spec))],
            Effect::DeviceSync => truth.now_of_device(self.device),
            Effect::EventSync | Effect::EventQuery => match self.recorded(spec) {
                Some(RecordedEvent::Recorded(position)) => vec![position],
                _ => Vec::new(),
            },
            _ => Vec::new(),
        }
    }

    /// Returns the record of the event of a line.
    fn recorded(&self, spec: &CallSpec) -> Option<RecordedEvent> {
        let Object::Event(at, back) = spec.object else { return None };
        let ring = &self.world.events[at];
        *locked(&ring.recorded[ring.recorded_back(back)?])
    }

    fn close(
        &mut self,
        waited: &[StreamPosition],
        spec: &CallSpec,
        meaning: &sentinel::Meaning,
        made: Outcome,
    ) {
        let effect = Effect::of(spec.function.probe);
        let is_query = matches!(effect, Effect::StreamQuery | Effect::EventQuery);
        if is_query {
            let Some(made) = self.polled(waited, meaning.handle | meaning.stream, made) else { return };
            return self.end_steps(waited, true, spec, &made);
        }
        let copies_back = meaning.direction == Direction::DeviceToHost as u32;
        if effect == Effect::Copy && spec.function.probe.wiring.blocking && copies_back {
            // It also waits for its own work, which is included by now.
            let now = locked(&self.world.truth).now(self.id(spec));
            return self.end_steps(&[now], false, spec, &made);
        }
        self.end_steps(waited, false, spec, &made);
    }

    /// Handles the result of a query. If it ends a wait, returns the call as if it had begun with the first query.
    fn polled(&mut self, waited: &[StreamPosition], handle: u64, made: Outcome) -> Option<Outcome> {
        let continues = |p: &Polling| p.handle == handle && made.entry_ns - p.last_ns <= POLL_PAUSE_MAX_NS;
        let began_ns = self.polling.take().filter(continues).map(|p| p.began_ns);
        if made.result != 0 {
            let began_ns = began_ns.unwrap_or(made.entry_ns);
            self.polling = Some(Polling { handle, began_ns, last_ns: made.exit_ns });
            return None;
        }
        let was_polled = || waited.iter().any(|position| locked(&self.world.truth).is_polled(position));
        let began_ns = began_ns.or_else(|| was_polled().then_some(made.entry_ns))?;
        Some(Outcome { entry_ns: began_ns, ..made })
    }

    fn end_steps(&mut self, waited: &[StreamPosition], is_poll: bool, spec: &CallSpec, made: &Outcome) {
        if waited.is_empty() {
            return;
        }
        let steps = locked(&self.world.truth).close(waited, is_poll);
        if !self.world.log.is_open() {
            return;
        }
        for (id, step) in steps {
            let stream = match id.index {
                0 => locked(&self.world.truth).number(&id),
                index => self.world.streams[index].load(Relaxed),
            };
            self.lines.push(Line::Step(StepLine {
                pid: std::process::id(),
                tid: self.tid,
                stream,
                closer: spec.function.symbol().into(),
                enter_ns: made.entry_ns,
                exit_ns: made.exit_ns,
                ..step
            }));
        }
    }

    /// Stores the objects that the call created, recorded or destroyed.
    fn store(&mut self, spec: &CallSpec, request: &Request, made: &Outcome) {
        let (world, id) = (self.world, self.id(spec));
        let mut truth = locked(&world.truth);
        match (Effect::of(spec.function.probe), spec.object) {
            (Effect::StreamCreate, Object::Stream(at)) => {
                world.streams[at].store(made.written, Relaxed);
                let is_blocking = request.bytes[0] & NON_BLOCKING == 0;
                truth.create(StreamId { index: at, tid: 0, device: 0 }, self.device, is_blocking);
            }
            (Effect::Instantiate, Object::Graph(at)) => {
                world.graphs[at].store(made.written, Relaxed);
                truth.graphs.instantiate(made.written, request.graph);
            }
            (Effect::ExecUpdate, _) => truth.graphs.instantiate(request.handle, request.graph),
            (Effect::ExecDestroy, _) => truth.graphs.remove_exec(request.handle),
            (Effect::GraphDestroy, _) => truth.graphs.remove(request.graph),
            (Effect::Alloc | Effect::HostAlloc, Object::Buffer(at)) if made.result == 0 => {
                locked(&world.buffers[at]).push_back(made.written);
            }
            (Effect::EventRecord, Object::Event(at, _)) => {
                let ring = &world.events[at];
                *locked(&ring.recorded[ring.next()]) = Some(truth.record(id));
                ring.records.fetch_add(1, Relaxed);
            }
            (Effect::StreamWaitEvent, _) => {
                if let Some(event) = self.recorded(spec) {
                    truth.wait(id, &event);
                }
            }
            (Effect::SetDevice, _) => {
                self.device = request.handle;
                truth.choose(self.device);
            }
            (Effect::CaptureBegin, _) => truth.begin_capture(id, self.tid),
            (Effect::CaptureEnd, _) => truth.end_capture(id, made.written),
            (Effect::StreamDestroy, _) => truth.destroy(id),
            _ => {}
        }
    }

    fn enqueued(&mut self, spec: &CallSpec, request: &Request, made: &Outcome, meaning: &sentinel::Meaning) {
        let effect = Effect::of(spec.function.probe);
        if is_enqueue(effect) {
            let mut work = work_of(effect, meaning, request);
            let label = self.current.step.as_ref();
            let mut truth = locked(&self.world.truth);
            if effect == Effect::GraphLaunch {
                work.graphs = truth.graphs.launched(meaning.handle);
            }
            truth.enqueue(self.id(spec), &work, label, made.entry_ns, self.tid);
            self.polling = None;
        }
    }

    fn line(
        &self,
        spec: &CallSpec,
        request: &Request,
        made: &Outcome,
        meaning: &sentinel::Meaning,
    ) -> CallLine {
        let step = self.current.step.as_ref();
        let inner = spec.inner.map(|(index, depth)| (crate::model::call::StubFunction::at(index), depth));
        CallLine {
            phase: step.map_or(Cow::Borrowed(""), |label| label.phase.clone().into()),
            step: step.map(|label| label.step),
            thread: self.name.clone(),
            inner: inner.and_then(|(f, _)| f).map_or("", |f| f.symbol()).into(),
            inner_depth: inner.map_or(0, |(_, depth)| depth),
            name: spec.named.map_or("", |at| self.world.script.functions[at].as_str()).to_owned(),
            ..call_line(self.tid, request, made, meaning)
        }
    }

    pub(super) fn flush_if_full(&mut self) {
        if self.lines.len() >= LINES_MAX {
            self.flush();
        }
    }

    /// Writes the buffered lines. A failure is reported and does not end the player.
    pub(super) fn flush(&mut self) {
        if let Err(error) = self.world.log.write(&self.lines) {
            self.report(&format!("cannot write the oracle log: {error}"));
        }
        self.lines.clear();
    }

    pub(super) fn report(&self, problem: &str) {
        let _ = writeln!(std::io::stderr(), "player: {problem}");
    }
}
