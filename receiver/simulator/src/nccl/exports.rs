//! The exported functions: prototypes of nccl.h 2.32, and the control functions by which the player drives the stub.
//!
//! | function | meaning |
//! |---|---|
//! | `warptap_stub_next(order)` | the calling thread's next call follows this order: its host time and result |
//! | `warptap_stub_lenient(on)` | unknown handles are communicators made elsewhere, and nobody is waited for |
//! | `warptap_stub_board(path)` | ranks that name the same file wait for each other; 0 if they can |
//! | `warptap_stub_capturing(stream, on)` | what is enqueued on the stream is captured, not run |
//! | `warptap_stub_record(event, stream)` | the event covers what stands on the stream now |
//! | `warptap_stub_wait_stream(stream)` | returns when the last rank of all of the stream's collectives has come |
//! | `warptap_stub_wait_event(event)` | the same of what stood before the event |
//! | `warptap_stub_completed(comm, out)` | writes when the communicator's last collective was complete, ns |

/// Makes the exported functions of libnccl; used once, at the root of the library.
#[macro_export]
macro_rules! nccl_exports {
    ($($symbol:ident($($name:ident: $type:ty),*) $body:block)*) => {$(
        /// See nccl.h, or `nccl::exports`.
        ///
        /// # Safety
        /// As its C prototype demands.
        #[unsafe(no_mangle)]
        #[inline(never)]
        pub unsafe extern "C" fn $symbol($($name: $type),*) -> std::ffi::c_int {
            // Two functions that do the same would be one, at one address.
            std::hint::black_box(stringify!($symbol));
            $body
        }
    )*};
}
