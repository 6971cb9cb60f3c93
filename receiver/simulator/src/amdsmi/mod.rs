//! The stub libamd_smi: the real symbols and ABI, with values from a script ([`crate::smi`]).
//!
//! Written from amdsmi.h of ROCm 7.0, and of the versions 25 and 27 of the library if the script's `driver version` is one
//! of them; independent of the receiver that is tested with it.

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
pub const FILE_NAME: &str = "libamd_smi.so.26";
