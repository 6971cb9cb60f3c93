//! The stub libamd_smi: the real symbols and ABI, and answers that a script gives ([`crate::smi`]).
//!
//! Written by hand from amdsmi.h of ROCm 7.0 (and of others, where a script says that the library is 25 or 27), apart
//! from the receiver that is to be tested with it. A script's `driver version` is the library's.

#![allow(unsafe_code, reason = "a C library is made of C calls; each block says what must hold")]

pub mod abi;

pub use abi::CODES;

use crate::smi::driver::Driver;

/// The driver behind the functions.
pub static DRIVER: Driver = Driver::new(&CODES);

/// The file name and soname of the library.
pub const FILE_NAME: &str = "libamd_smi.so.26";
