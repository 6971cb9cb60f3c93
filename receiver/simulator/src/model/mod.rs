//! What the stub libraries do when they are called. Compiled into each of them, and into this package's library
//! so that it is linted and tested like any other code.
//!
//! The one idea: every exported function is six instructions that end in one handler, which reads the row it was
//! called through. libcuda and libamdhip64 hold a [`device::Device`]; libcudart holds none and calls libcuda for
//! everything, through libcuda's own exported functions, as the real one does.
//!
//! The modules name each other by `super` only: the tree is mounted under several crates.

#![allow(unsafe_code, reason = "a C library is made of C calls; each block says what must hold")]

pub mod call;
pub mod clock;
pub mod control;
pub mod device;
pub mod driver;
pub mod entry;
pub mod extra;
pub mod forward;
pub mod handler;
pub mod link;
pub mod memory;
pub mod order;
pub mod share;
pub mod thread;
