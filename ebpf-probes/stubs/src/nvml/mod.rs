//! The stub libnvidia-ml: the real symbols and ABI, and answers that a script gives.
//!
//! The one idea: a driver is, to whoever asks it, a set of answers that change with time. So a script says from when on
//! which device answers what to which question ([`script`]), faults included, and the exported functions
//! ([`functions`]) look it up. Time is the machine's, or whatever a test says that it is: a day passes in a second.
//!
//! Written by hand from nvml.h, without the crate that is to be tested with it.

#![allow(unsafe_code, reason = "a C library is made of C calls; each block says what must hold")]

pub mod abi;
pub mod driver;
pub mod script;

/// The file name and soname of the library.
pub const FILE_NAME: &str = "libnvidia-ml.so.1";
/// The variable that names the file with the script.
pub const SCRIPT: &str = "WARPTAP_STUB_NVML";
