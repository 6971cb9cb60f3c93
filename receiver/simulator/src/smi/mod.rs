//! What the stub drivers of all vendors share: a script that answers, and the time.
//!
//! The one idea: a driver is, to whoever asks it, a set of answers that change with time. So a script says from when on
//! which device answers what to which question ([`script`]), faults included, and a library's exported functions look
//! it up in its [`driver::Driver`]. Time is the machine's, or whatever a test says that it is: a day passes in a second.

#![allow(unsafe_code, reason = "a C library is made of C calls; each block says what must hold")]

pub mod driver;
pub mod exports;
pub mod script;

use std::ffi::c_int;

/// What a function of the library returns.
pub type Return = c_int;

/// `0` in every library.
pub const SUCCESS: Return = 0;

/// A library's numbers.
#[derive(Debug)]
pub struct Codes {
    /// Errors by the names that scripts have for them.
    pub errors: &'static [(&'static str, Return)],
    /// The word by which a script gives an event rather than an answer.
    pub event: &'static str,
    /// What is answered does not fit.
    pub insufficient_size: Return,
    /// A handle or a pointer that is none.
    pub invalid_argument: Return,
    /// What no line answers.
    pub not_supported: Return,
    /// No event came.
    pub timeout: Return,
    /// Nobody initialised.
    pub uninitialized: Return,
}

impl Codes {
    /// The number of an error by its name in scripts.
    pub fn error(&self, name: &str) -> Option<Return> {
        self.errors.iter().find(|(known, _)| *known == name).map(|(_, number)| *number)
    }
}
