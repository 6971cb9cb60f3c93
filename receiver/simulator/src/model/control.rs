//! The stubs' own exported functions, by which the player says what is to happen. No real library has them.
//!
//! | function | meaning |
//! |---|---|
//! | `warptap_stub_next(order)` | the calling thread's next call follows this [`Order`] |
//! | `warptap_stub_seen(call)` | gives the [`Call`] this library last decoded on this thread; 0 if none |
//! | `warptap_stub_lenient(on)` | unknown handles are objects made elsewhere |
//! | `warptap_stub_nested(on)` | libcudart calls libcuda's exported functions (as it does unless told not to) |
//! | `warptap_stub_share(path)` | the device is shared with every process that names this file; 0 if it can be |
//! | `warptap_stub_act(call, order)` | the device does this, past every probe |

use std::ffi::{CStr, OsStr, c_char};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use super::call::Call;
use super::order::Order;
use super::{driver, handler, order, share, thread};

/// Body of `warptap_stub_next`.
///
/// # Safety
/// `next` points to an order.
pub unsafe fn next(next: *const Order) {
    // SAFETY: the caller's promise.
    order::set_next(unsafe { *next });
}

/// Body of `warptap_stub_seen`.
///
/// # Safety
/// `into` points to where a call may be written.
pub unsafe fn seen(into: *mut Call) -> u32 {
    let Some(call) = thread::take_seen() else { return 0 };
    // SAFETY: the caller's promise.
    unsafe { *into = call };
    1
}

/// Body of `warptap_stub_lenient`.
pub fn lenient(on: u32) {
    handler::set_lenient(on != 0);
}

/// Body of `warptap_stub_nested`.
pub fn nested(on: u32) {
    driver::set_nested(on != 0);
}

/// Body of `warptap_stub_share`.
///
/// # Safety
/// `path` is a NUL-terminated string.
pub unsafe fn share_with(path: *const c_char) -> u32 {
    // SAFETY: the caller's promise.
    let path = unsafe { CStr::from_ptr(path) };
    u32::from(share::join(Path::new(OsStr::from_bytes(path.to_bytes()))).is_err())
}

/// Body of `warptap_stub_act`.
///
/// # Safety
/// Both point to what they say, and the call's handle, where its effect writes, to where it may be written.
pub unsafe fn act(call: *const Call, order: *const Order) -> u64 {
    // SAFETY: the caller's promise.
    unsafe { handler::act(&*call, &*order) }
}

/// Defines the exported control functions of a stub library.
#[macro_export]
macro_rules! stub_controls {
    () => {
        /// See `model::control`.
        ///
        /// # Safety
        /// As there.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn warptap_stub_next(order: *const $crate::model::order::Order) {
            // SAFETY: the caller's promise.
            unsafe { $crate::model::control::next(order) }
        }
        /// See `model::control`.
        ///
        /// # Safety
        /// As there.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn warptap_stub_seen(into: *mut $crate::model::call::Call) -> u32 {
            // SAFETY: the caller's promise.
            unsafe { $crate::model::control::seen(into) }
        }
        /// See `model::control`.
        #[unsafe(no_mangle)]
        pub extern "C" fn warptap_stub_lenient(on: u32) {
            $crate::model::control::lenient(on)
        }
        /// See `model::control`.
        #[unsafe(no_mangle)]
        pub extern "C" fn warptap_stub_nested(on: u32) {
            $crate::model::control::nested(on)
        }
        /// See `model::control`.
        ///
        /// # Safety
        /// As there.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn warptap_stub_share(path: *const std::ffi::c_char) -> u32 {
            // SAFETY: the caller's promise.
            unsafe { $crate::model::control::share_with(path) }
        }
        /// See `model::control`.
        ///
        /// # Safety
        /// As there.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn warptap_stub_act(
            call: *const $crate::model::call::Call,
            order: *const $crate::model::order::Order,
        ) -> u64 {
            // SAFETY: the caller's promise.
            unsafe { $crate::model::control::act(call, order) }
        }
    };
}
