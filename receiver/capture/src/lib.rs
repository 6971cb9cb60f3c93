//! Tracing of GPU processes by kernel programs: loads them, finds the libraries of every process, attaches to them,
//! and decodes what they record to [`event::Event`]s.
//!
//! A library file is probed once, by device and inode; every process that maps it, in any container, is then traced
//! from its first call. This crate alone uses aya, bpf(2) and /proc. It does not interpret events.

mod arming;
mod attach;
mod btf;
mod budget;
mod capture;
mod clock;
pub mod cost;
mod elf;
mod expedite;
mod fragments;
mod functions;
mod inspect;
mod interval;
mod kernel;
mod libraries;
mod mappings;
mod maps;
mod memory;
mod multi;
mod objects;
mod pace;
mod pins;
mod proc;
mod process_strings;
mod processes;
mod publishers;
mod readiness;
mod ring;
mod scan_queue;
pub mod selection;
mod settings;
mod stall;
mod sys;
#[cfg(feature = "testing")]
pub mod testing;
mod thinning;
mod totals;
mod under_way;
mod unfinished;
mod user;

pub use capture::Capture;
pub use clock::{now_ns, offsets};
pub use elf::ElfError;
pub use elf::names_at::{FoundName, NameSource, ORDER as NAME_SOURCES, find_names, find_names_in};
pub use kernel::MapSizes;
pub use memory::return_large_blocks;
pub use pins::expire::{Unpinned, guard, unpin, watch};
pub use proc::process_of;
pub use process_strings::read_strings;
pub use readiness::{Check, Readiness, checks};
pub use settings::{PinSettings, Settings};

/// An error that prevents capture from starting.
#[derive(Debug, thiserror::Error)]
pub enum CaptureError {
    /// There is no kernel object for this architecture.
    #[error("no kernel programs for {0}: expected x86_64 or aarch64")]
    Architecture(&'static str),
    /// The kernel rejected a program, a map or a probe.
    #[error("cannot load {what}: {reason}{}", readiness::hint())]
    Load {
        /// The rejected object.
        what: &'static str,
        /// The error of the kernel, with its causes.
        reason: String,
    },
}
