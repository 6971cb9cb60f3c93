//! What every call does, whatever its library: decode, spend its time, call inside, come to a result.
//!
//! The one idea: the libraries differ in the last step alone. One asks the device it holds, libcudart calls the
//! driver function that serves it, or, where there is none or it is told not to, the driver's back door.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering::Release};
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};

use probe_abi::{ArgPos, Bytes, Grid, Probe};

use super::call::{Call, Effect, Function, Words, decode};
use super::device::{Device, Done, Moment, result};
use super::driver::run_by_driver;
use super::forward::WORDS_MAX;
use super::order::{Order, set_next, take_next};
use super::{clock, share, thread};

/// Argument registers.
const REGISTERS: usize = if cfg!(target_arch = "x86_64") { 6 } else { 8 };

/// The argument words of the call that a stub passed on.
pub(super) struct Passed {
    registers: *const u64,
    stack: *const u64,
}

impl Words for Passed {
    fn word(&self, n: u8) -> u64 {
        let at = usize::from(n) - 1;
        // SAFETY: the common part saved every argument register, and the caller's frame continues above the
        // return address for at least as many words as the C prototype has arguments; rows name no others.
        unsafe {
            match at < REGISTERS {
                true => *self.registers.add(at),
                false => *self.stack.add(at - REGISTERS),
            }
        }
    }

    fn half_behind_first(&self, offset: u16) -> u32 {
        let address = self.word(1) + u64::from(offset);
        // SAFETY: asked for only where the row says that the first argument points to a struct of this size,
        // which the C prototype requires of the caller.
        unsafe { *(address as *const u32) }
    }
}

/// The end of every stub whose library holds the device.
pub(super) extern "C" fn device_handler(index: u32, registers: *const u64, stack: *const u64) -> u64 {
    handle(index, Passed { registers, stack }, |under_way| act(&under_way.call, &under_way.order))
}

/// The end of every stub of libcudart.
pub(super) extern "C" fn forward_handler(index: u32, registers: *const u64, stack: *const u64) -> u64 {
    handle(index, Passed { registers, stack }, run_by_driver)
}

/// A call between its decoding and its result.
pub(super) struct UnderWay {
    pub(super) call: Call,
    pub(super) function: Function,
    /// What is left of the order: its host time is spent, its wait is counted from now.
    pub(super) order: Order,
    pub(super) words: Passed,
}

fn handle(index: u32, words: Passed, run: fn(&UnderWay) -> u64) -> u64 {
    let began_ns = clock::now_ns();
    let Some(function) = Function::at(index as usize) else { return result::INVALID_VALUE };
    let mut order = take_next();
    announce(&order);
    let call = decode(index, &function, &words);
    thread::set_seen(call);
    if order.host_ns != 0 {
        clock::burn(order.host_ns);
    }
    call_inside(&call, &order);
    if order.result != Order::BY_MODEL {
        return order.result;
    }
    if order.block_ns != Order::BY_MODEL {
        let until_ns = began_ns.saturating_add(order.block_ns);
        order.block_ns = until_ns.saturating_sub(clock::now_ns());
    }
    run(&UnderWay { call, function, order, words })
}

/// Tells whoever ordered it that the call is under way.
fn announce(order: &Order) {
    if order.entered != 0 {
        // SAFETY: by `Order::entered` it is the address of a counter that lives at least as long as the call.
        let counter = unsafe { AtomicU64::from_ptr(order.entered as *mut u64) };
        counter.fetch_max(order.entered_as, Release);
    }
}

/// A nested call: another exported function of this library, called from within this one. It is given the outer
/// call's stream, handle and bytes where its row wants them, and nothing else.
fn call_inside(outer: &Call, order: &Order) {
    let Some(inner) = probe_abi::row(order.inner_row as u16).filter(|row| can_be_inner(row)) else { return };
    let mut words = [0; WORDS_MAX];
    let bytes = if let Bytes::Arg(slot) = inner.wiring.bytes { ArgPos(slot) } else { ArgPos::NONE };
    let wanted =
        [(inner.wiring.stream, outer.stream), (inner.wiring.handle, outer.handle), (bytes, outer.bytes)];
    for (slot, value) in wanted.into_iter().filter(|(slot, _)| *slot != ArgPos::NONE) {
        words[usize::from(slot.0) - 1] = value;
    }
    set_next(order.for_inner());
    // SAFETY: whoever ordered it gave the address of this row's function, as `Order::inner` demands, and the
    // functions let through take words and follow no pointer.
    unsafe { call_words(order.inner as usize, &words) };
}

/// True for functions that follow no pointer, neither to read nor to write.
fn can_be_inner(row: &Probe) -> bool {
    let by_value = !matches!(row.wiring.grid, Grid::Config) && !matches!(row.wiring.bytes, Bytes::Volume(_));
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

/// Calls a C function with words.
///
/// # Safety
/// `address` is that of a function that takes at most these words and follows them, where it does, safely.
pub(super) unsafe fn call_words(address: usize, w: &[u64; WORDS_MAX]) -> u64 {
    type Function = unsafe extern "C" fn(u64, u64, u64, u64, u64, u64, u64, u64, u64, u64, u64) -> u64;
    if address == 0 {
        return result::SUCCESS;
    }
    // SAFETY: the caller vouches for the address and its prototype; integer words beyond those a C function
    // takes are ignored by it.
    unsafe {
        let function = std::mem::transmute::<usize, Function>(address);
        function(w[0], w[1], w[2], w[3], w[4], w[5], w[6], w[7], w[8], w[9], w[10])
    }
}

static DEVICE: LazyLock<Mutex<Device>> = LazyLock::new(Mutex::default);

fn locked<T>(then: impl FnOnce(&mut Device) -> T) -> T {
    then(&mut DEVICE.lock().unwrap_or_else(PoisonError::into_inner))
}

/// Has the device of this library do what `call` asks for, and waits as long as it says.
pub(super) fn act(call: &Call, order: &Order) -> u64 {
    let is_twin = Function::at(call.index as usize).is_some_and(|f| f.is_twin);
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
        // SAFETY: these rows' handle is, by the C prototype, a pointer to where the caller wants the object.
        unsafe { *(call.handle as *mut u64) = value };
    }
    if done.busy_until_ns != 0 {
        share::busy_until(done.busy_until_ns);
    }
    let blocks = order.block_ns != Order::BY_MODEL;
    clock::sleep_until(if blocks { at.now_ns.saturating_add(order.block_ns) } else { done.until_ns });
    done.result
}

/// From here on this library's device takes unknown handles for objects made elsewhere.
pub(super) fn set_lenient(lenient: bool) {
    locked(|device| device.set_lenient(lenient));
}

unsafe extern "C" {
    fn malloc(bytes: usize) -> *mut u8;
    fn free(address: *mut u8);
}

/// Host memory is real, since a caller writes to it; what is not in here was not given out and is not freed.
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

fn host_free(address: u64) -> Done {
    let known = host().remove(&address);
    if known {
        // SAFETY: it came from `malloc` in `host_alloc` and is out of the set, so nobody frees it again.
        unsafe { free(address as *mut u8) };
    }
    let accepted = known || address == 0 || locked(|device| device.is_lenient());
    Done { result: if accepted { result::SUCCESS } else { result::INVALID_VALUE }, ..Done::default() }
}
