//! Structs and numbers of amdsmi.h that the functions use: those of ROCm 7.0 except as noted.

use std::ffi::{c_char, c_void};

use crate::smi::Codes;
pub use crate::smi::Return;

/// `AMDSMI_STATUS_OUT_OF_RESOURCES`.
pub const OUT_OF_RESOURCES: Return = 15;

/// The numbers of the library. Statuses have the names of amdsmi.h without `AMDSMI_STATUS_` in scripts.
pub static CODES: Codes = Codes {
    errors: &[
        ("INVAL", 1),
        ("NOT_SUPPORTED", 2),
        ("NOT_YET_IMPLEMENTED", 3),
        ("API_FAILED", 7),
        ("TIMEOUT", 8),
        ("RETRY", 9),
        ("NO_PERM", 10),
        ("IO", 12),
        ("FILE_ERROR", 14),
        ("OUT_OF_RESOURCES", OUT_OF_RESOURCES),
        ("INIT_ERROR", 18),
        ("BUSY", 30),
        ("NOT_FOUND", 31),
        ("NOT_INIT", 32),
        ("DRIVER_NOT_LOADED", 34),
        ("NO_DATA", 40),
        ("UNEXPECTED_DATA", 43),
        ("UNKNOWN_ERROR", -1),
    ],
    event: "notification",
    insufficient_size: 41,
    invalid_argument: 1,
    not_supported: 2,
    // `NO_DATA`: there is no event.
    timeout: 40,
    uninitialized: 32,
};

/// A text field of ROCm 6.4 and later.
pub type Text = [c_char; 256];

/// An `amdsmi_version_t`; in ROCm 6.4 the first number is the year.
#[repr(C)]
pub struct Version {
    /// Version numbers.
    pub numbers: [u32; 4],
    /// Build string.
    pub build: *const c_char,
}

/// An `amdsmi_asic_info_t`.
#[repr(C)]
pub struct AsicInfo {
    /// Product name.
    pub market_name: Text,
    /// Vendor id, 0x1002.
    pub vendor_id: u32,
    /// Vendor name.
    pub vendor_name: Text,
    /// Vendor id of the board.
    pub subvendor_id: u32,
    /// Device id.
    pub device_id: u64,
    /// Revision.
    pub rev_id: u32,
    /// Serial number of the chip.
    pub asic_serial: Text,
    /// Number of the module on its board.
    pub oam_id: u32,
    /// Number of compute units.
    pub num_of_compute_units: u32,
    /// Graphics version, such as 942.
    pub target_graphics_version: u64,
    /// Subsystem id.
    pub subsystem_id: u32,
    /// Reserved.
    pub reserved: [u32; 21],
}

/// An `amdsmi_board_info_t`.
#[repr(C)]
pub struct BoardInfo {
    /// Model number.
    pub model_number: Text,
    /// Serial number.
    pub product_serial: Text,
    /// FRU id.
    pub fru_id: Text,
    /// Product name.
    pub product_name: Text,
    /// Manufacturer.
    pub manufacturer_name: Text,
    /// Reserved.
    pub reserved: [u64; 64],
}

/// An `amdsmi_vbios_info_t` of ROCm 6.4.
#[repr(C)]
pub struct VbiosInfo64 {
    /// Name.
    pub name: Text,
    /// Build date.
    pub build_date: [c_char; 32],
    /// Part number.
    pub part_number: Text,
    /// Version.
    pub version: Text,
    /// Reserved.
    pub reserved: [u64; 32],
}

/// An `amdsmi_vbios_info_t` of ROCm 7.0.
#[repr(C)]
pub struct VbiosInfo {
    /// Name.
    pub name: Text,
    /// Build date.
    pub build_date: Text,
    /// Part number.
    pub part_number: Text,
    /// Version.
    pub version: Text,
    /// Reserved.
    pub reserved: [u64; 68],
}

/// An `amdsmi_driver_info_t`.
#[repr(C)]
pub struct DriverInfo {
    /// Version of the kernel driver.
    pub driver_version: Text,
    /// Date of the kernel driver.
    pub driver_date: Text,
    /// Name of the kernel driver, `amdgpu`.
    pub driver_name: Text,
}

/// An `amdsmi_error_count_t`.
#[repr(C)]
pub struct ErrorCount {
    /// Corrected errors.
    pub correctable_count: u64,
    /// Uncorrected errors.
    pub uncorrectable_count: u64,
    /// Deferred errors.
    pub deferred_count: u64,
    /// Reserved.
    pub reserved: [u64; 5],
}

/// An `amdsmi_proc_info_t`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ProcInfo {
    /// Name.
    pub name: Text,
    /// Process id.
    pub pid: u32,
    /// Memory used, bytes.
    pub mem: u64,
    /// Time of each engine, nanoseconds.
    pub engine_usage: [u64; 8],
    /// Memory by kind.
    pub memory_usage: MemoryUsage,
    /// Container name.
    pub container_name: Text,
    /// Occupancy of compute units, percent.
    pub cu_occupancy: u32,
    /// Reserved.
    pub reserved: [u32; 11],
}

/// The memory of a process by kind.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct MemoryUsage {
    /// Host memory mapped by the GPU, bytes.
    pub gtt_mem: u64,
    /// Host memory, bytes.
    pub cpu_mem: u64,
    /// GPU memory, bytes.
    pub vram_mem: u64,
    /// Reserved.
    pub reserved: [u32; 10],
}

/// An `amdsmi_evt_notification_data_t`.
#[repr(C)]
pub struct Notification {
    /// Handle of the device.
    pub processor_handle: *mut c_void,
    /// Number of the event.
    pub event: u32,
    /// Message of the driver.
    pub message: Text,
}

/// An `amdsmi_gpu_metrics_t`. Unsupported fields are the largest number of their type. Library 27 has
/// wider counts and more fields.
#[repr(C)]
pub struct GpuMetrics<Count, const OTHERS: usize> {
    /// Header of the driver's table.
    pub common_header: [u8; 4],
    /// Edge temperature, degrees Celsius.
    pub temperature_edge: u16,
    /// Hotspot temperature, degrees Celsius.
    pub temperature_hotspot: u16,
    /// Memory temperature, degrees Celsius.
    pub temperature_mem: u16,
    /// Temperature of the voltage regulators of graphics engine, chip and memory, degrees Celsius.
    pub temperature_vr: [u16; 3],
    /// Activity of the graphics engine, percent.
    pub average_gfx_activity: u16,
    /// Activity of the memory controller, percent.
    pub average_umc_activity: u16,
    /// Activity of the video engines, percent.
    pub average_mm_activity: u16,
    /// Average power, watts.
    pub average_socket_power: u16,
    /// Energy in the driver's unit.
    pub energy_accumulator: u64,
    /// System clock, nanoseconds.
    pub system_clock_counter: u64,
    /// Average frequencies, MHz.
    pub average_frequencies: [u16; 7],
    /// Graphics clock, MHz.
    pub current_gfxclk: u16,
    /// SoC clock, MHz.
    pub current_socclk: u16,
    /// Memory clock, MHz.
    pub current_uclk: u16,
    /// Video clock 0, MHz.
    pub current_vclk0: u16,
    /// Decoder clock 0, MHz.
    pub current_dclk0: u16,
    /// Video clock 1, MHz.
    pub current_vclk1: u16,
    /// Decoder clock 1, MHz.
    pub current_dclk1: u16,
    /// Throttle bits of this chip.
    pub throttle_status: u32,
    /// Fan speed, revolutions per minute.
    pub current_fan_speed: u16,
    /// PCIe lanes.
    pub pcie_link_width: u16,
    /// PCIe speed in units of 0.1 GT/s.
    pub pcie_link_speed: u16,
    /// Accumulated activity of the graphics engine, percent.
    pub gfx_activity_acc: Count,
    /// Accumulated activity of the memory, percent.
    pub mem_activity_acc: Count,
    /// Temperature of each memory stack, degrees Celsius.
    pub temperature_hbm: [u16; 4],
    /// Firmware time in units of 10 ns.
    pub firmware_timestamp: u64,
    /// Voltage of chip, graphics engine and memory, millivolts.
    pub voltage: [u16; 3],
    /// Throttle bits common to all chips.
    pub indep_throttle_status: u64,
    /// Current power, watts.
    pub current_socket_power: u16,
    /// Activity of the video engines, percent.
    pub vcn_activity: [u16; 4],
    /// Lock bits of the graphics clock.
    pub gfxclk_lock_status: u32,
    /// XGMI lanes.
    pub xgmi_link_width: u16,
    /// XGMI speed, Gb/s.
    pub xgmi_link_speed: u16,
    /// Accumulated PCIe bandwidth, GB/s.
    pub pcie_bandwidth_acc: u64,
    /// Current PCIe bandwidth, GB/s.
    pub pcie_bandwidth_inst: u64,
    /// PCIe link recoveries.
    pub pcie_l0_to_recov_count_acc: u64,
    /// PCIe replays.
    pub pcie_replay_count_acc: u64,
    /// Overflows of the PCIe replay counter.
    pub pcie_replay_rover_count_acc: u64,
    /// Data read by XGMI link, kilobytes.
    pub xgmi_read_data_acc: [u64; 8],
    /// Data written by XGMI link, kilobytes.
    pub xgmi_write_data_acc: [u64; 8],
    /// Graphics clocks, MHz.
    pub current_gfxclks: [u16; 8],
    /// SoC clocks, MHz.
    pub current_socclks: [u16; 4],
    /// Video clocks, MHz.
    pub current_vclk0s: [u16; 4],
    /// Decoder clocks, MHz.
    pub current_dclk0s: [u16; 4],
    /// Activity of the JPEG engines, percent.
    pub jpeg_activity: [u16; 32],
    /// PCIe NAKs sent.
    pub pcie_nak_sent_count_acc: Count,
    /// PCIe NAKs received.
    pub pcie_nak_rcvd_count_acc: Count,
    /// Firmware cycles.
    pub accumulation_counter: u64,
    /// Cycles throttled by PROCHOT.
    pub prochot_residency_acc: u64,
    /// Cycles throttled by the power limit.
    pub ppt_residency_acc: u64,
    /// Cycles throttled by socket temperature.
    pub socket_thm_residency_acc: u64,
    /// Cycles throttled by regulator temperature.
    pub vr_thm_residency_acc: u64,
    /// Cycles throttled by memory temperature.
    pub hbm_thm_residency_acc: u64,
    /// Number of partitions.
    pub num_partition: u16,
    /// Fields by partition and those of later table versions.
    pub others: [u64; OTHERS],
}

const _: () = assert!(size_of::<AsicInfo>() == 896);
const _: () = assert!(size_of::<BoardInfo>() == 1792);
const _: () = assert!(size_of::<VbiosInfo64>() == 1056);
const _: () = assert!(size_of::<VbiosInfo>() == 1568);
const _: () = assert!(size_of::<ErrorCount>() == 64);
const _: () = assert!(size_of::<ProcInfo>() == 704);
const _: () = assert!(size_of::<Notification>() == 272);
const _: () = assert!(size_of::<GpuMetrics<u32, 508>>() == 4544);
const _: () = assert!(size_of::<GpuMetrics<u64, 530>>() == 4736);
