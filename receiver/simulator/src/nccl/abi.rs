//! Types and numbers of nccl.h, and those of the stub.

use std::ffi::c_int;

/// An `ncclUniqueId`: 128 bytes, passed by value.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[repr(C)]
pub struct NcclId(pub [u8; 128]);

/// `ncclSuccess`.
pub const SUCCESS: c_int = 0;
/// `ncclSystemError`.
pub const SYSTEM_ERROR: c_int = 2;
/// `ncclInvalidArgument`.
pub const INVALID_ARGUMENT: c_int = 4;
/// `ncclInvalidUsage`.
pub const INVALID_USAGE: c_int = 5;
/// The version that `ncclGetVersion` returns: `NCCL_VERSION_CODE` of 2.27.5.
pub const VERSION: c_int = 22_705;
/// `NCCL_SPLIT_NOCOLOR`.
pub const NO_COLOR: c_int = -1;
/// Size, rank and device that a lenient stub returns for an unknown communicator.
pub const UNKNOWN_COMM: [c_int; 3] = [1_007, 1_003, 5];
/// Handle that a lenient stub writes instead of creating a communicator, plus the index in a list.
pub const LENIENT_HANDLE: u64 = 0x7c7c_0000_1000;
