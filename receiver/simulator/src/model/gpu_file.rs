//! The file of the simulated GPU. A process that uses a real GPU has a device file open from its first call on, by which
//! the agent sees whether a process has made calls; the stub libraries have this file in its place.

use std::ffi::{c_char, c_int, c_uint};
use std::sync::Once;

const MFD_CLOEXEC: c_uint = 1;

unsafe extern "C" {
    fn memfd_create(name: *const c_char, flags: c_uint) -> c_int;
}

/// Opens the file at the first call of this library. It stays open.
pub(super) fn open() {
    static OPENED: Once = Once::new();
    OPENED.call_once(|| {
        // SAFETY: the name is a NUL-terminated string that outlives the call.
        let _ = unsafe { memfd_create(c"warptap-stub-gpu".as_ptr(), MFD_CLOEXEC) };
    });
}
