//! Threads that compete for a CPU: nothing but work, on the CPU of the thread that is to wait.
//!
//! The one idea: the competitors and their victim are bound to one CPU, so that the victim waits in its run
//! queue on any machine, however many CPUs it has.

#![allow(unsafe_code, reason = "a thread's CPUs are set by a system call; each block says what must hold")]

use crate::model::clock;

type Cpus = libc::cpu_set_t;

fn empty() -> Cpus {
    // SAFETY: a CPU set is an array of integers; all zeros is the empty set.
    unsafe { std::mem::zeroed() }
}

fn bind(cpus: &Cpus) {
    // SAFETY: the set is of the size given; 0 is the calling thread. A refusal leaves the thread as it was.
    unsafe { libc::sched_setaffinity(0, size_of::<Cpus>(), cpus) };
}

/// A thread bound to one CPU together with its competitors, until it is dropped.
#[derive(Debug)]
pub(super) struct Contention {
    before: Cpus,
    /// When the competitors stop.
    pub(super) until_ns: u64,
}

impl Contention {
    /// Binds the calling thread to the CPU it is on, and has `threads` threads use that CPU for `for_ns`.
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
            // A thread inherits the CPUs of its maker. One that cannot be had does not compete.
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
