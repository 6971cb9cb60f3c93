//! Frames: the kind of each event, and the counts of the end frame.

use std::collections::BTreeMap;

use crate::codec::{Encoder, Field};
use event::{Event, ExitStatus, FileCounts, ProcessId};

/// The kinds of frames. Numbers are never reused.
pub(super) mod kind {
    pub(crate) const HEADER: u16 = 1;
    pub(crate) const END: u16 = 2;
    pub(crate) const CLOCK: u16 = 16;
    pub(crate) const PROCESS: u16 = 17;
    pub(crate) const EXIT: u16 = 18;
    pub(crate) const STEP: u16 = 19;
    pub(crate) const CALL: u16 = 20;
    pub(crate) const OPERATION: u16 = 21;
    pub(crate) const ACCOUNT: u16 = 22;
    pub(crate) const LOST: u16 = 23;
    pub(crate) const TICK: u16 = 24;
    pub(crate) const CALL_ARGS: u16 = 25;
    pub(crate) const UNDER_WAY: u16 = 26;
    pub(crate) const LAUNCHER_ENV: u16 = 27;
    pub(crate) const DEVICE: u16 = 28;
    pub(crate) const CLOCKS: u16 = 29;
    pub(crate) const CONTEXT: u16 = 30;
    pub(crate) const OVERHEAD: u16 = 31;
    pub(crate) const ARMED: u16 = 32;
    pub(crate) const DISCOVERY: u16 = 33;
    pub(crate) const FILES: u16 = 35;
    pub(crate) const SELECTION: u16 = 34;
    pub(crate) const FUNCTION: u16 = 36;
    pub(crate) const LAUNCH: u16 = 37;
    pub(crate) const FUNCTION_TOTAL: u16 = 38;
}

/// Appends the fields of an event and returns its kind.
pub(super) fn put(event: &Event, out: &mut Encoder) -> u16 {
    match event {
        Event::Clock(clock) => fields(kind::CLOCK, clock, out),
        Event::Process(info) => fields(kind::PROCESS, info.as_ref(), out),
        Event::Exit { process, at_ns, status } => fields(kind::EXIT, &(*process, (*at_ns, *status)), out),
        Event::Step(step) => fields(kind::STEP, step, out),
        Event::Context(context) => fields(kind::CONTEXT, context, out),
        Event::Call(call) => fields(kind::CALL, call, out),
        Event::CallArgs(args) => fields(kind::CALL_ARGS, args, out),
        Event::UnderWay(call) => fields(kind::UNDER_WAY, call, out),
        Event::LauncherEnv(launcher) => fields(kind::LAUNCHER_ENV, launcher.as_ref(), out),
        Event::Device(device) => fields(kind::DEVICE, device.as_ref(), out),
        Event::Clocks(clocks) => fields(kind::CLOCKS, clocks, out),
        Event::Operation(total) => fields(kind::OPERATION, total.as_ref(), out),
        Event::Overhead(overhead) => fields(kind::OVERHEAD, overhead.as_ref(), out),
        Event::Account(account) => fields(kind::ACCOUNT, account.as_ref(), out),
        Event::Function(function) => fields(kind::FUNCTION, function.as_ref(), out),
        Event::Launch(launch) => fields(kind::LAUNCH, launch, out),
        Event::FunctionTotal(total) => fields(kind::FUNCTION_TOTAL, total, out),
        Event::Armed { at_ns, pid, mapped_ns } => fields(kind::ARMED, &(*at_ns, (*pid, *mapped_ns)), out),
        Event::Discovery { at_ns, follows_mappings, mappings_lost, unreached } => {
            let counts = [u64::from(*follows_mappings), *mappings_lost, *unreached];
            fields(kind::DISCOVERY, &(*at_ns, counts), out)
        }
        Event::Selection { at_ns, excluded, discarded, unfiltered } => {
            fields(kind::SELECTION, &(*at_ns, [*excluded, *discarded, *unfiltered]), out)
        }
        Event::Files { at_ns, counts: FileCounts { refused, evicted, postponed, unanswered } } => fields(
            kind::FILES,
            &(*at_ns, ([*postponed, *unanswered], (refused.to_vec(), evicted.to_vec()))),
            out,
        ),
        Event::Lost { at_ns, reason, count } => fields(kind::LOST, &(*at_ns, (*reason, *count)), out),
        Event::Tick { at_ns } => fields(kind::TICK, at_ns, out),
    }
}

fn fields(kind: u16, of: &impl Field, out: &mut Encoder) -> u16 {
    of.put(out);
    kind
}

/// A decoded payload.
#[derive(Debug)]
#[expect(
    clippy::large_enum_variant,
    reason = "only one exists at a time, and boxing would allocate for each event"
)]
pub(super) enum Payload {
    Event(Event),
    End(Counts),
    /// A frame kind of a later version.
    Unknown,
    /// Too few bytes, or an invalid value.
    Malformed,
}

/// Decodes a payload. Bytes after the known fields belong to a later version and are ignored.
pub(super) fn take(kind: u16, payload: &[u8]) -> Payload {
    let from = &mut &*payload;
    let event = match kind {
        kind::CLOCK => Field::take(from).map(Event::Clock),
        kind::PROCESS => Field::take(from).map(|info| Event::Process(Box::new(info))),
        kind::EXIT => <(ProcessId, (u64, ExitStatus))>::take(from)
            .map(|(process, (at_ns, status))| Event::Exit { process, at_ns, status }),
        kind::STEP => Field::take(from).map(Event::Step),
        kind::CONTEXT => Field::take(from).map(Event::Context),
        kind::CALL => Field::take(from).map(Event::Call),
        kind::CALL_ARGS => Field::take(from).map(Event::CallArgs),
        kind::UNDER_WAY => Field::take(from).map(Event::UnderWay),
        kind::LAUNCHER_ENV => Field::take(from).map(|launcher| Event::LauncherEnv(Box::new(launcher))),
        kind::DEVICE => Field::take(from).map(|device| Event::Device(Box::new(device))),
        kind::CLOCKS => Field::take(from).map(Event::Clocks),
        kind::OPERATION => Field::take(from).map(|total| Event::Operation(Box::new(total))),
        kind::OVERHEAD => Field::take(from).map(|overhead| Event::Overhead(Box::new(overhead))),
        kind::ACCOUNT => Field::take(from).map(|account| Event::Account(Box::new(account))),
        kind::FUNCTION => Field::take(from).map(|function| Event::Function(Box::new(function))),
        kind::LAUNCH => Field::take(from).map(Event::Launch),
        kind::FUNCTION_TOTAL => Field::take(from).map(Event::FunctionTotal),
        kind::ARMED => {
            Field::take(from).map(|(at_ns, (pid, mapped_ns))| Event::Armed { at_ns, pid, mapped_ns })
        }
        kind::DISCOVERY => {
            <(u64, [u64; 3])>::take(from).map(|(at_ns, [follows, mappings_lost, unreached])| {
                Event::Discovery { at_ns, follows_mappings: follows != 0, mappings_lost, unreached }
            })
        }
        kind::SELECTION => <(u64, [u64; 3])>::take(from).map(|(at_ns, [excluded, discarded, unfiltered])| {
            Event::Selection { at_ns, excluded, discarded, unfiltered }
        }),
        kind::FILES => <(u64, ([u64; 2], (Vec<u64>, Vec<u64>)))>::take(from).map(
            |(at_ns, ([postponed, unanswered], (refused, evicted)))| {
                let (refused, evicted) = (known(&refused), known(&evicted));
                let counts = FileCounts { refused, evicted, postponed, unanswered };
                Event::Files { at_ns, counts }
            },
        ),
        kind::LOST => Field::take(from).map(|(at_ns, (reason, count))| Event::Lost { at_ns, reason, count }),
        kind::TICK => Field::take(from).map(|at_ns| Event::Tick { at_ns }),
        kind::END => return Counts::take(from).map_or(Payload::Malformed, Payload::End),
        _ => return Payload::Unknown,
    };
    event.map_or(Payload::Malformed, Payload::Event)
}

/// Returns the counts of the reasons that this version has, in their order.
fn known<const N: usize>(counts: &[u64]) -> [u64; N] {
    std::array::from_fn(|number| counts.get(number).copied().unwrap_or_default())
}

/// Numbers of events by kind, and of texts and lists that were cut.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(super) struct Counts {
    pub(super) by_kind: BTreeMap<u16, u64>,
    pub(super) cut: u64,
}

impl Counts {
    pub(super) fn count(&mut self, kind: u16) {
        *self.by_kind.entry(kind).or_default() += 1;
    }

    pub(super) fn events(&self) -> u64 {
        self.by_kind.values().sum()
    }
}

impl Field for Counts {
    fn put(&self, out: &mut Encoder) {
        self.events().put(out);
        self.cut.put(out);
        let list: Vec<_> = self.by_kind.iter().map(|(kind, count)| (*kind, *count)).collect();
        list.put(out);
    }

    fn take(from: &mut &[u8]) -> Option<Self> {
        let (_events, cut) = <(u64, u64)>::take(from)?;
        let list = <Vec<(u16, u64)>>::take(from)?;
        Some(Counts { by_kind: list.into_iter().collect(), cut })
    }
}
