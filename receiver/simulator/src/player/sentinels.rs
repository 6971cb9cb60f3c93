//! Calls every function once with distinct arguments, in a setting in which a kernel record shows what a probe read.
//!
//! Launches and copies have no record of their own; they are counted in the step that a sync call ends. So a call that
//! enqueues is followed by a sync call, and a sync call is preceded by a launch. Oracle lines have the label `sentinel` for
//! the call under test and `setting` for those around it, and the function's index as the step.

use probe_abi::{Action, Library};

use super::lines::call_line;
use crate::functions::{Functions, is_enqueue};
use crate::invoke::Request;
use crate::model::call::{Effect, StubFunction};
use crate::model::order::Order;
use crate::model::thread;
use crate::oracle::{CallLine, Line, Log};
use crate::script::{ScriptApi, symbol};
use crate::sentinel;

/// The verbs of calls around a call under test.
const LAUNCH: &str = "launch";
const RECORD: &str = "record";
const SYNC_STREAM: &str = "sync stream";
const SYNC_EVENT: &str = "sync event";
const BEGIN_CAPTURE: &str = "capture begin";
const END_CAPTURE: &str = "capture end";

/// Calls every function once; returns the number of calls.
pub(super) fn run(functions: &Functions, log: &Log) -> std::io::Result<u64> {
    functions.set_lenient(true);
    let mut lines = Vec::new();
    for (index, function) in StubFunction::all().filter(|(index, _)| functions.has(*index)) {
        Scene { functions, lines: &mut lines, tested: sentinel::request(index, function) }.play();
    }
    functions.set_lenient(false);
    log.write(&lines)?;
    Ok(lines.len() as u64)
}

/// A call under test and the calls around it.
struct Scene<'a> {
    functions: &'a Functions,
    lines: &'a mut Vec<Line>,
    tested: Request,
}

impl Scene<'_> {
    fn play(&mut self) {
        let function = self.tested.function;
        match function.probe.action {
            Action::StreamSync | Action::DeviceSync => self.all(&[LAUNCH], &[]),
            Action::EventRecord => self.all(&[LAUNCH], &[SYNC_EVENT]),
            Action::EventSync => self.all(&[LAUNCH, RECORD], &[]),
            Action::CaptureBegin => self.all(&[], &[LAUNCH, END_CAPTURE]),
            Action::CaptureEnd => self.all(&[BEGIN_CAPTURE, LAUNCH], &[]),
            _ if is_enqueue(Effect::of(function.probe)) => self.all(&[], &[SYNC_STREAM]),
            _ => self.all(&[], &[]),
        }
    }

    fn all(&mut self, before: &[&str], after: &[&str]) {
        before.iter().for_each(|verb| self.setting(verb));
        let tested = self.tested;
        self.call(&tested, "sentinel");
        after.iter().for_each(|verb| self.setting(verb));
    }

    /// Makes a call on the stream and event of the one under test; a twin if that is one, so that both use the same
    /// default stream.
    fn setting(&mut self, verb: &str) {
        let StubFunction { probe, is_twin } = self.tested.function;
        let api = match probe.library {
            Library::Amdhip => ScriptApi::Hip,
            Library::Cuda => ScriptApi::Driver,
            Library::Cudart | Library::Nccl => ScriptApi::Cuda,
        };
        let Some(symbol) = symbol(api, verb) else { return };
        let wanted =
            StubFunction::all().filter(|(_, f)| f.probe.symbol == symbol && (is_twin || !f.is_twin)).last();
        let Some((index, function)) = wanted else { return };
        let stream = sentinel::meaning(&self.tested, &Default::default()).stream;
        let is_waited_for = matches!(probe.action, Action::EventSync | Action::DeviceSync);
        let stream = if is_waited_for { self.tested.stream } else { stream };
        let request = Request { stream, handle: self.tested.handle, ..Request::new(index, function) };
        self.call(&request, "setting");
    }

    fn call(&mut self, request: &Request, label: &'static str) {
        let made = self.functions.call(request, &Order { gpu_ns: 0, ..Order::NONE });
        let meaning = sentinel::meaning(request, &made);
        self.lines.push(Line::Call(CallLine {
            phase: label.into(),
            step: Some(self.tested.index as u64),
            words: made.words[..made.count].to_vec(),
            ..call_line(thread::tid(), request, &made, &meaning)
        }));
    }
}
