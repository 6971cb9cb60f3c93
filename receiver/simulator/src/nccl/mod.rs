//! The stub libnccl: the real symbols and ABI, with ranks in separate processes that wait for each other.
//!
//! A probe sees of a collective only when each rank enters it and when each may continue. So the stub moves no data: it
//! counts arrivals on a page that all ranks' processes share, and a sync call returns when the last rank of each of the
//! stream's collectives has arrived.
//!
//! The functions are declared in `functions.rs` rather than generated from the probe rows: structs passed by value are
//! laid out by the compiler, so a row that expects an argument in a wrong position reads another value.

#![allow(
    unsafe_code,
    reason = "the functions of a C library take pointers; each block states its requirements"
)]

pub mod abi;
pub mod board;
pub mod call;
pub mod comm;
pub mod prototypes;
pub mod streams;
