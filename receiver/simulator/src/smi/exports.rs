//! What exported functions are made of.

use std::ffi::c_char;

use super::{Codes, Return};

/// Makes exported functions. Their bodies run with what a C caller promises.
#[macro_export]
macro_rules! exports {
    ($($symbol:ident($($name:ident: $type:ty),*) $body:block)*) => {$(
        /// See the library's header.
        ///
        /// # Safety
        /// As its C prototype demands: what is pointed to can be written, and is as long as it is said to be.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $symbol($($name: $type),*) -> $crate::smi::Return {
            let told = (|| -> Result<(), $crate::smi::Return> { $body })();
            told.err().unwrap_or($crate::smi::SUCCESS)
        }
    )*};
}

/// Makes the functions by which a test drives a stub.
///
/// | function | meaning |
/// |---|---|
/// | `warptap_stub_smi_script(text)` | from here on this script holds; 0 if it can be read |
/// | `warptap_stub_smi_now(ns)` | it is this time, until another is told |
/// | `warptap_stub_smi_calls()` | questions asked so far |
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

/// Writes a value.
///
/// # Safety
/// `into` is null or can be written.
pub unsafe fn put<T>(codes: &Codes, into: *mut T, value: T) -> Result<(), Return> {
    if into.is_null() {
        return Err(codes.invalid_argument);
    }
    // SAFETY: the caller's promise.
    unsafe { into.write(value) };
    Ok(())
}

/// Writes a text and its NUL.
///
/// # Safety
/// `into` is null or can be written for `length` bytes.
pub unsafe fn put_text(codes: &Codes, into: *mut c_char, length: usize, text: &str) -> Result<(), Return> {
    let bytes: Vec<c_char> = text.bytes().chain([0]).map(|byte| byte as c_char).collect();
    if into.is_null() || bytes.len() > length {
        return Err(codes.insufficient_size);
    }
    // SAFETY: checked to be long enough, by the caller's promise.
    unsafe { into.copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) };
    Ok(())
}
