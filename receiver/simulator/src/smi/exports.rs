//! Macros that define exported functions, and helpers of their bodies.

use std::ffi::c_char;

use super::{Codes, Return};

/// Defines exported functions. Their bodies may rely on the requirements of the C prototype.
#[macro_export]
macro_rules! exports {
    ($($symbol:ident($($name:ident: $type:ty),*) $body:block)*) => {$(
        /// See the library's header.
        ///
        /// # Safety
        /// Pointers must be valid for writes, with the lengths given, as the C prototype requires.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $symbol($($name: $type),*) -> $crate::smi::Return {
            let result = (|| -> Result<(), $crate::smi::Return> { $body })();
            result.err().unwrap_or($crate::smi::SUCCESS)
        }
    )*};
}

/// Defines the control functions that tests call.
///
/// | function | meaning |
/// |---|---|
/// | `warptap_stub_smi_script(text)` | replaces the script; returns 0 if it could be parsed |
/// | `warptap_stub_smi_now(ns)` | stops the clock at this time |
/// | `warptap_stub_smi_calls()` | returns the number of queries |
#[macro_export]
macro_rules! controls {
    ($driver:ident) => {
        /// Control function, see the macro.
        ///
        /// # Safety
        /// `text` is a NUL-terminated string.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn warptap_stub_smi_script(text: *const std::ffi::c_char) -> u32 {
            // SAFETY: the caller's promise.
            unsafe { $driver.set_script(text) }
        }

        /// Control function, see the macro.
        #[unsafe(no_mangle)]
        pub extern "C" fn warptap_stub_smi_now(at_ns: u64) {
            $driver.set_now(at_ns);
        }

        /// Control function, see the macro.
        #[unsafe(no_mangle)]
        pub extern "C" fn warptap_stub_smi_calls() -> u64 {
            $driver.calls()
        }
    };
}

/// Writes a value; fails on a null pointer.
///
/// # Safety
/// `into` is null or valid for writes.
pub unsafe fn put<T>(codes: &Codes, into: *mut T, value: T) -> Result<(), Return> {
    if into.is_null() {
        return Err(codes.invalid_argument);
    }
    // SAFETY: the caller's promise.
    unsafe { into.write(value) };
    Ok(())
}

/// Writes a text and its NUL; fails if `length` is too small.
///
/// # Safety
/// `into` is null or valid for writes of `length` bytes.
pub unsafe fn put_text(codes: &Codes, into: *mut c_char, length: usize, text: &str) -> Result<(), Return> {
    let bytes: Vec<c_char> = text.bytes().chain([0]).map(|byte| byte as c_char).collect();
    if into.is_null() || bytes.len() > length {
        return Err(codes.insufficient_size);
    }
    // SAFETY: by the caller's promise, and the length was checked.
    unsafe { into.copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) };
    Ok(())
}
