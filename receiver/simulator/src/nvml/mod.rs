//! The stub libnvidia-ml: the real symbols and ABI ([`functions`]), and answers that a script gives ([`crate::smi`]).
//!
//! Written by hand from nvml.h, without the crate that is to be tested with it.

#![allow(unsafe_code, reason = "a C library is made of C calls; each block says what must hold")]

pub mod abi;

pub use abi::CODES;

use crate::smi::driver::Driver;

/// The driver behind the functions.
pub static DRIVER: Driver = Driver::new(&CODES);

/// The file name and soname of the library.
pub const FILE_NAME: &str = "libnvidia-ml.so.1";
