//! The built kernel programs, one object per architecture. `cargo xtask bpf` rebuilds and compares them.

use aya::include_bytes_aligned;

/// The kernel object for the architecture of this agent; empty if there is none.
#[cfg(target_arch = "x86_64")]
pub static OBJECT: &[u8] = include_bytes_aligned!("../../../ebpf-probes/objects/kernel.x86_64.o");
/// The kernel object for the architecture of this agent; empty if there is none.
#[cfg(target_arch = "aarch64")]
pub static OBJECT: &[u8] = include_bytes_aligned!("../../../ebpf-probes/objects/kernel.aarch64.o");
/// The kernel object for the architecture of this agent; empty if there is none.
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
pub static OBJECT: &[u8] = &[];
