//! Threads that compete with a thread for its CPU.
//!
//! The thread and its competitors are bound to one CPU, so that the thread waits in the run queue on any machine.

#![allow(
    unsafe_code,
    reason = "a thread's CPUs are set by a system call; each block states its requirements"
)]

use crate::model::clock;

type Cpus = libc::cpu_set_t;

fn empty() -> Cpus {
    // SAFETY: a CPU set is an array of integers; all zeros is the empty set.
    unsafe { std::mem::zeroed() }
}

fn bind(cpus: &Cpus) {
    // SAFETY: the set is of the size given; 0 is the calling thread. A failure has no effect.
    unsafe { libc::sched_setaffinity(0, size_of::<Cpus>(), cpus) };
}

/// The binding of a thread and its competitors to one CPU; undone on drop.
#[derive(Debug)]
pub(super) struct Contention {
    before: Cpus,
    /// Time at which the competitors stop, CLOCK_MONOTONIC ns.
    pub(super) until_ns: u64,
}

impl Contention {
    /// Binds the calling thread to its current CPU and starts threads that use that CPU for `for_ns`.
    pub(super) fn begin(threads: u64, for_ns: u64) -> Contention {
        let mut before = empty();
        let mut here = empty();
        // SAFETY: the sets are of the size given and outlive the calls; the CPU number is below the set's size
        // on any machine the set can describe, and CPU_SET ignores others.
        unsafe {
            libc::sched_getaffinity(0, size_of::<Cpus>(), &mut before);
            libc::CPU_SET(libc::sched_getcpu().max(0) as usize, &mut here);
        }
        bind(&here);
        let until_ns = clock::now_ns().saturating_add(for_ns);
        for _ in 0..threads {
            // A thread inherits the CPUs of its creator. A thread that cannot be started is ignored.
            let spinner = std::thread::Builder::new().name("spinner".into());
            let _ = spinner.spawn(move || while clock::now_ns() < until_ns {});
        }
        Contention { before, until_ns }
    }
}

impl Drop for Contention {
    fn drop(&mut self) {
        bind(&self.before);
    }
}
