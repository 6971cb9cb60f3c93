//! The clocks of the machine. Events carry CLOCK_MONOTONIC, which the kernel programs read.

#![expect(unsafe_code, reason = "the standard library does not return the raw values of clocks")]

use event::ClockOffsets;

fn read(clock: libc::clockid_t) -> i128 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is a live timespec; the three clocks exist on every Linux that runs eBPF.
    unsafe { libc::clock_gettime(clock, &raw mut time) };
    i128::from(time.tv_sec) * 1_000_000_000 + i128::from(time.tv_nsec)
}

/// Returns CLOCK_MONOTONIC, ns.
pub fn now_ns() -> u64 {
    read(libc::CLOCK_MONOTONIC) as u64
}

/// Returns the current offsets between the clocks.
pub fn offsets() -> ClockOffsets {
    let before = read(libc::CLOCK_MONOTONIC);
    let (unix, boottime) = (read(libc::CLOCK_REALTIME), read(libc::CLOCK_BOOTTIME));
    // The two clocks in between are taken to be read at the midpoint.
    let at = (before + read(libc::CLOCK_MONOTONIC)) / 2;
    ClockOffsets { at_ns: at as u64, to_unix_ns: (unix - at) as i64, to_boottime_ns: (boottime - at) as i64 }
}
