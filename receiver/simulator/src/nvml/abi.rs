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

/// Errors by their names in scripts, which are those of nvml.h without `NVML_ERROR_`.
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

/// The numbers of the library.
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

/// An `nvmlUtilization_t`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Utilization {
    /// Time in which a kernel ran, percent.
    pub gpu: c_uint,
    /// Time in which memory was accessed, percent.
    pub memory: c_uint,
}

/// An `nvmlMemory_v2_t`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct MemoryInfo {
    /// Size and version, filled in by the caller.
    pub version: c_uint,
    /// Total memory, bytes.
    pub total: c_ulonglong,
    /// Memory reserved by the driver, bytes.
    pub reserved: c_ulonglong,
    /// Free memory, bytes.
    pub free: c_ulonglong,
    /// Used memory, bytes.
    pub used: c_ulonglong,
}

/// An `nvmlPciInfo_t`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct PciInfo {
    /// Address in the format of older drivers.
    pub bus_id_legacy: [c_char; 16],
    /// Domain of the address.
    pub domain: c_uint,
    /// Bus of the address.
    pub bus: c_uint,
    /// Device of the address.
    pub device: c_uint,
    /// Vendor and device id.
    pub pci_device_id: c_uint,
    /// Vendor and device id of the board.
    pub pci_sub_system_id: c_uint,
    /// Address as text.
    pub bus_id: [c_char; 32],
}

/// An `nvmlProcessInfo_t`, version 2 and 3.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct NvmlProcess {
    /// Process id.
    pub pid: c_uint,
    /// Memory used by the process, bytes.
    pub used_gpu_memory: c_ulonglong,
    /// GPU instance of MIG; `u32::MAX` without MIG.
    pub gpu_instance_id: c_uint,
    /// Compute instance of MIG; `u32::MAX` without MIG.
    pub compute_instance_id: c_uint,
}

/// An `nvmlViolationTime_t`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct ViolationTime {
    /// Reference time, microseconds.
    pub reference_time: c_ulonglong,
    /// Duration of the violation, nanoseconds.
    pub violation_time: c_ulonglong,
}

/// An `nvmlEventData_t`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct EventData {
    /// Handle of the device.
    pub device: usize,
    /// Type of the event, one bit.
    pub event_type: c_ulonglong,
    /// XID of the event.
    pub event_data: c_ulonglong,
    /// GPU instance of MIG; `u32::MAX` without MIG.
    pub gpu_instance_id: c_uint,
    /// Compute instance of MIG; `u32::MAX` without MIG.
    pub compute_instance_id: c_uint,
}

/// An `nvmlFieldValue_t` with the largest member of its union.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct FieldValue {
    /// Id of the field.
    pub field_id: c_uint,
    /// Scope of the field.
    pub scope_id: c_uint,
    /// Time of the value, microseconds since 1970.
    pub timestamp: c_longlong,
    /// Time that the query took, microseconds.
    pub latency_us: c_longlong,
    /// Member of the union: 3 is `unsigned long long`.
    pub value_type: c_int,
    /// Status of the query.
    pub result: Return,
    /// Value of the field.
    pub value: c_ulonglong,
}

/// The member `unsigned long long` of the union.
pub const UNSIGNED_LONG_LONG: c_int = 3;
