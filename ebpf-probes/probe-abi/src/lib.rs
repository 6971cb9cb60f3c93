//! What the kernel programs and the agent agree on: which functions are probed, how a row is packed into an
//! attach cookie, how calls are folded into steps, and the records that leave the kernel.
//!
//! The one idea: the kernel programs know nothing of CUDA. Everything they must know about a function stands in
//! a row of [`PROBES`], travels to them in 64 bits ([`Cookie`]), and is acted upon by the same pure code
//! ([`fold`]) that replays recordings in user space. `no_std`, no dependency, no clock, no pointer.

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
pub mod graph;
pub mod histogram;
pub mod hot;
pub mod ordinal;
mod probe;
mod probes;
pub mod record;
mod rules;

pub use cookie::Cookie;
pub use probe::{
    Action, Api, ArgPos, ArgsSpec, Bytes, Direction, DirectionSource, Grid, Library, Pointee, PointeeKind,
    Probe, Wiring,
};
pub use probes::{PROBES, attach_points, row};
pub use rules::{Enter, Leave, NON_BLOCKING, NOT_READY, WRONG_THREAD};
