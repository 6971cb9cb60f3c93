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

/// Returns the CPU time that all threads of a process have used, ns; `None` if it has ended.
pub fn process_cpu_ns(pid: u32) -> Option<u64> {
    // The clock of a process, as clock_getcpuclockid(3) returns it (CPUCLOCK_SCHED in linux/posix-timers.h).
    let clock = (!(pid as libc::clockid_t) << 3) | 2;
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is a live timespec; the kernel refuses the clock of a process that does not exist.
    let refused = unsafe { libc::clock_gettime(clock, &raw mut time) } != 0;
    (!refused).then_some(time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64)
}

/// Returns the current offsets between the clocks.
pub fn offsets() -> ClockOffsets {
    let before = read(libc::CLOCK_MONOTONIC);
    let (unix, boottime) = (read(libc::CLOCK_REALTIME), read(libc::CLOCK_BOOTTIME));
    // The two clocks in between are taken to be read at the midpoint.
    let at = (before + read(libc::CLOCK_MONOTONIC)) / 2;
    ClockOffsets { at_ns: at as u64, to_unix_ns: (unix - at) as i64, to_boottime_ns: (boottime - at) as i64 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpu_time_of_this_process_advances() {
        let pid = std::process::id();
        let before = process_cpu_ns(pid).unwrap();
        assert!(process_cpu_ns(pid).unwrap() > before);
        // No pid is as large (PID_MAX_LIMIT is 2^22).
        assert_eq!(process_cpu_ns(1 << 23), None);
    }
}
