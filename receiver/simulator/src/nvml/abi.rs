//! Structs and numbers of nvml.h (CUDA 12 and 13) as the functions here use them.

use std::ffi::{c_char, c_int, c_longlong, c_uint, c_ulonglong};

use crate::smi::Codes;
pub use crate::smi::{Return, SUCCESS};

/// `NVML_ERROR_UNINITIALIZED`.
pub const UNINITIALIZED: Return = 1;
/// `NVML_ERROR_INVALID_ARGUMENT`.
pub const INVALID_ARGUMENT: Return = 2;
/// `NVML_ERROR_NOT_SUPPORTED`.
pub const NOT_SUPPORTED: Return = 3;
/// `NVML_ERROR_NOT_FOUND`.
pub const NOT_FOUND: Return = 6;
/// `NVML_ERROR_INSUFFICIENT_SIZE`.
pub const INSUFFICIENT_SIZE: Return = 7;
/// `NVML_ERROR_TIMEOUT`.
pub const TIMEOUT: Return = 10;

/// Errors by the names that scripts have for them: those of nvml.h without `NVML_ERROR_`.
const ERRORS: &[(&str, Return)] = &[
    ("UNINITIALIZED", UNINITIALIZED),
    ("INVALID_ARGUMENT", INVALID_ARGUMENT),
    ("NOT_SUPPORTED", NOT_SUPPORTED),
    ("NO_PERMISSION", 4),
    ("NOT_FOUND", NOT_FOUND),
    ("INSUFFICIENT_SIZE", INSUFFICIENT_SIZE),
    ("DRIVER_NOT_LOADED", 9),
    ("TIMEOUT", TIMEOUT),
    ("IRQ_ISSUE", 11),
    ("LIBRARY_NOT_FOUND", 12),
    ("FUNCTION_NOT_FOUND", 13),
    ("CORRUPTED_INFOROM", 14),
    ("GPU_IS_LOST", 15),
    ("RESET_REQUIRED", 16),
    ("OPERATING_SYSTEM", 17),
    ("LIB_RM_VERSION_MISMATCH", 18),
    ("NO_DATA", 21),
    ("UNKNOWN", 999),
];

/// The library's numbers.
pub static CODES: Codes = Codes {
    errors: ERRORS,
    event: "xid",
    insufficient_size: INSUFFICIENT_SIZE,
    invalid_argument: INVALID_ARGUMENT,
    not_supported: NOT_SUPPORTED,
    timeout: TIMEOUT,
    uninitialized: UNINITIALIZED,
};

/// The bit of `nvmlEventTypeXidCriticalError`.
pub const XID_EVENT: c_ulonglong = 8;

/// `nvmlUtilization_t`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Utilization {
    /// Percent of time in which a kernel ran.
    pub gpu: c_uint,
    /// Percent of time in which memory was read or written.
    pub memory: c_uint,
}

/// `nvmlMemory_v2_t`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Memory {
    /// Size and version, filled in by the caller.
    pub version: c_uint,
    /// Bytes.
    pub total: c_ulonglong,
    /// Bytes that the driver keeps for itself.
    pub reserved: c_ulonglong,
    /// Bytes.
    pub free: c_ulonglong,
    /// Bytes.
    pub used: c_ulonglong,
}

/// `nvmlPciInfo_t`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct PciInfo {
    /// The address as older drivers had it.
    pub bus_id_legacy: [c_char; 16],
    /// Parts of the address.
    pub domain: c_uint,
    /// The bus.
    pub bus: c_uint,
    /// The device.
    pub device: c_uint,
    /// Vendor and device.
    pub pci_device_id: c_uint,
    /// Vendor and device of the board.
    pub pci_sub_system_id: c_uint,
    /// The address.
    pub bus_id: [c_char; 32],
}

/// `nvmlProcessInfo_t`, version 2 and 3.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct ProcessInfo {
    /// The process.
    pub pid: c_uint,
    /// Bytes.
    pub used_gpu_memory: c_ulonglong,
    /// The MIG instance, `u32::MAX` without.
    pub gpu_instance_id: c_uint,
    /// The same.
    pub compute_instance_id: c_uint,
}

/// `nvmlViolationTime_t`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct ViolationTime {
    /// When, microseconds.
    pub reference_time: c_ulonglong,
    /// How long, nanoseconds.
    pub violation_time: c_ulonglong,
}

/// `nvmlEventData_t`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct EventData {
    /// The handle.
    pub device: usize,
    /// One bit.
    pub event_type: c_ulonglong,
    /// The XID.
    pub event_data: c_ulonglong,
    /// The MIG instance, `u32::MAX` without.
    pub gpu_instance_id: c_uint,
    /// The same.
    pub compute_instance_id: c_uint,
}

/// `nvmlFieldValue_t`; the value as the largest of its union.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct FieldValue {
    /// Which field.
    pub field_id: c_uint,
    /// Of what.
    pub scope_id: c_uint,
    /// Microseconds since 1970.
    pub timestamp: c_longlong,
    /// Microseconds.
    pub latency_us: c_longlong,
    /// Which member of the union: 3 is `unsigned long long`.
    pub value_type: c_int,
    /// How the question went.
    pub result: Return,
    /// The answer.
    pub value: c_ulonglong,
}

/// The member `unsigned long long` of the union.
pub const UNSIGNED_LONG_LONG: c_int = 3;
