//! What follows from a row's action alone: does a call enqueue work, is it worth a record, did it fail.
//!
//! The kernel programs hold an action as the number in a cookie, user space as an [`Action`]: both ask here.

use crate::Cookie;
use crate::probe::Action;

/// `cudaErrorNotReady`, `CUDA_ERROR_NOT_READY` and `hipErrorNotReady`: the answer "no" of a query.
pub const NOT_READY: u32 = 600;

/// `cudaErrorStreamCaptureWrongThread`, `CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD` and `hipErrorStreamCaptureWrongThread`:
/// the capture goes on.
pub const WRONG_THREAD: u32 = 908;

/// `cudaStreamNonBlocking`, `CU_STREAM_NON_BLOCKING` and `hipStreamNonBlocking`: the stream does not wait for the legacy
/// default stream, nor that for it.
pub const NON_BLOCKING: u64 = 1;

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
    Action::Instantiate,
    Action::GraphUpdate,
    Action::GraphDestroy,
]);
const WRITING: Set =
    Set::of(&[Action::Alloc, Action::Create, Action::CaptureEnd, Action::StreamCreate, Action::Instantiate]);

const CHANGING: Set = Set::of(&[
    Action::StreamCreate,
    Action::StreamDestroy,
    Action::CaptureBegin,
    Action::CaptureEnd,
    Action::SetDevice,
    Action::Instantiate,
    Action::GraphUpdate,
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
    const fn holds(self, action: u8) -> bool {
        self.0 >> (action & 31) & 1 == 1
    }
}

impl Action {
    /// True for calls that put work on a stream.
    pub const fn enqueues(self) -> bool {
        ENQUEUEING.holds(self as u8)
    }

    /// True for calls that are worth a record each, whatever they return.
    pub const fn is_reported(self) -> bool {
        REPORTED.holds(self as u8)
    }

    /// True where `result` is an error. A query's "not ready" is an answer.
    pub const fn has_failed(self, result: u32) -> bool {
        result != 0 && !(result == NOT_READY && self as u8 == Action::Query as u8)
    }
}

impl Cookie {
    /// [`Action::enqueues`] of the row.
    #[inline(always)]
    pub const fn enqueues(self) -> bool {
        ENQUEUEING.holds(self.action())
    }

    /// True where the return of a call changes what later calls mean.
    #[inline(always)]
    pub const fn changes_state(self) -> bool {
        CHANGING.holds(self.action())
    }

    /// True where the call makes one stream wait for another, or ends what did: worth a record each in a process
    /// whose collectives are told, since they run on streams of their own.
    #[inline(always)]
    pub const fn orders_streams(self) -> bool {
        ORDERING.holds(self.action())
    }

    /// [`Action::is_reported`] of the row.
    #[inline(always)]
    pub const fn is_reported(self) -> bool {
        REPORTED.holds(self.action())
    }

    /// True where the row's handle points to where the library writes the object.
    #[inline(always)]
    pub const fn writes_handle(self) -> bool {
        WRITING.holds(self.action())
    }

    /// [`Action::has_failed`] of the row.
    #[inline(always)]
    pub const fn has_failed(self, result: u32) -> bool {
        result != 0 && !(result == NOT_READY && self.is(Action::Query))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::PROBES;

    #[test]
    fn a_cookie_and_its_rows_action_answer_alike() {
        for probe in PROBES {
            let (cookie, action) = (Cookie::pack(probe, false, true), probe.action);
            let of_cookie = (cookie.enqueues(), cookie.is_reported());
            assert_eq!(of_cookie, (action.enqueues(), action.is_reported()), "{}", probe.symbol);
            for result in [0, 1, NOT_READY] {
                assert_eq!(cookie.has_failed(result), action.has_failed(result), "{} {result}", probe.symbol);
            }
        }
    }

    #[test]
    fn what_orders_streams_is_told_by_its_row() {
        let ordering = PROBES.iter().filter(|p| p.api == crate::Api::Runtime);
        let ordering = ordering.filter(|p| Cookie::pack(p, false, true).orders_streams()).map(|p| p.symbol);
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
    fn what_writes_its_handle_is_reported_or_changes_what_calls_mean() {
        assert_eq!(WRITING.0 & !REPORTED.0 & !CHANGING.0, 0);
        assert_eq!(ENQUEUEING.0 & REPORTED.0, 0);
    }
}
