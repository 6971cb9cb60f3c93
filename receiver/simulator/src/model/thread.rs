//! Thread-local state: the thread's id and device, and the last call decoded.

use std::cell::Cell;

use super::call::DecodedCall;

unsafe extern "C" {
    safe fn gettid() -> i32;
}

thread_local! {
    static TID: Cell<u32> = const { Cell::new(0) };
    static DEVICE: Cell<u64> = const { Cell::new(0) };
    static SEEN: Cell<Option<DecodedCall>> = const { Cell::new(None) };
}

/// Returns the id of the calling thread, cached.
pub fn tid() -> u32 {
    if TID.get() == 0 {
        TID.set(gettid() as u32);
    }
    TID.get()
}

/// Returns the device of the calling thread.
pub fn device() -> u64 {
    DEVICE.get()
}

/// Sets the device of the calling thread.
pub fn set_device(device: u64) {
    DEVICE.set(device);
}

/// Takes the call that this library decoded last on this thread.
pub fn take_seen() -> Option<DecodedCall> {
    SEEN.take()
}

/// Stores the call that this library decoded.
pub fn set_seen(call: DecodedCall) {
    SEEN.set(Some(call));
}
