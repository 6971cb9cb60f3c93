//! The stub libnccl: the real symbols and ABI, ranks in separate processes that really wait for each other.
//!
//! The one idea: what a collective *is*, seen from a probe, is when each rank comes to it and when it may go on. So the
//! stub moves no data; it counts who has come, on a page that all ranks' processes share, and a stream's wait lasts
//! until the last rank of each of its collectives is there.
//!
//! Written by hand rather than made from the rows: it passes structs by value, which the compiler lays out by the
//! platform's own rules, so that a row that looks for the rank in the wrong place finds something else.

#![allow(unsafe_code, reason = "a C library is made of C calls; each block says what must hold")]

pub mod abi;
pub mod board;
pub mod call;
pub mod comm;
pub mod exports;
pub mod streams;
