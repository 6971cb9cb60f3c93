//! The stub libnvidia-ml: the real symbols and ABI, with values from a script ([`crate::smi`]).
//!
//! Written from nvml.h, independent of the crate that is tested with it.

#![allow(
    unsafe_code,
    reason = "the functions of a C library take pointers; each block states its requirements"
)]

pub mod abi;

pub use abi::CODES;

use crate::smi::driver::ScriptedDriver;

/// The driver that the functions query.
pub static DRIVER: ScriptedDriver = ScriptedDriver::new(&CODES);

/// File name and soname of the library.
pub const FILE_NAME: &str = "libnvidia-ml.so.1";
