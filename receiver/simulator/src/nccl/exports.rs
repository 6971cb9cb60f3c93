// The root of libnccl: types of the prototypes, the exported functions, and the control functions for the player.
//
// | function | meaning |
// |---|---|
// | `warptap_stub_next(order)` | the calling thread's next call follows this order: its host time and result |
// | `warptap_stub_lenient(on)` | unknown handles are valid communicators, and no rank is waited for |
// | `warptap_stub_board(path)` | ranks that name the same file wait for each other; returns 0 on success |
// | `warptap_stub_capturing(stream, on)` | what is enqueued on the stream is captured, not run |
// | `warptap_stub_record(event, stream)` | the event covers the stream's work so far |
// | `warptap_stub_wait_stream(stream)` | returns when the last rank of each of the stream's collectives has arrived |
// | `warptap_stub_wait_event(event)` | as before, for the work that the event covers |
// | `warptap_stub_completed(comm, out)` | writes when the communicator's last collective was complete, ns |
//
// The build script includes this file at the root of the library.

use std::ffi::{CStr, OsStr, c_char, c_int};
use std::hint::black_box;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use model::order::Order;
use nccl::abi::{NcclId, SUCCESS, UNKNOWN_COMM, VERSION};
use nccl::call::{self, OperationKind};
use nccl::{board, comm, streams};

type Word = u64;
type Int = c_int;
type Ints = *const c_int;
type Count = c_int;
type Id = NcclId;
type IdPointer = *const NcclId;
type OutHandle = *mut u64;
type OutHandles = *mut u64;
type OutId = *mut NcclId;
type OutInt = *mut c_int;

macro_rules! exports {
    ($($symbol:ident($($name:ident: $type:ty),*) $body:block)*) => {$(
        /// See nccl.h, or the head of this file.
        ///
        /// # Safety
        /// As its C prototype requires.
        #[unsafe(no_mangle)]
        #[inline(never)]
        pub unsafe extern "C" fn $symbol($($name: $type),*) -> c_int {
            // Without this, functions of equal bodies would share an address.
            black_box(stringify!($symbol));
            $body
        }
    )*};
}

macro_rules! nccl_functions {
    (
        collectives { $($collective:ident($($before:ident),* $(; $after:ident)?);)* }
        $($symbol:ident($($name:ident: $type:ident),*) $body:block)*
    ) => {
        $(
            /// See nccl.h.
            ///
            /// # Safety
            /// As its C prototype requires.
            #[unsafe(no_mangle)]
            #[inline(never)]
            pub unsafe extern "C" fn $collective($(_: $before,)* comm: Word, stream: Word $(, _: $after)?) -> c_int {
                black_box(stringify!($collective));
                call::operation(comm, stream, OperationKind::Collective)
            }
        )*
        exports! { $($symbol($($name: $type),*) $body)* }
    };
}

include!("functions.rs");

exports! {
    warptap_stub_next(order: *const Order) {
        // SAFETY: the player's promise: a pointer to an order.
        model::order::set_next(unsafe { *order });
        SUCCESS
    }
    warptap_stub_lenient(on: c_int) {
        comm::set_lenient(on != 0);
        SUCCESS
    }
    warptap_stub_board(path: *const c_char) {
        // SAFETY: the player's promise: a NUL-terminated string.
        let path = unsafe { CStr::from_ptr(path) };
        c_int::from(board::join(Path::new(OsStr::from_bytes(path.to_bytes()))).is_err())
    }
    warptap_stub_capturing(stream: u64, on: c_int) {
        streams::streams().set_capturing(stream, on != 0);
        SUCCESS
    }
    warptap_stub_record(event: u64, stream: u64) {
        streams::streams().record(event, stream);
        SUCCESS
    }
    warptap_stub_wait_stream(stream: u64) {
        streams::wait_for_stream(stream);
        SUCCESS
    }
    warptap_stub_wait_event(event: u64) {
        streams::wait_for_event(event);
        SUCCESS
    }
    warptap_stub_completed(comm: u64, out: *mut u64) {
        let entry = comm::comms().get(comm).and_then(|comm| comm.entry);
        // SAFETY: the player's promise: a pointer to a word.
        unsafe { *out = entry.map_or(0, |entry| entry.work.completed_ns()) };
        SUCCESS
    }
}
