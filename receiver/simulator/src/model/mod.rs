//! The behaviour of the stub libraries: compiled into each of them, and into this crate so that it is linted and tested.
//!
//! Every exported function is six instructions that jump to one handler, which decodes the arguments by the function's
//! probe row. libcuda and libamdhip64 contain a [`device::DeviceModel`]; libcudart calls libcuda's exported functions, as
//! the real one does.
//!
//! The modules refer to each other by `super` only, because the tree is mounted in several crates.

#![allow(
    unsafe_code,
    reason = "the functions of a C library take pointers; each block states its requirements"
)]

pub mod call;
pub mod clock;
pub mod control;
pub mod device;
pub mod driver;
pub mod entry;
pub mod extra;
pub mod forward;
mod gpu_file;
pub mod handler;
pub mod link;
pub mod memory;
pub mod order;
pub mod passed;
pub mod share;
pub mod thread;
