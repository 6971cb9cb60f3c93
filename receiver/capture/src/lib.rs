//! Watching GPU processes from the kernel: loading the programs, finding the libraries of every process, attaching
//! to them, and turning what comes back into [`event::Event`]s.
//!
//! The one idea: a library file is probed once, by device and inode, and every process that maps it is covered from
//! its first call, in whatever container. This crate alone knows aya, bpf(2) and /proc; it alone holds `unsafe` on
//! the user's side. It judges nothing: what the events mean is for others.

mod attach;
mod btf;
mod capture;
mod clock;
pub mod cost;
mod elf;
mod every;
mod kernel;
mod libraries;
mod maps;
mod multi;
mod objects;
mod proc;
mod processes;
mod publishers;
mod readiness;
mod settings;
mod sys;
mod totals;
mod under_way;
mod unfinished;

pub use capture::Capture;
pub use clock::{now_ns, offsets};
pub use kernel::MapSizes;
pub use readiness::{Check, Verdict, readiness};
pub use settings::Settings;

/// Why capture cannot begin.
#[derive(Debug, thiserror::Error)]
pub enum CaptureError {
    /// No object was built for this architecture.
    #[error("no kernel programs for {0}: expected x86_64 or aarch64")]
    Architecture(&'static str),
    /// The kernel refused something.
    #[error("cannot load {what}: {reason}{}", readiness::hint())]
    Load {
        /// What.
        what: &'static str,
        /// The kernel's word.
        reason: String,
    },
}
