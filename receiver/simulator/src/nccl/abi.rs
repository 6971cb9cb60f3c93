//! Types and numbers of nccl.h, and of the stub's own control functions.

use std::ffi::c_int;

/// `ncclUniqueId`: 128 bytes, passed by value.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[repr(C)]
pub struct UniqueId(pub [u8; 128]);

/// `ncclSuccess`.
pub const SUCCESS: c_int = 0;
/// `ncclSystemError`.
pub const SYSTEM_ERROR: c_int = 2;
/// `ncclInvalidArgument`.
pub const INVALID_ARGUMENT: c_int = 4;
/// `ncclInvalidUsage`.
pub const INVALID_USAGE: c_int = 5;
/// What `ncclGetVersion` says: `NCCL_VERSION_CODE` of 2.27.5.
pub const VERSION: c_int = 22_705;
/// `NCCL_SPLIT_NOCOLOR`.
pub const NO_COLOR: c_int = -1;
/// A communicator that the stub did not make, as long as it is lenient: what it says of itself.
pub const STRANGER: [c_int; 3] = [1_007, 1_003, 5];
/// A communicator's handle that the lenient stub writes where it makes none: plus the place in a list.
pub const LENIENT_HANDLE: u64 = 0x7c7c_0000_1000;
