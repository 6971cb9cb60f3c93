//! Interface between the kernel programs and the agent: the probed functions, the packing of a probe row into an
//! attach cookie, the folding of calls into steps, and the records that leave the kernel.
//!
//! The kernel programs know nothing of CUDA. A row of [`PROBES`] has all that they need to know about a function and
//! reaches them as a [`Cookie`] of 64 bits; [`Enter`], [`Leave`] and [`fold`] act on it, in the kernel and, for
//! traces, in user space. Without `std`, clock or pointers; the feature `user` adds reading from bytes.

#![no_std]
#![cfg_attr(target_arch = "bpf", feature(core_intrinsics))]
#![cfg_attr(target_arch = "bpf", expect(internal_features, reason = "see the atomic module"))]

pub mod atomic;
pub mod context;
pub mod cookie;
pub mod counters;
pub mod detail;
pub mod fold;
pub mod frontier;
pub mod function;
pub mod graph;
pub mod histogram;
pub mod hot;
pub mod nccl;
pub mod ordinal;
mod probe;
mod probes;
pub mod record;
mod rules;
pub mod thread_counter;

pub use cookie::Cookie;
pub use probe::{
    Action, Api, ArgPos, ArgsSpec, Bytes, Direction, DirectionSource, Grid, Library, Pointee, PointeeKind,
    Probe, Wiring,
};
pub use probes::{PROBES, attach_points, row};
pub use rules::{Enter, Leave, NON_BLOCKING, NOT_READY, WRONG_THREAD};
