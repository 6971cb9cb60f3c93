//! Calls of libnccl by its ABI: words for most functions, a struct by value for those that take an id.

#![allow(unsafe_code, reason = "a C library is loaded and called; each block states its requirements")]

use std::collections::BTreeMap;
use std::ffi::{CString, c_int};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use libloading::os::unix::{Library as Handle, RTLD_NOW};
use probe_abi::record::ARGUMENTS;
use probe_abi::{Library, PROBES};

use crate::functions::{LoadError, address};
use crate::model::clock;
use crate::model::order::Order;
use crate::nccl::abi::NcclId;

/// Symbols of the control functions, see `nccl/exports.rs`.
const CONTROLS: [&str; 8] = [
    "warptap_stub_next",
    "warptap_stub_lenient",
    "warptap_stub_board",
    "warptap_stub_capturing",
    "warptap_stub_record",
    "warptap_stub_wait_stream",
    "warptap_stub_wait_event",
    "warptap_stub_completed",
];

/// A loaded libnccl. It is never unloaded.
#[derive(Debug)]
pub struct Nccl {
    addresses: BTreeMap<&'static str, usize>,
}

/// The result and times of a call.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct NcclOutcome {
    /// Return value, an `ncclResult_t`.
    pub result: u32,
    /// Time before the call, CLOCK_MONOTONIC ns.
    pub entry_ns: u64,
    /// Time after the call, CLOCK_MONOTONIC ns.
    pub exit_ns: u64,
}

type Words = unsafe extern "C" fn(u64, u64, u64, u64, u64, u64, u64, u64) -> c_int;
type Init = unsafe extern "C" fn(u64, c_int, NcclId, c_int, u64) -> c_int;

impl Nccl {
    /// Loads the library at `path`: the stub, or a real one, without control functions.
    pub fn load(path: &Path) -> Result<Nccl, LoadError> {
        // SAFETY: neither the stub nor NVIDIA's library has initialisers with requirements.
        let opened = unsafe { Handle::open(Some(path), RTLD_NOW) };
        let handle = opened.map_err(|source| LoadError { path: path.display().to_string(), source })?;
        let rows = PROBES.iter().filter(|p| p.library == Library::Nccl).map(|p| p.symbol);
        let addresses = rows.chain(CONTROLS).map(|symbol| (symbol, address(&handle, symbol)));
        let addresses = addresses.filter(|(_, at)| *at != 0).collect();
        std::mem::forget(handle);
        Ok(Nccl { addresses })
    }

    /// Returns the address of a function, or 0.
    pub fn address(&self, symbol: &str) -> usize {
        self.addresses.get(symbol).copied().unwrap_or(0)
    }

    /// Calls a function that takes words.
    ///
    /// # Safety
    /// The words must follow its prototype.
    pub unsafe fn call(&self, symbol: &str, words: &[u64; ARGUMENTS]) -> NcclOutcome {
        let address = self.address(symbol);
        if address == 0 {
            return NcclOutcome { result: u32::MAX, ..NcclOutcome::default() };
        }
        let w = words;
        timed(|| {
            // SAFETY: by the caller's promise; words after its own are ignored.
            unsafe {
                let function = std::mem::transmute::<usize, Words>(address);
                function(w[0], w[1], w[2], w[3], w[4], w[5], w[6], w[7])
            }
        })
    }

    /// Calls `ncclCommInitRank` or `ncclCommInitRankConfig`, which takes the configuration after the rank.
    ///
    /// # Safety
    /// `out` is the address of a handle, `config` a configuration or 0.
    pub unsafe fn init(
        &self,
        symbol: &str,
        out: u64,
        nranks: i32,
        id: &NcclId,
        rank: i32,
        config: u64,
    ) -> NcclOutcome {
        let address = self.address(symbol);
        if address == 0 {
            return NcclOutcome { result: u32::MAX, ..NcclOutcome::default() };
        }
        timed(|| {
            // SAFETY: by the caller's promise.
            unsafe { std::mem::transmute::<usize, Init>(address)(out, nranks, *id, rank, config) }
        })
    }

    /// Orders the next call of this thread.
    pub fn order(&self, order: &Order) {
        self.control("warptap_stub_next", std::ptr::from_ref(order) as u64, 0);
    }

    /// Sets whether unknown handles are valid.
    pub fn set_lenient(&self, lenient: bool) {
        self.control("warptap_stub_lenient", u64::from(lenient), 0);
    }

    /// Waits for ranks of other processes that name the same file from now on; returns false on failure.
    pub fn meet_at(&self, file: &Path) -> bool {
        let Ok(path) = CString::new(file.as_os_str().as_bytes()) else { return false };
        self.control("warptap_stub_board", path.as_ptr() as u64, 0) == 0
    }

    /// Sets whether the stream is being captured.
    pub fn set_capturing(&self, stream: u64, on: bool) {
        self.control("warptap_stub_capturing", stream, u64::from(on));
    }

    /// Records an event that covers the stream's work so far.
    pub fn record(&self, event: u64, stream: u64) {
        self.control("warptap_stub_record", event, stream);
    }

    /// Returns the time at which the communicator's last collective was complete, CLOCK_MONOTONIC ns.
    pub fn completed_ns(&self, comm: u64) -> u64 {
        let mut at_ns = 0;
        self.control("warptap_stub_completed", comm, &raw mut at_ns as u64);
        at_ns
    }

    fn control(&self, symbol: &str, first: u64, second: u64) -> u32 {
        match self.address(symbol) {
            0 => u32::MAX,
            // SAFETY: the stub's control functions take at most two words; memory they point to outlives the call.
            address => unsafe {
                std::mem::transmute::<usize, unsafe extern "C" fn(u64, u64) -> c_int>(address)(first, second)
                    as u32
            },
        }
    }
}

fn timed(call: impl FnOnce() -> c_int) -> NcclOutcome {
    let entry_ns = clock::now_ns();
    let result = call() as u32;
    NcclOutcome { result, entry_ns, exit_ns: clock::now_ns() }
}
