//! A thread's calls: from a script's line to a real call, with its line in the oracle and its part in the truth.

use std::borrow::Cow;
use std::io::Write;
use std::sync::atomic::Ordering::Relaxed;

use table::{Action, Direction};

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
    step: Option<(usize, u64, String)>,
    scale: Scale,
}

/// A thread as the one who makes calls.
#[derive(Debug)]
pub(super) struct Caller<'w> {
    world: &'w World,
    tid: u32,
    name: Cow<'static, str>,
    random: Random,
    standing: Standing,
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
    pub(super) fn begin_step(&mut self, phase: &str, stream: usize, size: &Span) -> Standing {
        let step = locked(&self.world.streams[stream].truth).label(phase);
        let scale = Scale { size: size.sample(&mut self.random), ..self.standing.scale };
        let begun = Standing { step: Some((stream, step, phase.to_string())), scale };
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
        if let Some((stream, step, _)) = &self.standing.step {
            locked(&self.world.streams[*stream].truth).fault(*step, name);
        }
    }

    /// Makes the call that a line describes.
    pub(super) fn call(&mut self, spec: &CallSpec, turn: u64) {
        self.call_for(spec, turn);
    }

    /// The same; gives what the call wrote, 0 where it makes nothing.
    pub(super) fn call_for(&mut self, spec: &CallSpec, turn: u64) -> u64 {
        let Some(request) = self.request(spec, turn) else { return 0 };
        self.make(spec, &request)
    }

    /// Instantiates a captured graph.
    pub(super) fn instantiate(&mut self, spec: &CallSpec, graph: u64) {
        let request = Request { graph, ..Request::new(spec.index, spec.function) };
        self.make(spec, &request);
    }

    /// `None` where the line has nothing to be about: an event not recorded yet, an allocation not made.
    fn request(&mut self, spec: &CallSpec, turn: u64) -> Option<Request> {
        let scale = self.standing.scale;
        let mut grid = spec.grid.map(|side| self.side(&side));
        grid[0] = times(u64::from(grid[0]), scale.size).clamp(1, u64::from(u32::MAX)) as u32;
        Some(Request {
            kernel: KERNELS + (spec.kernel << 20) + (turn % spec.kernels) * 0x100,
            stream: self.world.streams[spec.stream].handle.load(Relaxed),
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
            Object::Stream(at) => Some(self.world.streams[at].handle.load(Relaxed)),
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
    fn make(&mut self, spec: &CallSpec, request: &Request) -> u64 {
        let order = self.order(spec);
        let closing = self.closing(spec);
        let made = self.world.functions.call(request, &order);
        self.world.calls.fetch_add(1, Relaxed);
        self.keep(spec, &made);
        let meaning = sentinel::meaning(request, &made);
        self.enqueued(spec, request, &made, &meaning);
        if self.world.log.is_kept() {
            let line = self.line(spec, request, &made, &meaning);
            self.lines.push(Line::Call(line));
        }
        for (stream, until) in closing {
            self.close(stream, until, spec, &made);
        }
        made.written
    }

    /// The streams that the call closes, and how far, told before it is made.
    fn closing(&self, spec: &CallSpec) -> Vec<(usize, u64)> {
        let end = |at: usize| (at, locked(&self.world.streams[at].truth).end());
        match Effect::of(spec.function.probe) {
            Effect::StreamSync => vec![end(spec.stream)],
            Effect::DeviceSync => (0..self.world.streams.len()).map(end).collect(),
            Effect::EventSync => {
                let Object::Event(at, back) = spec.object else { return Vec::new() };
                let ring = &self.world.events[at];
                let place = ring.recorded_back(back);
                place.and_then(|place| *locked(&ring.recorded[place])).into_iter().collect()
            }
            // A copy from the device that blocks closes itself too: its own work is told afterwards.
            Effect::Copy if spec.function.probe.wiring.blocking => vec![(spec.stream, u64::MAX)],
            _ => Vec::new(),
        }
    }

    fn close(&mut self, stream: usize, until: u64, spec: &CallSpec, made: &Outcome) {
        let slot = &self.world.streams[stream];
        let is_copy = Effect::of(spec.function.probe) == Effect::Copy;
        if is_copy && copy_direction(spec) != Direction::DeviceToHost as u32 {
            return;
        }
        let mut truth = locked(&slot.truth);
        let until = if until == u64::MAX { truth.end() } else { until };
        let Some(step) = truth.close(until) else { return };
        drop(truth);
        if self.world.log.is_kept() {
            self.lines.push(Line::Step(StepLine {
                pid: std::process::id(),
                tid: self.tid,
                stream: slot.handle.load(Relaxed),
                closer: spec.function.symbol().into(),
                enter_ns: made.entry_ns,
                exit_ns: made.exit_ns,
                ..step
            }));
        }
    }

    /// Remembers what the call made, recorded or ended.
    fn keep(&mut self, spec: &CallSpec, made: &Outcome) {
        let world = self.world;
        match (Effect::of(spec.function.probe), spec.object) {
            (Effect::StreamCreate, Object::Stream(at)) => {
                world.streams[at].handle.store(made.written, Relaxed)
            }
            (Effect::Instantiate, Object::Graph(at)) => world.graphs[at].store(made.written, Relaxed),
            (Effect::Alloc | Effect::HostAlloc, Object::Buffer(at)) if made.result == 0 => {
                locked(&world.buffers[at]).push_back(made.written);
            }
            (Effect::EventRecord, Object::Event(at, _)) => {
                let ring = &world.events[at];
                let until = locked(&world.streams[spec.stream].truth).record();
                *locked(&ring.recorded[ring.next()]) = Some((spec.stream, until));
                ring.records.fetch_add(1, Relaxed);
            }
            (Effect::CaptureBegin, _) => locked(&world.streams[spec.stream].truth).set_capturing(true),
            (Effect::CaptureEnd, _) => locked(&world.streams[spec.stream].truth).set_capturing(false),
            (Effect::StreamDestroy, _) => locked(&world.streams[spec.stream].truth).forget(),
            _ => {}
        }
    }

    fn enqueued(&self, spec: &CallSpec, request: &Request, made: &Outcome, meaning: &sentinel::Meaning) {
        let effect = Effect::of(spec.function.probe);
        if is_enqueue(effect) {
            let work = work_of(effect, meaning, request);
            locked(&self.world.streams[spec.stream].truth).enqueue(&work, made.entry_ns, self.tid);
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
            phase: step.map_or(Cow::Borrowed(""), |(_, _, phase)| phase.clone().into()),
            step: step.map(|(_, step, _)| *step),
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

fn copy_direction(spec: &CallSpec) -> u32 {
    let request = Request { kind: spec.kind, ..Request::new(spec.index, spec.function) };
    sentinel::meaning(&request, &Outcome::default()).direction
}
