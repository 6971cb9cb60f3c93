//! Stub drivers of all vendors: fields whose values a script describes.
//!
//! A [`script`] gives the value of each device's fields over time, errors included; a library's exported functions query
//! them from its [`driver::ScriptedDriver`]. A test may stop the clock, so a day of events takes no time.

#![allow(
    unsafe_code,
    reason = "the functions of a C library take pointers; each block states its requirements"
)]

pub mod driver;
pub mod exports;
pub mod script;

use std::ffi::c_int;

/// The status that a function of the library returns.
pub type Return = c_int;

/// The status of success, 0 in every library.
pub const SUCCESS: Return = 0;

/// The numbers of a library.
#[derive(Debug)]
pub struct Codes {
    /// Statuses by their names in scripts.
    pub errors: &'static [(&'static str, Return)],
    /// Field name that marks a line as an event.
    pub event: &'static str,
    /// Status of a buffer that is too small.
    pub insufficient_size: Return,
    /// Status of an invalid handle or pointer.
    pub invalid_argument: Return,
    /// Status of a field without a line in the script.
    pub not_supported: Return,
    /// Status of a wait without an event.
    pub timeout: Return,
    /// Status of a call before initialisation.
    pub uninitialized: Return,
}

impl Codes {
    /// Returns the status of a name in scripts.
    pub fn error(&self, name: &str) -> Option<Return> {
        self.errors.iter().find(|(known, _)| *known == name).map(|(_, number)| *number)
    }
}
