//! The handler of every call: decodes it, spends its host time, makes nested calls and returns a result.
//!
//! The libraries differ only in the last step: libcuda and libamdhip64 act on their device model, libcudart calls the
//! driver.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering::Release};
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};

use probe_abi::{ArgPos, Bytes, Grid, Probe};

use super::call::{DecodedCall, Effect, StubFunction, decode};
use super::device::{DeviceModel, Done, Moment, result};
use super::driver::run_by_driver;
use super::forward::WORDS_MAX;
use super::order::{Order, set_next, take_next};
use super::passed::{PassedWords, PendingCall, call_words};
use super::{clock, gpu_file, share, thread};

/// Handles the calls of a library that contains a device model.
pub(super) extern "C" fn device_handler(index: u32, registers: *const u64, stack: *const u64) -> u64 {
    handle(index, PassedWords { registers, stack }, |call| act(&call.call, &call.order))
}

/// Handles the calls of libcudart.
pub(super) extern "C" fn forward_handler(index: u32, registers: *const u64, stack: *const u64) -> u64 {
    handle(index, PassedWords { registers, stack }, run_by_driver)
}

fn handle(index: u32, words: PassedWords, run: fn(&PendingCall) -> u64) -> u64 {
    let began_ns = clock::now_ns();
    gpu_file::open();
    let Some(function) = StubFunction::at(index as usize) else { return result::INVALID_VALUE };
    let mut order = take_next();
    announce(&order);
    let call = decode(index, &function, &words);
    thread::set_seen(call);
    if order.host_ns != 0 {
        clock::burn(order.host_ns);
    }
    call_nested(&call, &order);
    if order.result != Order::BY_MODEL {
        return order.result;
    }
    if order.block_ns != Order::BY_MODEL {
        let until_ns = began_ns.saturating_add(order.block_ns);
        order.block_ns = until_ns.saturating_sub(clock::now_ns());
    }
    run(&PendingCall { call, function, order, words })
}

/// Raises the counter of the order, after the entry was probed.
fn announce(order: &Order) {
    if order.entered != 0 {
        // SAFETY: by `Order::entered` the address of a counter that outlives the call.
        let counter = unsafe { AtomicU64::from_ptr(order.entered as *mut u64) };
        counter.fetch_max(order.entered_as, Release);
    }
}

/// Calls another exported function of this library from within a call, with the outer call's stream, handle and bytes.
fn call_nested(outer: &DecodedCall, order: &Order) {
    let Some(inner) = probe_abi::row(order.inner_row as u16).filter(|row| can_be_nested(row)) else { return };
    let mut words = [0; WORDS_MAX];
    let bytes = if let Bytes::Arg(slot) = inner.wiring.bytes { ArgPos(slot) } else { ArgPos::NONE };
    let wanted =
        [(inner.wiring.stream, outer.stream), (inner.wiring.handle, outer.handle), (bytes, outer.bytes)];
    for (slot, value) in wanted.into_iter().filter(|(slot, _)| *slot != ArgPos::NONE) {
        words[usize::from(slot.0) - 1] = value;
    }
    set_next(order.for_inner());
    // SAFETY: by `Order::inner` the address of this row's function, and those that can be nested follow no pointer.
    unsafe { call_words(order.inner as usize, &words) };
}

/// Returns true for functions that dereference no argument.
fn can_be_nested(row: &Probe) -> bool {
    let has_struct = matches!(row.wiring.bytes, Bytes::Volume(_) | Bytes::Area(_));
    let by_value = !matches!(row.wiring.grid, Grid::Config) && !has_struct;
    let harmless = matches!(
        Effect::of(row),
        Effect::Launch
            | Effect::GraphLaunch
            | Effect::Copy
            | Effect::Fill
            | Effect::StreamSync
            | Effect::EventSync
            | Effect::DeviceSync
            | Effect::EventRecord
            | Effect::StreamQuery
            | Effect::EventQuery
    );
    by_value && harmless
}

static DEVICE: LazyLock<Mutex<DeviceModel>> = LazyLock::new(Mutex::default);

fn locked<T>(then: impl FnOnce(&mut DeviceModel) -> T) -> T {
    then(&mut DEVICE.lock().unwrap_or_else(PoisonError::into_inner))
}

/// Performs a call on the device model of this library and waits until it may return.
pub(super) fn act(call: &DecodedCall, order: &Order) -> u64 {
    let is_twin = StubFunction::at(call.index as usize).is_some_and(|f| f.is_twin);
    let now_ns = clock::now_ns();
    let sharers = share::sharers(now_ns);
    let at = Moment { now_ns, tid: thread::tid(), device: thread::device(), is_twin, sharers };
    let done = match call.effect {
        Effect::HostAlloc => host_alloc(call.bytes),
        Effect::HostFree => host_free(call.handle),
        _ => locked(|device| device.act(call, order, &at)),
    };
    if call.effect == Effect::SetDevice {
        thread::set_device(call.handle & 0xffff_ffff);
    }
    if let Some(value) = done.written.filter(|_| call.handle != 0) {
        // SAFETY: by the C prototypes of these rows a pointer to which the object is written.
        unsafe { *(call.handle as *mut u64) = value };
    }
    if done.busy_until_ns != 0 {
        share::busy_until(done.busy_until_ns);
    }
    let blocks = order.block_ns != Order::BY_MODEL;
    clock::sleep_until(if blocks { at.now_ns.saturating_add(order.block_ns) } else { done.until_ns });
    done.result
}

/// Sets whether unknown handles are valid.
pub(super) fn set_lenient(lenient: bool) {
    locked(|device| device.set_lenient(lenient));
}

unsafe extern "C" {
    fn malloc(bytes: usize) -> *mut u8;
    fn free(address: *mut u8);
}

/// Host allocations. They are real, since callers write to them; other addresses are not freed.
static HOST: Mutex<BTreeSet<u64>> = Mutex::new(BTreeSet::new());

fn host() -> MutexGuard<'static, BTreeSet<u64>> {
    HOST.lock().unwrap_or_else(PoisonError::into_inner)
}

fn host_alloc(bytes: u64) -> Done {
    // SAFETY: malloc takes any size.
    let address = unsafe { malloc(bytes.max(1) as usize) } as u64;
    if address == 0 {
        return Done { result: result::OUT_OF_MEMORY, ..Done::default() };
    }
    host().insert(address);
    Done { written: Some(address), ..Done::default() }
}

/// Frees a host allocation. Other addresses succeed too, since memory may be unregistered that was never allocated.
fn host_free(address: u64) -> Done {
    if host().remove(&address) {
        // SAFETY: it came from `malloc` in `host_alloc` and was removed from the set, so it is freed once.
        unsafe { free(address as *mut u8) };
    }
    Done::default()
}
