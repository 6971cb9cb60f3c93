//! Stacks of calls under way, one a thread.
//!
//! Frames are matched by the stack pointer at the function's entry. The user stack grows down, so a caller's frame has a
//! higher one; a frame at or below that of a later call was left without a return, as by an exception.

use probe_abi::Cookie;
use probe_abi::counters::DropReason;
use probe_abi::record::{ArgsFrame, FRAMES, Frame};

use crate::maps::count_drop;

/// A frame: cookie and stack pointer at entry identify its call.
pub trait StackFrame {
    /// Returns the cookie and the stack pointer.
    fn id(&self) -> (u64, u64);
}

impl StackFrame for Frame {
    #[inline(always)]
    fn id(&self) -> (u64, u64) {
        (self.cookie, self.sp)
    }
}

impl StackFrame for ArgsFrame {
    #[inline(always)]
    fn id(&self) -> (u64, u64) {
        (self.cookie, self.sp)
    }
}

/// Returns the innermost frame; `None` where no call is under way.
#[inline(always)]
pub fn top<F>(depth: u64, frames: &[F; FRAMES]) -> Option<&F> {
    match depth == 0 || depth > FRAMES as u64 {
        true => None,
        false => Some(&frames[(depth as usize - 1) & (FRAMES - 1)]),
    }
}

/// Removes the frames that a call entered at `sp` shows to have been left, and counts them as abandoned.
#[inline(always)]
pub fn unwind<F: StackFrame>(depth: &mut u64, frames: &[F; FRAMES], sp: u64) {
    for _ in 0..FRAMES {
        match top(*depth, frames) {
            Some(frame) if frame.id().1 <= sp => *depth -= 1,
            _ => return,
        }
        let _ = count_drop(DropReason::Abandoned);
    }
}

/// Removes the frame of the returning call, and those left above it. Returns its index; the frame stays intact until the
/// thread's next call. `None` where the call has no frame.
#[inline(always)]
pub fn pop<F: StackFrame>(depth: &mut u64, frames: &[F; FRAMES], cookie: Cookie, sp: u64) -> Option<usize> {
    for _ in 0..FRAMES {
        let (top_cookie, top_sp) = top(*depth, frames)?.id();
        if top_sp > sp {
            return None;
        }
        *depth -= 1;
        if top_sp == sp && top_cookie == cookie.0 {
            return Some(*depth as usize & (FRAMES - 1));
        }
        let _ = count_drop(DropReason::Abandoned);
    }
    None
}
