//! The machine's clocks. Everything inside is CLOCK_MONOTONIC, as the kernel programs stamp it.

#![expect(unsafe_code, reason = "the standard library does not give the clocks' own values")]

use event::ClockOffsets;

fn read(clock: libc::clockid_t) -> i128 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is a live timespec; the three clocks asked for exist on every Linux that runs eBPF.
    unsafe { libc::clock_gettime(clock, &raw mut time) };
    i128::from(time.tv_sec) * 1_000_000_000 + i128::from(time.tv_nsec)
}

/// CLOCK_MONOTONIC, ns.
pub fn now_ns() -> u64 {
    read(libc::CLOCK_MONOTONIC) as u64
}

/// How the clocks stand to each other now.
pub fn offsets() -> ClockOffsets {
    let before = read(libc::CLOCK_MONOTONIC);
    let (unix, boottime) = (read(libc::CLOCK_REALTIME), read(libc::CLOCK_BOOTTIME));
    // What was read in between was read halfway, near enough.
    let at = (before + read(libc::CLOCK_MONOTONIC)) / 2;
    ClockOffsets { at_ns: at as u64, to_unix_ns: (unix - at) as i64, to_boottime_ns: (boottime - at) as i64 }
}
