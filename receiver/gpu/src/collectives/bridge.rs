//! Conversion of events into observations of `nccl`.
//!
//! The meaning of each probe row is looked up once, when the bridge is built, so an event costs an index into a table. Most
//! events are ignored.
//!
//! Waits come from step records, each with its stream and the snapshot that it waited for. Calls that order streams are
//! recorded only for processes that use NCCL. A wait for a stream without pending work is in neither.

use event::{CallArgs, CallRecord, Event, ProcessId};
use nccl::functions::{self, CallMemory};
use nccl::hash::UniqueId;
use nccl::observe::{Function, NcclCall, OngoingCall, Out, StreamAction, StreamCall};
use nccl::{Observation, source};
use probe_abi::counters::DropReason;
use probe_abi::nccl::Role;
use probe_abi::record::{Header, ROWS, StreamKey, flag};
use probe_abi::{Action, ArgsSpec, Probe};

use crate::collectives::launcher::environment;

/// The meaning of a probe row for `nccl`.
#[derive(Clone, Copy, Debug)]
enum Meaning {
    /// A function that does not concern collectives.
    Ignored,
    /// An NCCL function.
    Function(Role, &'static ArgsSpec),
    /// The function that returns the version of the library.
    Version,
    /// A call that waits for streams or orders them.
    Stream(fn(&CallRecord, StreamKey) -> StreamAction),
}

/// Converts events into observations.
#[derive(Clone, Debug)]
pub(crate) struct Bridge {
    /// Meanings by row id.
    meanings: Box<[Meaning]>,
}

impl Bridge {
    /// Creates a bridge for all probe rows.
    pub(crate) fn new() -> Bridge {
        let mut meanings = vec![Meaning::Ignored; ROWS].into_boxed_slice();
        probe_abi::PROBES.iter().for_each(|probe| meanings[usize::from(probe.id)] = meaning(probe));
        Bridge { meanings }
    }

    /// Calls `give` with the observations of an event.
    pub(crate) fn cross(&self, event: &Event, give: &mut impl FnMut(Observation)) {
        match event {
            Event::CallArgs(args) => self.args(args, give),
            Event::Step(record) => {
                source::sync_call(record).into_iter().map(Observation::Stream).for_each(give)
            }
            Event::Call(record) => self.call(record).into_iter().map(Observation::Stream).for_each(give),
            Event::UnderWay(call) => give(Observation::OngoingCall(OngoingCall {
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
            | Event::Function(_)
            | Event::Launch(_)
            | Event::FunctionTotal(_)
            | Event::Context(_)
            | Event::Operation(_)
            | Event::Overhead(_)
            | Event::Account(_)
            | Event::Armed { .. }
            | Event::Discovery { .. }
            | Event::Files { .. }
            | Event::Selection { .. } => {}
        }
    }

    fn meaning(&self, row: u16) -> Meaning {
        self.meanings.get(usize::from(row)).copied().unwrap_or(Meaning::Ignored)
    }

    fn args(&self, args: &CallArgs, give: &mut impl FnMut(Observation)) {
        match self.meaning(args.header.row) {
            Meaning::Function(role, spec) => function(role, spec, args, give),
            Meaning::Version if args.result == 0 => {
                let version = args.words_at_exit().next().and_then(|word| u32::try_from(word).ok());
                let process = ProcessId::from(&args.header);
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

/// Gives the observation of an NCCL call, preceded by the handles that calls in its group have written, if it ends a group.
fn function(role: Role, spec: &ArgsSpec, args: &CallArgs, give: &mut impl FnMut(Observation)) {
    if role == Role::GroupEnd {
        let pairs = args.exit.as_chunks::<16>().0.iter();
        let written = pairs.map(|pair| {
            let (at, handle) = pair.split_at(8);
            Out { at: word(at), handle: word(handle) }
        });
        let written = written.filter(|out| out.handle != 0);
        written.for_each(|out| give(call(args, Function::Written(out))));
    }
    let memory = memory(role, args);
    let function = functions::read(spec, |n| args.argument(n), |handle| stream(&args.header, handle), memory);
    function.into_iter().for_each(|function| give(call(args, function)));
}

fn call(args: &CallArgs, function: Function) -> Observation {
    let header = &args.header;
    Observation::Call(NcclCall {
        process: header.into(),
        tid: header.tid,
        entry_ns: header.entry_ns,
        duration_ns: header.duration_ns,
        result: args.result,
        device: args.device,
        function,
    })
}

/// Returns the memory that the call's pointers referred to. An operation has none and allocates nothing.
fn memory(role: Role, args: &CallArgs) -> CallMemory {
    match role {
        Role::GetUniqueId => CallMemory { id: id(&args.exit), ..CallMemory::default() },
        Role::GroupEnd => CallMemory::default(),
        // The id of a grown communicator is not a list.
        Role::Init | Role::Grow => {
            CallMemory { id: id(&args.entry), out: args.words_at_exit().collect(), ..CallMemory::default() }
        }
        Role::InitAll | Role::Shrink => CallMemory {
            list: args.ints_at_entry().collect(),
            out: args.words_at_exit().collect(),
            ..CallMemory::default()
        },
        _ => CallMemory {
            out: args.words_at_exit().collect(),
            ordinal: args.ordinal,
            is_unarmed: args.header.flags & flag::UNARMED != 0,
            ..CallMemory::default()
        },
    }
}

/// Returns whether NCCL calls may be among the lost records; they use no map of streams or durations.
fn loses_calls(reason: DropReason) -> bool {
    !matches!(reason, DropReason::StreamsFull | DropReason::DurationsFull)
}

fn id(bytes: &[u8]) -> Option<Box<UniqueId>> {
    UniqueId::try_from(bytes).ok().map(Box::new)
}

fn word(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte))
}

/// Returns the stream of a handle, as step records identify it: a per-thread default stream has its thread in the upper half.
/// Calls of per-thread variants on stream 0 are attributed to the shared default stream.
fn stream(header: &Header, handle: u64) -> StreamKey {
    let key = StreamKey::of(header.pid, header.tid, handle, false);
    StreamKey { pid: key.pid, tid: 0, stream: key.stream | u64::from(key.tid) << 32 }
}

fn meaning(probe: &'static Probe) -> Meaning {
    let wiring = &probe.wiring;
    Meaning::Stream(match probe.action {
        Action::RecordArgs => match wiring.args.role {
            Some(Role::Version) => return Meaning::Version,
            Some(role) => return Meaning::Function(role, &wiring.args),
            None => return Meaning::Ignored,
        },
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
        _ => return Meaning::Ignored,
    })
}

#[cfg(test)]
mod tests;
