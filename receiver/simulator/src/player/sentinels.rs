//! Every function once, no two arguments alike, each in a setting in which a probe's record shows what it read.
//!
//! The one idea: launches and copies leave no record of their own, they show in the step that a wait closes. So a
//! call that enqueues is followed by a wait on its stream, and a wait is preceded by a launch: one call under
//! test, one record that tells how it was read. The lines of the oracle carry the label `sentinel` for the call
//! under test and `setting` for what stands around it, and the function's index as the step.

use probe_abi::{Action, Library};

use super::lines::call_line;
use crate::functions::{Functions, is_enqueue};
use crate::invoke::Request;
use crate::model::call::{Effect, Function};
use crate::model::order::Order;
use crate::model::thread;
use crate::oracle::{CallLine, Line, Log};
use crate::sentinel;

/// Functions that stand around a call under test, by library: launch, record, wait for the stream, wait for the
/// event, begin and end a capture.
const SETTINGS: [(Library, [&str; 6]); 3] = [
    (
        Library::Amdhip,
        [
            "hipLaunchKernel",
            "hipEventRecord",
            "hipStreamSynchronize",
            "hipEventSynchronize",
            "hipStreamBeginCapture",
            "hipStreamEndCapture",
        ],
    ),
    (
        Library::Cuda,
        [
            "cuLaunchKernel",
            "cuEventRecord",
            "cuStreamSynchronize",
            "cuEventSynchronize",
            "cuStreamBeginCapture_v2",
            "cuStreamEndCapture",
        ],
    ),
    (
        Library::Cudart,
        [
            "cudaLaunchKernel",
            "cudaEventRecord",
            "cudaStreamSynchronize",
            "cudaEventSynchronize",
            "cudaStreamBeginCapture",
            "cudaStreamEndCapture",
        ],
    ),
];

/// Calls everything once; gives the number of calls.
pub(super) fn run(functions: &Functions, log: &Log) -> std::io::Result<u64> {
    functions.set_lenient(true);
    let mut lines = Vec::new();
    for (index, function) in Function::all().filter(|(index, _)| functions.has(*index)) {
        Scene { functions, lines: &mut lines, tested: sentinel::request(index, function) }.play();
    }
    functions.set_lenient(false);
    log.write(&lines)?;
    Ok(lines.len() as u64)
}

/// One call under test and what stands around it.
struct Scene<'a> {
    functions: &'a Functions,
    lines: &'a mut Vec<Line>,
    tested: Request,
}

impl Scene<'_> {
    fn play(&mut self) {
        let function = self.tested.function;
        match function.probe.action {
            Action::StreamSync | Action::DeviceSync => self.all(&[0], &[]),
            Action::EventRecord => self.all(&[0], &[3]),
            Action::EventSync => self.all(&[0, 1], &[]),
            Action::CaptureBegin => self.all(&[], &[0, 5]),
            Action::CaptureEnd => self.all(&[4, 0], &[]),
            _ if is_enqueue(Effect::of(function.probe)) => self.all(&[], &[2]),
            _ => self.all(&[], &[]),
        }
    }

    fn all(&mut self, before: &[usize], after: &[usize]) {
        before.iter().for_each(|place| self.setting(*place));
        let tested = self.tested;
        self.call(&tested, "sentinel");
        after.iter().for_each(|place| self.setting(*place));
    }

    /// A call on the stream and event of the one under test, of the twin where that is one, so that both mean
    /// the same default stream.
    fn setting(&mut self, place: usize) {
        let Function { probe, is_twin } = self.tested.function;
        let Some((_, symbols)) = SETTINGS.iter().find(|(library, _)| *library == probe.library) else {
            return;
        };
        let wanted = Function::all()
            .filter(|(_, f)| f.probe.symbol == symbols[place] && (is_twin || !f.is_twin))
            .last();
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
