//! The driver as libcudart sees it: found beside itself, called by its exported functions or by its back door.
//!
//! The one idea: the calls are made from libcudart's own text, with the driver's real ABI, so that whatever tells
//! a runtime's driver call from a program's own has the real thing to tell.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering::Relaxed};

use super::call::Call;
use super::device::result;
use super::forward::{ROUTES, Route};
use super::handler::{UnderWay, call_words, forward_handler};
use super::link::{Loaded, file_of};
use super::order::Order;

/// The driver's file name.
const DRIVER: &str = "libcuda.so.1";
/// Set to 0 in the environment, libcudart does not call libcuda's probed functions.
const NESTED: &str = "WARPTAP_STUB_NESTED";

/// The driver as libcudart sees it.
struct Driver {
    library: Loaded,
    /// Addresses of [`ROUTES`]' driver functions and of their twins, 0 until asked for.
    functions: Vec<[AtomicUsize; 2]>,
    next: usize,
    act: usize,
}

static DRIVER_FOUND: OnceLock<Option<Driver>> = OnceLock::new();
/// 0 not known, 1 off, 2 on.
static CALLS_DRIVER: AtomicU32 = AtomicU32::new(0);

/// Whether libcudart calls libcuda's probed functions, as the real one does, or its back door.
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
    /// The driver beside this library, else the one the process has.
    fn find() -> Option<Driver> {
        let beside = file_of(forward_handler as *const () as usize).map(|own| own.with_file_name(DRIVER));
        let library = beside.and_then(|path| Loaded::open(&path)).or_else(|| Loaded::present(DRIVER))?;
        let (next, act) = (library.find("warptap_stub_next"), library.find("warptap_stub_act"));
        let functions = ROUTES.iter().map(|_| Default::default()).collect();
        (next != 0 && act != 0).then_some(Driver { library, functions, next, act })
    }

    fn address(&self, place: usize, route: &Route, is_twin: bool) -> usize {
        let cached = &self.functions[place][usize::from(is_twin)];
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

    fn act(&self, call: &Call, order: &Order) -> u64 {
        type Act = unsafe extern "C" fn(*const Call, *const Order) -> u64;
        // SAFETY: `warptap_stub_act` takes these two and keeps neither; the call's own pointers were vouched
        // for by whoever called libcudart.
        unsafe { std::mem::transmute::<usize, Act>(self.act)(call, order) }
    }
}

/// libcuda as libcudart found it, looked for once.
fn driver() -> Option<&'static Driver> {
    DRIVER_FOUND.get_or_init(Driver::find).as_ref()
}

/// Has the driver do what a runtime call asks for.
pub(super) fn run_by_driver(under_way: &UnderWay) -> u64 {
    let Some(driver) = driver() else { return result::INSUFFICIENT_DRIVER };
    let UnderWay { call, function, order, words } = under_way;
    let order = order.for_driver();
    let Some((place, route)) = Route::of(function.probe.symbol, call).filter(|_| is_nested()) else {
        return driver.act(call, &order);
    };
    let address = driver.address(place, route, function.is_twin);
    driver.order(&order);
    // SAFETY: the address is that of the route's driver function, whose prototype its words follow; pointers
    // among them are the caller's own, passed on unchanged.
    unsafe { call_words(address, &route.carry(words)) }
}
