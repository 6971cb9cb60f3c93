//! Calls of the driver by libcudart: of its exported functions, or of its control function `warptap_stub_act`.
//!
//! The calls are made from libcudart's own code with the driver's ABI, so that the detection of suppressed calls is tested
//! as with the real library.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering::Relaxed};

use super::call::DecodedCall;
use super::device::result;
use super::forward::{ROUTES, Route};
use super::link::{Loaded, file_of};
use super::order::Order;
use super::passed::{PendingCall, call_words};

/// The driver's file name.
const DRIVER: &str = "libcuda.so.1";
/// Environment variable that keeps libcudart from calling libcuda's exported functions if it is 0.
const NESTED: &str = "WARPTAP_STUB_NESTED";

/// The loaded driver.
struct Driver {
    library: Loaded,
    /// Addresses of the driver functions of [`ROUTES`] and of their twins, 0 until first used.
    functions: Vec<[AtomicUsize; 2]>,
    next: usize,
    act: usize,
}

static DRIVER_FOUND: OnceLock<Option<Driver>> = OnceLock::new();
/// 0 unknown, 1 off, 2 on.
static CALLS_DRIVER: AtomicU32 = AtomicU32::new(0);

/// Sets whether libcudart calls libcuda's exported functions, as the real one does.
pub(super) fn set_nested(nested: bool) {
    CALLS_DRIVER.store(if nested { 2 } else { 1 }, Relaxed);
}

fn is_nested() -> bool {
    if CALLS_DRIVER.load(Relaxed) == 0 {
        set_nested(std::env::var_os(NESTED).is_none_or(|value| value != "0"));
    }
    CALLS_DRIVER.load(Relaxed) == 2
}

impl Driver {
    /// Finds the driver in the directory of this library, or the one that the process has loaded.
    fn find() -> Option<Driver> {
        let sibling = file_of(run_by_driver as *const () as usize).map(|own| own.with_file_name(DRIVER));
        let library = sibling.and_then(|path| Loaded::open(&path)).or_else(|| Loaded::present(DRIVER))?;
        let (next, act) = (library.find("warptap_stub_next"), library.find("warptap_stub_act"));
        let functions = ROUTES.iter().map(|_| Default::default()).collect();
        (next != 0 && act != 0).then_some(Driver { library, functions, next, act })
    }

    fn address(&self, at: usize, route: &Route, is_twin: bool) -> usize {
        let cached = &self.functions[at][usize::from(is_twin)];
        if cached.load(Relaxed) == 0 {
            let row = probe_abi::PROBES.iter().find(|p| p.symbol == route.driver);
            let twin = row.and_then(|p| p.twin).filter(|_| is_twin);
            cached.store(self.library.find(twin.unwrap_or(route.driver)), Relaxed);
        }
        cached.load(Relaxed)
    }

    fn order(&self, order: &Order) {
        // SAFETY: `warptap_stub_next` takes a pointer to an order and copies it.
        unsafe {
            let next = std::mem::transmute::<usize, unsafe extern "C" fn(*const Order)>(self.next);
            next(order);
        }
    }

    fn act(&self, call: &DecodedCall, order: &Order) -> u64 {
        type Act = unsafe extern "C" fn(*const DecodedCall, *const Order) -> u64;
        // SAFETY: `warptap_stub_act` takes these two and retains neither; the call's own pointers are valid by the
        // promise of libcudart's caller.
        unsafe { std::mem::transmute::<usize, Act>(self.act)(call, order) }
    }
}

/// Returns the driver, searched for once.
fn driver() -> Option<&'static Driver> {
    DRIVER_FOUND.get_or_init(Driver::find).as_ref()
}

/// Performs a runtime call by calling the driver.
pub(super) fn run_by_driver(pending: &PendingCall) -> u64 {
    let Some(driver) = driver() else { return result::INSUFFICIENT_DRIVER };
    let PendingCall { call, function, order, words } = pending;
    let order = order.for_driver();
    let Some((at, route)) = Route::of(function.probe.symbol, call).filter(|_| is_nested()) else {
        return driver.act(call, &order);
    };
    let address = driver.address(at, route, function.is_twin);
    driver.order(&order);
    // SAFETY: the address is that of the route's driver function, whose prototype the words follow; pointers among
    // them are the caller's.
    unsafe { call_words(address, &route.arguments(words)) }
}
