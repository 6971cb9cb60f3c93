//! The stub functions of this process, loaded from files or linked into the program.

#![allow(unsafe_code, reason = "C libraries are loaded and called; each block states its requirements")]

use std::ffi::{CString, c_char};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use libloading::os::unix::{Library as Handle, RTLD_NOW};
use probe_abi::Library;

use crate::install::Paths;
use crate::invoke::{Outcome, Request, invoke};
use crate::model::call::{DecodedCall, Effect, StubFunction};
use crate::model::order::Order;

/// Functions of the program itself by symbol and address, such as libcudart's in `static-player`.
pub type Own = Vec<(&'static str, usize)>;

/// An error when loading a library.
#[derive(Debug, thiserror::Error)]
#[error("cannot load {path}: {source}")]
pub struct LoadError {
    pub(crate) path: String,
    pub(crate) source: libloading::Error,
}

/// The addresses of a library's control functions, see [`crate::model::control`].
#[derive(Clone, Copy, Debug, Default)]
struct Control {
    next: usize,
    seen: usize,
    lenient: usize,
    nested: usize,
    share: usize,
}

impl Control {
    fn find(address: impl Fn(&str) -> usize) -> Control {
        Control {
            next: address("warptap_stub_next"),
            seen: address("warptap_stub_seen"),
            lenient: address("warptap_stub_lenient"),
            nested: address("warptap_stub_nested"),
            share: address("warptap_stub_share"),
        }
    }
}

/// The functions that can be called. Libraries are never unloaded.
#[derive(Debug)]
pub struct Functions {
    /// Addresses by the index of [`StubFunction::at`]; 0 if the library is not loaded.
    addresses: Vec<usize>,
    controls: [Control; 4],
}

impl Functions {
    /// Loads libraries in this order; the driver must precede the runtime.
    pub fn load(paths: &Paths, libraries: &[Library]) -> Result<Functions, LoadError> {
        let mut functions = Functions::none();
        for library in libraries {
            let path = paths.of(*library);
            // SAFETY: the stub libraries have no initialisers except those of Rust's standard library.
            let opened = unsafe { Handle::open(Some(path), RTLD_NOW) };
            let handle = opened.map_err(|source| LoadError { path: path.display().to_string(), source })?;
            functions.add(*library, |symbol| address(&handle, symbol));
            std::mem::forget(handle);
        }
        Ok(functions)
    }

    /// Uses the functions of the program itself for `library`.
    pub fn with_own(mut self, library: Library, own: &Own) -> Functions {
        self.add(library, |symbol| own.iter().find(|(s, _)| *s == symbol).map_or(0, |(_, at)| *at));
        self
    }

    fn none() -> Functions {
        let count = StubFunction::all().map(|(index, _)| index + 1).max().unwrap_or(0);
        Functions { addresses: vec![0; count], controls: Default::default() }
    }

    fn add(&mut self, library: Library, address: impl Fn(&str) -> usize) {
        for (index, function) in StubFunction::all().filter(|(_, f)| f.probe.library == library) {
            self.addresses[index] = address(function.symbol());
        }
        self.controls[index_of(library)] = Control::find(address);
    }

    /// Returns whether the function can be called.
    pub fn has(&self, index: usize) -> bool {
        self.addresses.get(index).is_some_and(|address| *address != 0)
    }

    /// Makes a call under `order`; a missing function returns 35, as without a driver.
    pub fn call(&self, request: &Request, order: &Order) -> Outcome {
        let address = self.addresses.get(request.index).copied().unwrap_or(0);
        if address == 0 {
            return Outcome { result: 35, ..Outcome::default() };
        }
        if *order != Order::NONE {
            let next = self.controls[index_of(request.function.probe.library)].next;
            // SAFETY: the stub's `warptap_stub_next` copies the order.
            unsafe { std::mem::transmute::<usize, unsafe extern "C" fn(*const Order)>(next)(order) };
        }
        // SAFETY: the address was found under this function's symbol in a stub library, which dereferences no handle.
        unsafe { invoke(address, request) }
    }

    /// Returns an order for nested calls of `inner`, a function of the same library, to a depth.
    pub fn nest(&self, inner: usize, depth: u32) -> Order {
        let row = StubFunction::at(inner).map_or(0, |f| f.probe.id);
        let address = self.addresses.get(inner).copied().unwrap_or(0);
        Order { inner: address as u64, inner_row: row.into(), inner_depth: depth, ..Order::NONE }
    }

    /// Returns the call that a library decoded last on this thread.
    pub fn seen(&self, library: Library) -> Option<DecodedCall> {
        let seen = self.controls[index_of(library)].seen;
        let mut call = DecodedCall::default();
        // SAFETY: the stub's `warptap_stub_seen` writes a call to the address.
        let found = seen != 0
            && unsafe {
                std::mem::transmute::<usize, unsafe extern "C" fn(*mut DecodedCall) -> u32>(seen)(&mut call)
                    != 0
            };
        found.then_some(call)
    }

    /// Sets whether unknown handles are valid, as those of objects that were created elsewhere.
    pub fn set_lenient(&self, lenient: bool) {
        self.set(|control| control.lenient, lenient);
    }

    /// Sets whether libcudart calls libcuda's exported functions, as it does by default.
    pub fn set_nested(&self, nested: bool) {
        self.set(|control| control.nested, nested);
    }

    /// Shares the device with every process that names the same file. Returns false on failure.
    pub fn share_device(&self, file: &Path) -> bool {
        let Ok(path) = CString::new(file.as_os_str().as_bytes()) else { return false };
        let all = self.controls.iter().map(|c| c.share).filter(|address| *address != 0);
        all.map(|address| {
            // SAFETY: the stub's `warptap_stub_share` reads the string it is pointed to, which outlives the call.
            unsafe {
                std::mem::transmute::<usize, unsafe extern "C" fn(*const c_char) -> u32>(address)(
                    path.as_ptr(),
                )
            }
        })
        .all(|failed| failed == 0)
    }

    fn set(&self, which: impl Fn(&Control) -> usize, on: bool) {
        for address in self.controls.iter().map(which).filter(|address| *address != 0) {
            // SAFETY: these control functions of the stubs take one integer.
            unsafe { std::mem::transmute::<usize, extern "C" fn(u32)>(address)(u32::from(on)) };
        }
    }
}

pub(crate) fn address(handle: &Handle, symbol: &str) -> usize {
    // SAFETY: only the address is taken; callers cast it to its type.
    let found = unsafe { handle.get::<unsafe extern "C" fn()>(symbol) };
    found.map_or(0, |f| *f as *const () as usize)
}

fn index_of(library: Library) -> usize {
    match library {
        Library::Amdhip => 0,
        Library::Cuda => 1,
        Library::Cudart => 2,
        Library::Nccl => 3,
    }
}

/// Returns the index and function of a symbol.
pub fn by_symbol(symbol: &str) -> Option<(usize, StubFunction)> {
    StubFunction::all().find(|(_, f)| f.symbol() == symbol)
}

/// Returns true for calls that enqueue work on a stream.
pub fn is_enqueue(effect: Effect) -> bool {
    matches!(effect, Effect::Launch | Effect::GraphLaunch | Effect::Copy | Effect::Fill)
}
