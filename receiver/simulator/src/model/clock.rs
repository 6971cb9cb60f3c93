//! Reads CLOCK_MONOTONIC, uses CPU for a time, and sleeps.
//!
//! A call's host time is CPU time, not a deadline: a thread that is preempted meanwhile takes longer, as real driver code
//! does, so time in the run queue is visible in the call's duration.

use std::ffi::{c_int, c_long};

const CLOCK_MONOTONIC: c_int = 1;
const TIMER_ABSTIME: c_int = 1;
/// A longer step of the clock means that the thread was preempted.
const OWN_STEP_NS_MAX: u64 = 5_000;

#[repr(C)]
struct Timespec {
    seconds: i64,
    nanoseconds: c_long,
}

unsafe extern "C" {
    fn clock_gettime(clock: c_int, now: *mut Timespec) -> c_int;
    fn clock_nanosleep(clock: c_int, flags: c_int, until: *const Timespec, left: *mut Timespec) -> c_int;
}

/// Returns CLOCK_MONOTONIC, ns.
pub fn now_ns() -> u64 {
    let mut now = Timespec { seconds: 0, nanoseconds: 0 };
    // SAFETY: `now` is a timespec of this platform's layout that outlives the call.
    unsafe { clock_gettime(CLOCK_MONOTONIC, &mut now) };
    now.seconds as u64 * 1_000_000_000 + now.nanoseconds as u64
}

/// Uses `ns` of CPU time; time while preempted does not count.
pub fn burn(ns: u64) {
    let mut before = now_ns();
    let mut left = ns;
    while left > 0 {
        let now = now_ns();
        left = left.saturating_sub((now - before).min(OWN_STEP_NS_MAX));
        before = now;
    }
}

/// Sleeps until `until_ns` of CLOCK_MONOTONIC; returns immediately if it is past.
pub fn sleep_until(until_ns: u64) {
    let until = Timespec {
        seconds: (until_ns / 1_000_000_000) as i64,
        nanoseconds: (until_ns % 1_000_000_000) as c_long,
    };
    while now_ns() < until_ns {
        // SAFETY: `until` is a valid timespec; with TIMER_ABSTIME the remainder may be null.
        unsafe { clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, std::ptr::null_mut()) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sleep_never_ends_early() {
        let until = now_ns() + 200_000;
        sleep_until(until);
        assert!(now_ns() >= until);
    }

    #[test]
    fn burn_takes_at_least_its_time() {
        let before = now_ns();
        burn(100_000);
        assert!(now_ns() - before >= 100_000);
    }
}
