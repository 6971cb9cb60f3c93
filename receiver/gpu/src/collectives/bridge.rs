//! Events into observations: what a record of the probes says, in the words of `nccl`.
//!
//! The one idea: a row's meaning is looked up once, when the bridge is built. An event then costs an index into a table,
//! and most events are none of `nccl`'s business.
//!
//! Waits come from step records, each with the stream and how far it waited. What orders streams comes call by call, of
//! processes that call NCCL alone. A call that waited for a stream without work of its own is told by neither.

use event::{CallArgs, CallRecord, Event, ProcessId};
use nccl::functions::{Memory, Role, Row, of_symbol};
use nccl::hash::UniqueId;
use nccl::observe::{Call, Function, Out, StreamAction, StreamCall, UnderWay};
use nccl::{Observation, source};
use probe_abi::counters::DropReason;
use probe_abi::record::{Header, ROWS, StreamKey};
use probe_abi::{Action, Probe};

use crate::collectives::launcher::environment;

/// What the version's own function is called: `nccl` has no row for it.
const VERSION: &str = "ncclGetVersion";

/// What a row's records mean to `nccl`.
#[derive(Clone, Copy, Debug)]
enum Meaning {
    /// Nothing.
    Nothing,
    /// A function of NCCL.
    Function(&'static Row),
    /// The library tells its version.
    Version,
    /// It waits for streams, or orders them.
    Stream(fn(&CallRecord, StreamKey) -> StreamAction),
}

/// Turns events into observations.
#[derive(Clone, Debug)]
pub(crate) struct Bridge {
    /// By the row's id.
    meanings: Box<[Meaning]>,
}

impl Bridge {
    /// A bridge for this build's rows.
    pub(crate) fn new() -> Bridge {
        let mut meanings = vec![Meaning::Nothing; ROWS].into_boxed_slice();
        probe_abi::PROBES.iter().for_each(|probe| meanings[usize::from(probe.id)] = meaning(probe));
        Bridge { meanings }
    }

    /// Gives `give` what the event says.
    pub(crate) fn cross(&self, event: &Event, give: &mut impl FnMut(Observation)) {
        match event {
            Event::CallArgs(told) => self.told(told, give),
            Event::Step(record) => source::closer(record).into_iter().map(Observation::Stream).for_each(give),
            Event::Call(record) => self.call(record).into_iter().map(Observation::Stream).for_each(give),
            Event::UnderWay(call) => give(Observation::UnderWay(UnderWay {
                process: call.process,
                tid: call.tid,
                entry_ns: call.entry_ns,
                at_ns: call.at_ns,
            })),
            Event::LauncherEnv(launched) => give(Observation::Environment(environment(launched))),
            Event::Exit { process, at_ns, status } => {
                give(Observation::Exit { process: *process, at_ns: *at_ns, status: *status });
            }
            Event::Lost { at_ns, reason, count } if loses_calls(*reason) => {
                give(Observation::Lost { at_ns: *at_ns, count: *count });
            }
            Event::Tick { at_ns } => give(Observation::Tick { at_ns: *at_ns }),
            Event::Lost { .. }
            | Event::Clock(_)
            | Event::Process(_)
            | Event::Device(_)
            | Event::Clocks(_)
            | Event::Context(_)
            | Event::Operation(_)
            | Event::Account(_) => {}
        }
    }

    fn meaning(&self, row: u16) -> Meaning {
        self.meanings.get(usize::from(row)).copied().unwrap_or(Meaning::Nothing)
    }

    fn told(&self, told: &CallArgs, give: &mut impl FnMut(Observation)) {
        match self.meaning(told.header.row) {
            Meaning::Function(row) => function(row, told, give),
            Meaning::Version if told.result == 0 => {
                let version = told.words_at_exit().next().and_then(|word| u32::try_from(word).ok());
                let process = ProcessId::from(&told.header);
                version.into_iter().for_each(|version| give(Observation::Library { process, version }));
            }
            _ => {}
        }
    }

    fn call(&self, record: &CallRecord) -> Option<StreamCall> {
        let header = &record.header;
        let Meaning::Stream(action) = self.meaning(header.row) else { return None };
        (record.result == 0).then(|| StreamCall {
            process: header.into(),
            tid: header.tid,
            entry_ns: header.entry_ns,
            duration_ns: header.duration_ns,
            action: action(record, stream(header, record.stream)),
        })
    }
}

/// A call of NCCL, and before the end of a group what the calls inside it have written by then.
fn function(row: &Row, told: &CallArgs, give: &mut impl FnMut(Observation)) {
    if row.role == Role::GroupEnd {
        let pairs = told.exit.as_chunks::<16>().0.iter();
        let written = pairs.map(|pair| {
            let (at, handle) = pair.split_at(8);
            Out { at: word(at), handle: word(handle) }
        });
        let written = written.filter(|out| out.handle != 0);
        written.for_each(|out| give(call(told, Function::Written(out))));
    }
    let function = row.read(|n| told.argument(n), |handle| stream(&told.header, handle), memory(row, told));
    function.into_iter().for_each(|function| give(call(told, function)));
}

fn call(told: &CallArgs, function: Function) -> Observation {
    let header = &told.header;
    Observation::Call(Call {
        process: header.into(),
        tid: header.tid,
        entry_ns: header.entry_ns,
        duration_ns: header.duration_ns,
        result: told.result,
        device: told.device,
        function,
    })
}

/// What stood behind the call's pointers. An operation has none, and allocates nothing.
fn memory(row: &Row, told: &CallArgs) -> Memory {
    match row.role {
        Role::GetUniqueId => Memory { id: id(&told.exit), ..Memory::default() },
        Role::GroupEnd => Memory::default(),
        // The id of a grown communicator is no list.
        Role::Init | Role::Grow => {
            Memory { id: id(&told.entry), out: told.words_at_exit().collect(), ..Memory::default() }
        }
        Role::InitAll | Role::Shrink => Memory {
            list: told.ints_at_entry().collect(),
            out: told.words_at_exit().collect(),
            ..Memory::default()
        },
        _ => Memory { out: told.words_at_exit().collect(), ordinal: told.ordinal, ..Memory::default() },
    }
}

/// True where a call of NCCL may be among what was lost: such are in no map of streams or durations.
fn loses_calls(reason: DropReason) -> bool {
    !matches!(reason, DropReason::StreamsFull | DropReason::DurationsFull)
}

fn id(bytes: &[u8]) -> Option<Box<UniqueId>> {
    UniqueId::try_from(bytes).ok().map(Box::new)
}

fn word(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte))
}

/// The stream that a handle means, as step records name it: a thread's own default stream by its thread, in the upper
/// half. Calls made through a per-thread twin on stream 0 are taken for such on the shared default stream.
fn stream(header: &Header, handle: u64) -> StreamKey {
    let key = StreamKey::of(header.pid, header.tid, handle, false);
    StreamKey { pid: key.pid, tid: 0, stream: key.stream | u64::from(key.tid) << 32 }
}

fn meaning(probe: &Probe) -> Meaning {
    let wiring = &probe.wiring;
    Meaning::Stream(match probe.action {
        Action::RecordArgs if probe.symbol == VERSION => return Meaning::Version,
        Action::RecordArgs => return of_symbol(probe.symbol).map_or(Meaning::Nothing, Meaning::Function),
        Action::StreamSync => |_, stream| StreamAction::Sync(stream),
        Action::Copy if wiring.blocking => |_, stream| StreamAction::Sync(stream),
        Action::EventSync => |call, _| StreamAction::EventSync(call.handle),
        Action::DeviceSync => |_, _| StreamAction::DeviceSync,
        Action::EventRecord => |call, stream| StreamAction::Record(call.handle, stream),
        Action::EventDestroy => |call, _| StreamAction::DestroyEvent(call.handle),
        Action::StreamDestroy => |_, stream| StreamAction::DestroyStream(stream),
        Action::CaptureBegin => |_, stream| StreamAction::BeginCapture(stream),
        Action::CaptureEnd => |_, stream| StreamAction::EndCapture(stream),
        Action::StreamWait => |call, stream| StreamAction::WaitEvent(stream, call.handle),
        _ => return Meaning::Nothing,
    })
}

#[cfg(test)]
mod tests;
