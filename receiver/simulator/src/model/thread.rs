//! What a stub keeps per thread: its device, and the last call it decoded.

use std::cell::Cell;

use super::call::Call;

unsafe extern "C" {
    safe fn gettid() -> i32;
}

thread_local! {
    static TID: Cell<u32> = const { Cell::new(0) };
    static DEVICE: Cell<u64> = const { Cell::new(0) };
    static SEEN: Cell<Option<Call>> = const { Cell::new(None) };
}

/// The calling thread's id, asked for once.
pub fn tid() -> u32 {
    if TID.get() == 0 {
        TID.set(gettid() as u32);
    }
    TID.get()
}

/// The calling thread's device.
pub fn device() -> u64 {
    DEVICE.get()
}

/// The calling thread uses `device` from here on.
pub fn set_device(device: u64) {
    DEVICE.set(device);
}

/// The last call that this library decoded on this thread, taken.
pub fn take_seen() -> Option<Call> {
    SEEN.take()
}

/// Remembers the call that this library decoded.
pub fn set_seen(call: Call) {
    SEEN.set(Some(call));
}
