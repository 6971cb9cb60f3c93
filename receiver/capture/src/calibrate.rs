//! What one probe hit costs the traced thread, measured on this machine at start: a function of our own is called
//! with and without a probe that folds a launch. The difference is mostly the trap itself.

#![expect(unsafe_code, reason = "the probed function must begin as a C function does")]

use std::arch::naked_asm;
use std::path::Path;
use std::time::Instant;

use table::{Cookie, PROBES};

use crate::attach::{Attach, Point};
use crate::kernel::Kernel;
use crate::maps;
use crate::proc;

const CALLS: u32 = 2_000;

/// Begins like every function of libcudart: `push %rbp` is the instruction under the probe.
///
/// # Safety
/// It touches nothing but its own stack frame: any thread may call it.
#[cfg(target_arch = "x86_64")]
#[unsafe(naked)]
unsafe extern "C" fn site() {
    naked_asm!("push rbp", "mov rbp, rsp", "pop rbp", "ret")
}

/// See above.
///
/// # Safety
/// As above.
#[cfg(not(target_arch = "x86_64"))]
#[unsafe(naked)]
unsafe extern "C" fn site() {
    naked_asm!("stp x29, x30, [sp, #-16]!", "ldp x29, x30, [sp], #16", "ret")
}

fn ns_per_call() -> f64 {
    let began = Instant::now();
    for _ in 0..CALLS {
        // SAFETY: see `site`.
        unsafe { site() };
    }
    began.elapsed().as_nanos() as f64 / f64::from(CALLS)
}

/// Nanoseconds that a folded launch costs; 0 where it could not be measured. Leaves no trace in the maps.
pub fn hit_cost_ns(kernel: &mut Kernel, attach: &dyn Attach) -> u64 {
    let pid = std::process::id();
    let Some(offset) = file_offset() else { return 0 };
    let Some(launch) = PROBES.iter().find(|p| !p.is_timed()) else { return 0 };
    let _ = kernel.filter.insert(pid, 1, 0);
    let point = Point { offset, cookie: Cookie::pack(launch, false, false) };
    let cost = match attach.attach(kernel, Path::new("/proc/self/exe"), &[point]) {
        Ok(_probes) => {
            let mut with: Vec<f64> = (0..5).map(|_| ns_per_call()).collect();
            with.sort_by(f64::total_cmp);
            with[2]
        }
        Err(_) => 0.0,
    };
    // From here on this process is not traced, whatever it maps.
    let _ = kernel.filter.insert(pid, 0, 0);
    let _ = kernel.processes.remove(&pid);
    let _ = kernel.streams.remove(&[pid, 0, 0, 0]);
    (cost - ns_per_call()).max(0.0) as u64
}

fn file_offset() -> Option<u64> {
    let address = site as *const () as u64;
    let text = proc::read_text("/proc/self/maps").ok()?;
    let mapping = maps::parse(&text).into_iter().find(|m| (m.start..m.end).contains(&address))?;
    Some(address - mapping.start + mapping.offset)
}
