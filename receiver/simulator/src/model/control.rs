//! Control functions, which the stub libraries export in addition to those of the real libraries; the player calls them.
//!
//! | function | meaning |
//! |---|---|
//! | `warptap_stub_next(order)` | the calling thread's next call follows this [`Order`] |
//! | `warptap_stub_seen(call)` | writes the [`DecodedCall`] that this library decoded last on this thread; returns 0 if none |
//! | `warptap_stub_lenient(on)` | unknown handles are valid objects |
//! | `warptap_stub_nested(on)` | libcudart calls libcuda's exported functions, as it does by default |
//! | `warptap_stub_share(path)` | processes that name the same file share the device; returns 0 on success |
//! | `warptap_stub_act(call, order)` | the device performs a call, bypassing all probes |

use std::ffi::{CStr, OsStr, c_char};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use super::call::DecodedCall;
use super::order::Order;
use super::{driver, handler, order, share, thread};

/// Orders the calling thread's next call.
///
/// # Safety
/// `next` points to an order.
pub unsafe fn next(next: *const Order) {
    // SAFETY: the caller's promise.
    order::set_next(unsafe { *next });
}

/// Writes the call that this library decoded last on this thread; returns 0 if there is none.
///
/// # Safety
/// `into` is valid for writes.
pub unsafe fn seen(into: *mut DecodedCall) -> u32 {
    let Some(call) = thread::take_seen() else { return 0 };
    // SAFETY: the caller's promise.
    unsafe { *into = call };
    1
}

/// Sets whether unknown handles are valid.
///
/// # Safety
/// No requirements.
pub unsafe fn lenient(on: u32) {
    handler::set_lenient(on != 0);
}

/// Sets whether libcudart calls libcuda's exported functions.
///
/// # Safety
/// No requirements.
pub unsafe fn nested(on: u32) {
    driver::set_nested(on != 0);
}

/// Shares the device with other processes; returns 0 on success.
///
/// # Safety
/// `path` is a NUL-terminated string.
pub unsafe fn share(path: *const c_char) -> u32 {
    // SAFETY: the caller's promise.
    let path = unsafe { CStr::from_ptr(path) };
    u32::from(share::join(Path::new(OsStr::from_bytes(path.to_bytes()))).is_err())
}

/// Performs a call on the device of this library.
///
/// # Safety
/// Both pointers are valid, and so is the call's handle if its effect writes to it.
pub unsafe fn act(call: *const DecodedCall, order: *const Order) -> u64 {
    // SAFETY: the caller's promise.
    unsafe { handler::act(&*call, &*order) }
}

/// Defines the exported control functions of a stub library.
#[macro_export]
macro_rules! stub_controls {
    () => {
        $crate::stub_controls! {
            warptap_stub_next = next(order: *const $crate::model::order::Order) -> ();
            warptap_stub_seen = seen(into: *mut $crate::model::call::DecodedCall) -> u32;
            warptap_stub_lenient = lenient(on: u32) -> ();
            warptap_stub_nested = nested(on: u32) -> ();
            warptap_stub_share = share(path: *const std::ffi::c_char) -> u32;
            warptap_stub_act = act(
                call: *const $crate::model::call::DecodedCall,
                order: *const $crate::model::order::Order
            ) -> u64;
        }
    };
    ($($symbol:ident = $body:ident($($name:ident: $type:ty),*) -> $result:ty;)*) => {$(
        /// See `model::control`.
        ///
        /// # Safety
        /// As there.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $symbol($($name: $type),*) -> $result {
            // SAFETY: the caller's promise.
            unsafe { $crate::model::control::$body($($name),*) }
        }
    )*};
}
