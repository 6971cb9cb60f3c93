//! Calls of libnccl by its real ABI: words for most functions, a struct by value for those that take the id.

#![allow(unsafe_code, reason = "a C library is loaded and called; each block says what must hold")]

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
use crate::nccl::abi::UniqueId;

/// The control functions, see [`crate::nccl::exports`].
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

/// A loaded libnccl. It stays loaded until the process ends.
#[derive(Debug)]
pub struct Nccl {
    addresses: BTreeMap<&'static str, usize>,
}

/// What a call came to.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Made {
    /// `ncclResult_t`.
    pub result: u32,
    /// CLOCK_MONOTONIC before, ns.
    pub entry_ns: u64,
    /// CLOCK_MONOTONIC after, ns.
    pub exit_ns: u64,
}

type Words = unsafe extern "C" fn(u64, u64, u64, u64, u64, u64, u64, u64) -> c_int;
type Init = unsafe extern "C" fn(u64, c_int, UniqueId, c_int, u64) -> c_int;

impl Nccl {
    /// Loads the library at `path`: the stub, or a real one, which has no control functions.
    pub fn load(path: &Path) -> Result<Nccl, LoadError> {
        // SAFETY: neither the stub nor NVIDIA's library has an initialiser that asks anything of us.
        let opened = unsafe { Handle::open(Some(path), RTLD_NOW) };
        let handle = opened.map_err(|source| LoadError { path: path.display().to_string(), source })?;
        let rows = PROBES.iter().filter(|p| p.library == Library::Nccl).map(|p| p.symbol);
        let addresses = rows.chain(CONTROLS).map(|symbol| (symbol, address(&handle, symbol)));
        let addresses = addresses.filter(|(_, at)| *at != 0).collect();
        std::mem::forget(handle);
        Ok(Nccl { addresses })
    }

    /// Where a function stands; 0 where this library has none of that name.
    pub fn address(&self, symbol: &str) -> usize {
        self.addresses.get(symbol).copied().unwrap_or(0)
    }

    /// Calls a function that takes words.
    ///
    /// # Safety
    /// The words are what its prototype asks for.
    pub unsafe fn call(&self, symbol: &str, words: &[u64; ARGUMENTS]) -> Made {
        let address = self.address(symbol);
        if address == 0 {
            return Made { result: u32::MAX, ..Made::default() };
        }
        let w = words;
        timed(|| {
            // SAFETY: by the caller's promise; words beyond those that it takes are ignored.
            unsafe {
                let function = std::mem::transmute::<usize, Words>(address);
                function(w[0], w[1], w[2], w[3], w[4], w[5], w[6], w[7])
            }
        })
    }

    /// Calls `ncclCommInitRank` or `ncclCommInitRankConfig`, which has the configuration behind the rank.
    ///
    /// # Safety
    /// `out` is the address of a handle, `config` is as the function wants it.
    pub unsafe fn init(
        &self,
        symbol: &str,
        out: u64,
        nranks: i32,
        id: &UniqueId,
        rank: i32,
        config: u64,
    ) -> Made {
        let address = self.address(symbol);
        if address == 0 {
            return Made { result: u32::MAX, ..Made::default() };
        }
        timed(|| {
            // SAFETY: by the caller's promise.
            unsafe { std::mem::transmute::<usize, Init>(address)(out, nranks, *id, rank, config) }
        })
    }

    /// The next call of this thread follows this order.
    pub fn order(&self, order: &Order) {
        self.control("warptap_stub_next", std::ptr::from_ref(order) as u64, 0);
    }

    /// Unknown handles are communicators made elsewhere.
    pub fn set_lenient(&self, lenient: bool) {
        self.control("warptap_stub_lenient", u64::from(lenient), 0);
    }

    /// Ranks in other processes that name the same file are waited for. False where they cannot be.
    pub fn meet_at(&self, file: &Path) -> bool {
        let Ok(path) = CString::new(file.as_os_str().as_bytes()) else { return false };
        self.control("warptap_stub_board", path.as_ptr() as u64, 0) == 0
    }

    /// What is enqueued on the stream is captured from here on, or is not.
    pub fn set_capturing(&self, stream: u64, on: bool) {
        self.control("warptap_stub_capturing", stream, u64::from(on));
    }

    /// The event covers what stands on the stream.
    pub fn record(&self, event: u64, stream: u64) {
        self.control("warptap_stub_record", event, stream);
    }

    /// When the communicator's last collective was complete, CLOCK_MONOTONIC ns: the same for all who have waited for it.
    pub fn completed_ns(&self, comm: u64) -> u64 {
        let mut at_ns = 0;
        self.control("warptap_stub_completed", comm, &raw mut at_ns as u64);
        at_ns
    }

    fn control(&self, symbol: &str, first: u64, second: u64) -> u32 {
        match self.address(symbol) {
            0 => u32::MAX,
            // SAFETY: the stub's control functions take at most two words; what they point to outlives the call.
            address => unsafe {
                std::mem::transmute::<usize, unsafe extern "C" fn(u64, u64) -> c_int>(address)(first, second)
                    as u32
            },
        }
    }
}

fn timed(call: impl FnOnce() -> c_int) -> Made {
    let entry_ns = clock::now_ns();
    let result = call() as u32;
    Made { result, entry_ns, exit_ns: clock::now_ns() }
}
