//! Decisions that follow from a row: what a call does at its entry and at its return, whether it has failed, and whether
//! it gets a record.
//!
//! The kernel programs and the fold in user space match on the same decisions ([`Enter`], [`Leave`]), so that they
//! differ only in where they store their state. A decision is made by comparing constants, which the verifier follows
//! without a table.

use crate::Cookie;
use crate::probe::{Action, ArgPos, Direction};
use crate::record::flag;

/// `cudaErrorNotReady`, `CUDA_ERROR_NOT_READY` and `hipErrorNotReady`: the answer "no" of a query.
pub const NOT_READY: u32 = 600;

/// `cudaErrorStreamCaptureWrongThread`, `CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD` and `hipErrorStreamCaptureWrongThread`:
/// the capture continues.
pub const WRONG_THREAD: u32 = 908;

/// `cudaStreamNonBlocking`, `CU_STREAM_NON_BLOCKING` and `hipStreamNonBlocking`: the stream and the legacy default
/// stream do not wait for each other.
pub const NON_BLOCKING: u64 = 1;

/// State change at the entry of a call.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[repr(u8)]
pub enum Enter {
    /// The call does not change the fold.
    Nothing,
    /// Takes the frontier of the call's stream. The return ends the steps within it.
    AwaitStream,
    /// Takes the stream's own snapshot, since the stream is destroyed: the return ends its step as unfinished.
    EndStream,
    /// Takes the frontier of the event. The return ends the steps within it.
    AwaitEvent,
    /// Takes a snapshot of each stream of the device. The return ends their steps.
    AwaitDevice,
    /// Stores the stream's frontier with the event.
    RecordEvent,
    /// Adds the event's frontier to what the stream waited for.
    JoinEvent,
    /// Removes the event. At the entry, since another thread may create one at the same address before the return.
    RemoveEvent,
    /// Removes the graph or executable graph, at the entry for the same reason.
    RemoveGraph,
    /// Marks the contents of the graph as unknown.
    ChangeGraph,
}

/// State change at the return of a call.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[repr(u8)]
pub enum Leave {
    /// The call does not change the fold.
    Nothing,
    /// Sets the thread's device.
    SetDevice,
    /// Adds a stream, in place of one with the same handle whose end was not seen.
    AddStream,
    /// Removes the stream.
    RemoveStream,
    /// Begins a capture on the stream.
    BeginCapture,
    /// Ends the stream's capture and stores its contents with the graph.
    EndCapture,
    /// Ends the stream's capture without a graph.
    AbortCapture,
    /// Gives the executable graph the contents of the graph.
    FollowGraph,
}

/// A set of actions: a bit each, by their numbers.
#[derive(Clone, Copy)]
struct Set(u32);

const ENQUEUEING: Set = Set::of(&[Action::Launch, Action::GraphLaunch, Action::Copy, Action::Fill]);
const REPORTED: Set = Set::of(&[
    Action::Alloc,
    Action::Free,
    Action::StreamDestroy,
    Action::CaptureEnd,
    Action::Report,
    Action::Create,
    Action::AllocPhysical,
    Action::FreePhysical,
    Action::Instantiate,
    Action::GraphUpdate,
    Action::GraphDestroy,
    Action::NameFunction,
    Action::AliasFunction,
]);
const WRITING: Set = Set::of(&[
    Action::Alloc,
    Action::AllocPhysical,
    Action::Create,
    Action::CaptureEnd,
    Action::StreamCreate,
    Action::Instantiate,
    Action::NameFunction,
    Action::AliasFunction,
]);
const ORDERING: Set =
    Set::of(&[Action::EventRecord, Action::StreamWait, Action::EventDestroy, Action::CaptureBegin]);

impl Set {
    const fn of(actions: &[Action]) -> Set {
        let (mut bits, mut at) = (0, 0);
        while at < actions.len() {
            bits |= 1 << actions[at] as u8;
            at += 1;
        }
        Set(bits)
    }

    #[inline(always)]
    const fn contains(self, action: u8) -> bool {
        self.0 >> (action & 31) & 1 == 1
    }
}

impl Cookie {
    /// Decides what the call does at its entry. `direction` is evaluated for blocking copies only.
    #[inline(always)]
    pub fn on_enter(self, direction: impl FnOnce() -> Direction) -> Enter {
        let is_copy_back =
            self.is(Action::Copy) && self.is_blocking() && matches!(direction(), Direction::DeviceToHost);
        let is_stream_query = self.is(Action::Query) && self.stream().0 != ArgPos::NONE.0;
        if self.is(Action::StreamDestroy) {
            Enter::EndStream
        } else if self.is(Action::StreamSync) || is_copy_back || is_stream_query {
            Enter::AwaitStream
        } else if self.is(Action::EventSync) || self.is(Action::Query) {
            Enter::AwaitEvent
        } else if self.is(Action::DeviceSync) {
            Enter::AwaitDevice
        } else if self.is(Action::EventRecord) {
            Enter::RecordEvent
        } else if self.is(Action::StreamWait) {
            Enter::JoinEvent
        } else if self.is(Action::EventDestroy) {
            Enter::RemoveEvent
        } else if self.is(Action::GraphDestroy) {
            Enter::RemoveGraph
        } else if self.is(Action::GraphChange) {
            Enter::ChangeGraph
        } else {
            Enter::Nothing
        }
    }

    /// Decides what the call does at its return, by the result. A capture that failed to end has ended all the same,
    /// unless another thread began it.
    #[inline(always)]
    pub const fn on_leave(self, result: u32) -> Leave {
        let failed = self.has_failed(result);
        if self.is(Action::CaptureEnd) {
            return match result {
                WRONG_THREAD => Leave::Nothing,
                _ if failed => Leave::AbortCapture,
                _ => Leave::EndCapture,
            };
        }
        if failed {
            Leave::Nothing
        } else if self.is(Action::SetDevice) {
            Leave::SetDevice
        } else if self.is(Action::StreamCreate) {
            Leave::AddStream
        } else if self.is(Action::StreamDestroy) {
            Leave::RemoveStream
        } else if self.is(Action::CaptureBegin) {
            Leave::BeginCapture
        } else if self.is(Action::Instantiate) || self.is(Action::GraphUpdate) {
            Leave::FollowGraph
        } else {
            Leave::Nothing
        }
    }

    /// Returns true if a call with this result ends the steps within its frontier. A stream that could not be destroyed
    /// keeps its open work.
    #[inline(always)]
    pub const fn ends_steps(self, result: u32) -> bool {
        !(self.is(Action::StreamDestroy) && self.has_failed(result))
    }

    /// Returns the bits of [`Header::flags`](crate::record::Header::flags) of the steps that the call ends.
    #[inline(always)]
    pub const fn step_flags(self) -> u32 {
        if self.is(Action::StreamDestroy) {
            flag::UNFINISHED
        } else if self.is(Action::Query) {
            flag::POLLED
        } else {
            0
        }
    }

    /// Returns true for calls that put work on a stream.
    #[inline(always)]
    pub const fn enqueues(self) -> bool {
        ENQUEUEING.contains(self.action())
    }

    /// Returns true where the call makes one stream wait for another, or ends such an order. In a process that uses
    /// collectives each gets a record, since collectives run on streams of their own.
    #[inline(always)]
    pub const fn orders_streams(self) -> bool {
        ORDERING.contains(self.action())
    }

    /// Returns true for calls that get a record each, with any result.
    #[inline(always)]
    pub const fn is_reported(self) -> bool {
        REPORTED.contains(self.action())
    }

    /// Returns true where the row's handle argument points to where the library writes the handle.
    #[inline(always)]
    pub const fn writes_handle(self) -> bool {
        WRITING.contains(self.action())
    }

    /// Returns true where `result` is an error. A query's "not ready" is an answer.
    #[inline(always)]
    pub const fn has_failed(self, result: u32) -> bool {
        result != 0 && !(result == NOT_READY && self.is(Action::Query))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::PROBES;

    fn cookie_of(symbol: &str) -> Cookie {
        PROBES.iter().find(|p| p.symbol == symbol).unwrap().cookie()
    }

    #[test]
    fn sync_calls_wait_for_a_stream_event_or_device() {
        let enter = |symbol, direction| cookie_of(symbol).on_enter(|| direction);
        let (back, there) = (Direction::DeviceToHost, Direction::HostToDevice);
        assert_eq!(enter("cudaMemcpy", back), Enter::AwaitStream);
        assert_eq!([enter("cudaMemcpy", there), enter("cudaMemcpyAsync", back)], [Enter::Nothing; 2]);
        assert_eq!(
            [enter("cudaStreamQuery", back), enter("cudaEventQuery", back)],
            [Enter::AwaitStream, Enter::AwaitEvent]
        );
        assert_eq!(enter("cudaDeviceSynchronize", back), Enter::AwaitDevice);
    }

    #[test]
    fn failed_calls_change_nothing_but_an_ended_capture() {
        for probe in PROBES {
            let failed = probe.cookie().on_leave(1);
            let expected =
                if probe.action == Action::CaptureEnd { Leave::AbortCapture } else { Leave::Nothing };
            assert_eq!(failed, expected, "{}", probe.symbol);
            assert_eq!(probe.cookie().on_leave(WRONG_THREAD), Leave::Nothing, "{}", probe.symbol);
        }
        assert_eq!(cookie_of("cudaStreamEndCapture").on_leave(0), Leave::EndCapture);
    }

    #[test]
    fn not_ready_is_an_error_of_all_calls_but_queries() {
        for probe in PROBES {
            let cookie = probe.cookie();
            assert!(!cookie.has_failed(0) && cookie.has_failed(1), "{}", probe.symbol);
            assert_eq!(cookie.has_failed(NOT_READY), probe.action != Action::Query, "{}", probe.symbol);
        }
    }

    #[test]
    fn calls_that_order_streams_are_events_waits_and_captures() {
        let ordering = PROBES.iter().filter(|p| p.api == crate::Api::Runtime);
        let ordering = ordering.filter(|p| p.cookie().orders_streams()).map(|p| p.symbol);
        let expected = [
            "cudaEventRecord",
            "cudaEventRecordWithFlags",
            "cudaStreamWaitEvent",
            "cudaStreamBeginCapture",
            "cudaEventDestroy",
            "cudaStreamBeginCaptureToGraph",
            "hipEventRecord",
            "hipEventRecordWithFlags",
            "hipStreamWaitEvent",
            "hipStreamBeginCapture",
            "hipEventDestroy",
            "hipStreamBeginCaptureToGraph",
        ];
        assert!(ordering.eq(expected));
    }

    #[test]
    fn written_handles_are_reported_or_change_state() {
        for probe in PROBES.iter().map(|probe| probe.cookie()).filter(|cookie| cookie.writes_handle()) {
            assert!(probe.is_reported() || probe.on_leave(0) != Leave::Nothing);
        }
        assert_eq!(ENQUEUEING.0 & REPORTED.0, 0);
    }
}
