//! A thread's calls: from a script's line to a real call, with its line in the oracle and its part in the truth.

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
use crate::prototype::{Role, has};
use crate::script::value::{Random, Span};
use crate::script::{CallSpec, Object};
use crate::sentinel;
use crate::truth::Label;
use crate::truth::order::{Event, Instant, StreamId};

/// Lines kept before they are written.
const LINES_MAX: usize = 4_096;
/// The address of the first kernel; lines and their kernels follow.
const KERNELS: u64 = 0x5555_0000_0000;

/// Thousandths by which work and times differ from what is written.
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

/// The step that a thread's calls belong to, and how they are scaled.
#[derive(Clone, Debug)]
pub(super) struct Standing {
    step: Option<Label>,
    scale: Scale,
}

/// An event or stream that the thread asks for until it is done.
#[derive(Clone, Copy, Debug)]
struct Asking {
    handle: u64,
    began_ns: u64,
    last_ns: u64,
}

/// Who asks more seldom does not wait, ns.
const ASKS_AGAIN_NS: u64 = 10_000_000;

/// A thread as the one who makes calls.
#[derive(Debug)]
pub(super) struct Caller<'w> {
    world: &'w World,
    tid: u32,
    name: Cow<'static, str>,
    random: Random,
    standing: Standing,
    asking: Option<Asking>,
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
            standing: Standing { step: None, scale: UNSCALED },
            asking: None,
            device: 0,
            lines: Vec::new(),
        }
    }

    /// A time of the script at this run's speed.
    pub(super) fn sample_ns(&mut self, span: &Span) -> u64 {
        self.world.scaled(span.sample(&mut self.random))
    }

    /// The same for host work, which a fault may slow down.
    pub(super) fn host_ns(&mut self, span: &Span) -> u64 {
        times(self.sample_ns(span), self.standing.scale.host)
    }

    /// A `step` begins; gives what to end it with.
    pub(super) fn begin_step(&mut self, phase: &str, size: &Span) -> Standing {
        let step = Some(locked(&self.world.truth).label(phase));
        let scale = Scale { size: size.sample(&mut self.random), ..self.standing.scale };
        let begun = Standing { step, scale };
        std::mem::replace(&mut self.standing, begun)
    }

    /// The `step` ends.
    pub(super) fn end_step(&mut self, before: Standing) {
        self.standing = before;
    }

    /// The rest of the step is slower.
    pub(super) fn fault(&mut self, name: &str, gpu: u64, host: u64) {
        let scale = &mut self.standing.scale;
        scale.gpu = times(scale.gpu, gpu);
        scale.host = times(scale.host, host);
        if let Some(label) = &mut self.standing.step {
            label.fault = name.to_string();
            locked(&self.world.truth).fault(label.step, name);
        }
    }

    /// Makes the call that a line describes.
    pub(super) fn call(&mut self, spec: &CallSpec, turn: u64) {
        self.call_for(spec, turn);
    }

    /// The same; gives what the call wrote, 0 where it makes nothing.
    pub(super) fn call_for(&mut self, spec: &CallSpec, turn: u64) -> u64 {
        let Some(request) = self.request(spec, turn) else { return 0 };
        self.make(spec, &request).written
    }

    /// The same of a query; true where the answer is yes, or there is nothing to ask for.
    pub(super) fn asks(&mut self, spec: &CallSpec, turn: u64) -> bool {
        self.request(spec, turn).is_none_or(|request| self.make(spec, &request).result == 0)
    }

    /// Makes the call that a line describes about a graph that was captured.
    pub(super) fn call_on(&mut self, spec: &CallSpec, graph: u64) {
        let handle = self.handle(spec).unwrap_or(0);
        let request = Request { graph, handle, ..Request::new(spec.index, spec.function) };
        self.make(spec, &request);
    }

    /// `None` where the line has nothing to be about: an event not recorded yet, an allocation not made.
    fn request(&mut self, spec: &CallSpec, turn: u64) -> Option<Request> {
        let scale = self.standing.scale;
        let mut grid = spec.grid.map(|side| self.side(&side));
        grid[0] = times(u64::from(grid[0]), scale.size).clamp(1, u64::from(u32::MAX)) as u32;
        Some(Request {
            kernel: KERNELS + (spec.kernel << 20) + (turn % spec.kernels) * 0x100,
            stream: self.world.streams[spec.stream].load(Relaxed),
            handle: self.handle(spec)?,
            bytes: [times(spec.bytes.sample(&mut self.random), scale.size), spec.rows],
            kind: spec.kind,
            grid,
            block: spec.block,
            ..Request::new(spec.index, spec.function)
        })
    }

    fn side(&mut self, side: &Span) -> u32 {
        side.sample(&mut self.random).clamp(1, u64::from(u32::MAX)) as u32
    }

    fn handle(&self, spec: &CallSpec) -> Option<u64> {
        let is_made = has(&spec.function, Role::Out);
        match spec.object {
            Object::None => Some(0),
            Object::Number(value) => Some(value),
            Object::Stream(at) => Some(self.world.streams[at].load(Relaxed)),
            Object::Graph(at) => Some(self.world.graphs[at].load(Relaxed)),
            Object::Buffer(_) if is_made => Some(0),
            Object::Buffer(at) => locked(&self.world.buffers[at]).pop_front(),
            Object::Event(at, back) => {
                let ring = &self.world.events[at];
                let place = match spec.function.probe.action {
                    Action::EventRecord => ring.next(),
                    _ => ring.recorded_back(back)?,
                };
                Some(ring.handles[place].load(Relaxed))
            }
        }
    }

    fn order(&mut self, spec: &CallSpec) -> Order {
        let scale = self.standing.scale;
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

    /// Makes the call, then tells truth and oracle.
    fn make(&mut self, spec: &CallSpec, request: &Request) -> Outcome {
        let order = self.order(spec);
        let closing = self.closing(spec);
        let made = self.world.functions.call(request, &order);
        self.world.calls.fetch_add(1, Relaxed);
        self.keep(spec, request, &made);
        let meaning = sentinel::meaning(request, &made);
        self.enqueued(spec, request, &made, &meaning);
        if self.world.log.is_kept() {
            let line = self.line(spec, request, &made, &meaning);
            self.lines.push(Line::Call(line));
        }
        self.close(&closing, spec, &meaning, made);
        made
    }

    /// The stream that a line means.
    fn id(&self, spec: &CallSpec) -> StreamId {
        let own = spec.stream == 0 && spec.function.is_twin;
        let device = if spec.stream == 0 { self.device } else { 0 };
        StreamId { place: spec.stream, tid: if own { self.tid } else { 0 }, device }
    }

    /// What the call waits for, told before it is made.
    fn closing(&self, spec: &CallSpec) -> Vec<Instant> {
        let mut truth = locked(&self.world.truth);
        match Effect::of(spec.function.probe) {
            Effect::StreamSync | Effect::StreamQuery => vec![truth.now(self.id(spec))],
            Effect::DeviceSync => truth.now_of_device(self.device),
            Effect::EventSync | Effect::EventQuery => match self.recorded(spec) {
                Some(Event::Recorded(instant)) => vec![instant],
                _ => Vec::new(),
            },
            _ => Vec::new(),
        }
    }

    /// What the event that the line speaks of stands for.
    fn recorded(&self, spec: &CallSpec) -> Option<Event> {
        let Object::Event(at, back) = spec.object else { return None };
        let ring = &self.world.events[at];
        *locked(&ring.recorded[ring.recorded_back(back)?])
    }

    fn close(&mut self, closing: &[Instant], spec: &CallSpec, meaning: &sentinel::Meaning, made: Outcome) {
        let effect = Effect::of(spec.function.probe);
        let is_query = matches!(effect, Effect::StreamQuery | Effect::EventQuery);
        if is_query {
            let Some(made) = self.answered(closing, meaning.handle | meaning.stream, made) else { return };
            return self.end_steps(closing, true, spec, &made);
        }
        let copies_back = meaning.direction == Direction::DeviceToHost as u32;
        if effect == Effect::Copy && spec.function.probe.wiring.blocking && copies_back {
            // It closes itself too: its own work is told by now.
            let now = locked(&self.world.truth).now(self.id(spec));
            return self.end_steps(&[now], false, spec, &made);
        }
        self.end_steps(closing, false, spec, &made);
    }

    /// A query was answered. Where that ends a wait, gives the call as if it had lasted from the first question on.
    fn answered(&mut self, closing: &[Instant], handle: u64, made: Outcome) -> Option<Outcome> {
        let goes_on = |a: &Asking| a.handle == handle && made.entry_ns - a.last_ns <= ASKS_AGAIN_NS;
        let began_ns = self.asking.take().filter(goes_on).map(|a| a.began_ns);
        if made.result != 0 {
            let began_ns = began_ns.unwrap_or(made.entry_ns);
            self.asking = Some(Asking { handle, began_ns, last_ns: made.exit_ns });
            return None;
        }
        let is_usual = || closing.iter().any(|instant| locked(&self.world.truth).is_polled(instant));
        let began_ns = began_ns.or_else(|| is_usual().then_some(made.entry_ns))?;
        Some(Outcome { entry_ns: began_ns, ..made })
    }

    fn end_steps(&mut self, closing: &[Instant], is_poll: bool, spec: &CallSpec, made: &Outcome) {
        if closing.is_empty() {
            return;
        }
        let steps = locked(&self.world.truth).close(closing, is_poll);
        if !self.world.log.is_kept() {
            return;
        }
        for (id, step) in steps {
            let stream = match id.place {
                0 => locked(&self.world.truth).number(&id),
                place => self.world.streams[place].load(Relaxed),
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

    /// Remembers what the call made, recorded or ended.
    fn keep(&mut self, spec: &CallSpec, request: &Request, made: &Outcome) {
        let (world, id) = (self.world, self.id(spec));
        let mut truth = locked(&world.truth);
        match (Effect::of(spec.function.probe), spec.object) {
            (Effect::StreamCreate, Object::Stream(at)) => {
                world.streams[at].store(made.written, Relaxed);
                let is_blocking = request.bytes[0] & NON_BLOCKING == 0;
                truth.create(StreamId { place: at, tid: 0, device: 0 }, self.device, is_blocking);
            }
            (Effect::Instantiate, Object::Graph(at)) => {
                world.graphs[at].store(made.written, Relaxed);
                truth.graphs.instantiate(made.written, request.graph);
            }
            (Effect::ExecUpdate, _) => truth.graphs.instantiate(request.handle, request.graph),
            (Effect::ExecDestroy, _) => truth.graphs.end_exec(request.handle),
            (Effect::GraphDestroy, _) => truth.graphs.end(request.graph),
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
            (Effect::StreamDestroy, _) => truth.forget(id),
            _ => {}
        }
    }

    fn enqueued(&mut self, spec: &CallSpec, request: &Request, made: &Outcome, meaning: &sentinel::Meaning) {
        let effect = Effect::of(spec.function.probe);
        if is_enqueue(effect) {
            let mut work = work_of(effect, meaning, request);
            let label = self.standing.step.as_ref();
            let mut truth = locked(&self.world.truth);
            if effect == Effect::GraphLaunch {
                work.graphs = truth.graphs.launched(meaning.handle);
            }
            truth.enqueue(self.id(spec), &work, label, made.entry_ns, self.tid);
            self.asking = None;
        }
    }

    fn line(
        &self,
        spec: &CallSpec,
        request: &Request,
        made: &Outcome,
        meaning: &sentinel::Meaning,
    ) -> CallLine {
        let step = self.standing.step.as_ref();
        let inner = spec.inner.map(|(index, depth)| (crate::model::call::Function::at(index), depth));
        CallLine {
            phase: step.map_or(Cow::Borrowed(""), |label| label.phase.clone().into()),
            step: step.map(|label| label.step),
            thread: self.name.clone(),
            inner: inner.and_then(|(f, _)| f).map_or("", |f| f.symbol()).into(),
            inner_depth: inner.map_or(0, |(_, depth)| depth),
            ..call_line(self.tid, request, made, meaning)
        }
    }

    pub(super) fn flush_if_full(&mut self) {
        if self.lines.len() >= LINES_MAX {
            self.flush();
        }
    }

    /// Writes what is kept. A log that cannot be written ends the log, not the play.
    pub(super) fn flush(&mut self) {
        if let Err(error) = self.world.log.write(&self.lines) {
            self.complain(&format!("cannot write the oracle log: {error}"));
        }
        self.lines.clear();
    }

    pub(super) fn complain(&self, problem: &str) {
        let _ = writeln!(std::io::stderr(), "player: {problem}");
    }
}
