//! Structs and numbers of amdsmi.h as the functions here use them: those of ROCm 7.0, and two otherwise.

use std::ffi::{c_char, c_void};

use crate::smi::Codes;
pub use crate::smi::Return;

/// `AMDSMI_STATUS_OUT_OF_RESOURCES`.
pub const OUT_OF_RESOURCES: Return = 15;

/// The library's numbers. Statuses by the names that scripts have for them: those of amdsmi.h without
/// `AMDSMI_STATUS_`.
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
    // No event came: there is nothing to collect.
    timeout: 40,
    uninitialized: 32,
};

/// A text of ROCm 6.4 and later.
pub type Text = [c_char; 256];

/// `amdsmi_version_t`; in ROCm 6.4 with the year first.
#[repr(C)]
pub struct Version {
    /// The numbers.
    pub numbers: [u32; 4],
    /// A text of the library's own.
    pub build: *const c_char,
}

/// `amdsmi_asic_info_t`.
#[repr(C)]
pub struct AsicInfo {
    /// What it is sold as.
    pub market_name: Text,
    /// 0x1002.
    pub vendor_id: u32,
    /// Of the vendor.
    pub vendor_name: Text,
    /// Of the board's vendor.
    pub subvendor_id: u32,
    /// Of the model.
    pub device_id: u64,
    /// Of the chip.
    pub rev_id: u32,
    /// Of the chip.
    pub asic_serial: Text,
    /// Which of its board's.
    pub oam_id: u32,
    /// Of the chip.
    pub num_of_compute_units: u32,
    /// Such as 942.
    pub target_graphics_version: u64,
    /// Of the board.
    pub subsystem_id: u32,
    /// Unused.
    pub reserved: [u32; 21],
}

/// `amdsmi_board_info_t`.
#[repr(C)]
pub struct BoardInfo {
    /// Of the board.
    pub model_number: Text,
    /// Of the board.
    pub product_serial: Text,
    /// Of the board.
    pub fru_id: Text,
    /// Of the board.
    pub product_name: Text,
    /// Of the board.
    pub manufacturer_name: Text,
    /// Unused.
    pub reserved: [u64; 64],
}

/// `amdsmi_vbios_info_t` of ROCm 6.4.
#[repr(C)]
pub struct VbiosInfo64 {
    /// Its name.
    pub name: Text,
    /// When it was built.
    pub build_date: [c_char; 32],
    /// Its number.
    pub part_number: Text,
    /// Its version.
    pub version: Text,
    /// Unused.
    pub reserved: [u64; 32],
}

/// `amdsmi_vbios_info_t` of ROCm 7.0.
#[repr(C)]
pub struct VbiosInfo {
    /// Its name.
    pub name: Text,
    /// When it was built.
    pub build_date: Text,
    /// Its number.
    pub part_number: Text,
    /// Its version.
    pub version: Text,
    /// Unused.
    pub reserved: [u64; 68],
}

/// `amdsmi_driver_info_t`.
#[repr(C)]
pub struct DriverInfo {
    /// Of the kernel's driver.
    pub driver_version: Text,
    /// Of the kernel's driver.
    pub driver_date: Text,
    /// `amdgpu`.
    pub driver_name: Text,
}

/// `amdsmi_error_count_t`.
#[repr(C)]
pub struct ErrorCount {
    /// Corrected.
    pub correctable_count: u64,
    /// Not corrected.
    pub uncorrectable_count: u64,
    /// Put off.
    pub deferred_count: u64,
    /// Unused.
    pub reserved: [u64; 5],
}

/// `amdsmi_proc_info_t`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ProcInfo {
    /// What runs.
    pub name: Text,
    /// The process.
    pub pid: u32,
    /// Bytes.
    pub mem: u64,
    /// Nanoseconds.
    pub engine_usage: [u64; 8],
    /// Bytes.
    pub memory_usage: MemoryUsage,
    /// The container.
    pub container_name: Text,
    /// Percent.
    pub cu_occupancy: u32,
    /// Unused.
    pub reserved: [u32; 11],
}

/// Its memory by kind.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct MemoryUsage {
    /// Bytes that the GPU reaches in the host.
    pub gtt_mem: u64,
    /// Bytes of the host.
    pub cpu_mem: u64,
    /// Bytes of the GPU.
    pub vram_mem: u64,
    /// Unused.
    pub reserved: [u32; 10],
}

/// `amdsmi_evt_notification_data_t`.
#[repr(C)]
pub struct Notification {
    /// Whose.
    pub processor_handle: *mut c_void,
    /// Which.
    pub event: u32,
    /// What the driver says of it.
    pub message: Text,
}

/// `amdsmi_gpu_metrics_t`. What is not supported is the largest number of its type. Library 27 made some counts wider,
/// and the whole longer.
#[repr(C)]
pub struct GpuMetrics<Count, const OTHERS: usize> {
    /// Of the driver's table.
    pub common_header: [u8; 4],
    /// Degrees Celsius.
    pub temperature_edge: u16,
    /// Degrees Celsius.
    pub temperature_hotspot: u16,
    /// Degrees Celsius.
    pub temperature_mem: u16,
    /// Of regulators of the graphics engine, the chip and the memory.
    pub temperature_vr: [u16; 3],
    /// Percent: the graphics engine, the memory controller, the video engines.
    pub average_gfx_activity: u16,
    /// Percent.
    pub average_umc_activity: u16,
    /// Percent.
    pub average_mm_activity: u16,
    /// Watts.
    pub average_socket_power: u16,
    /// In units of the driver's.
    pub energy_accumulator: u64,
    /// Nanoseconds.
    pub system_clock_counter: u64,
    /// MHz.
    pub average_frequencies: [u16; 7],
    /// MHz.
    pub current_gfxclk: u16,
    /// MHz.
    pub current_socclk: u16,
    /// MHz.
    pub current_uclk: u16,
    /// MHz.
    pub current_vclk0: u16,
    /// MHz.
    pub current_dclk0: u16,
    /// MHz.
    pub current_vclk1: u16,
    /// MHz.
    pub current_dclk1: u16,
    /// Bits of this chip's own.
    pub throttle_status: u32,
    /// Turns a minute.
    pub current_fan_speed: u16,
    /// Lanes.
    pub pcie_link_width: u16,
    /// In units of 0.1 GT/s.
    pub pcie_link_speed: u16,
    /// Percent, added up.
    pub gfx_activity_acc: Count,
    /// Percent, added up.
    pub mem_activity_acc: Count,
    /// Degrees Celsius.
    pub temperature_hbm: [u16; 4],
    /// In units of 10 ns.
    pub firmware_timestamp: u64,
    /// Millivolts: the chip, the graphics engine, the memory.
    pub voltage: [u16; 3],
    /// Bits that are the same of every chip.
    pub indep_throttle_status: u64,
    /// Watts.
    pub current_socket_power: u16,
    /// Percent.
    pub vcn_activity: [u16; 4],
    /// Bits.
    pub gfxclk_lock_status: u32,
    /// Lanes.
    pub xgmi_link_width: u16,
    /// Gb/s.
    pub xgmi_link_speed: u16,
    /// GB/s, added up.
    pub pcie_bandwidth_acc: u64,
    /// GB/s.
    pub pcie_bandwidth_inst: u64,
    /// Links trained again.
    pub pcie_l0_to_recov_count_acc: u64,
    /// Packets sent again.
    pub pcie_replay_count_acc: u64,
    /// Overflows of that.
    pub pcie_replay_rover_count_acc: u64,
    /// Kilobytes by link.
    pub xgmi_read_data_acc: [u64; 8],
    /// Kilobytes by link.
    pub xgmi_write_data_acc: [u64; 8],
    /// MHz.
    pub current_gfxclks: [u16; 8],
    /// MHz.
    pub current_socclks: [u16; 4],
    /// MHz.
    pub current_vclk0s: [u16; 4],
    /// MHz.
    pub current_dclk0s: [u16; 4],
    /// Percent.
    pub jpeg_activity: [u16; 32],
    /// Packets refused.
    pub pcie_nak_sent_count_acc: Count,
    /// Packets that were refused.
    pub pcie_nak_rcvd_count_acc: Count,
    /// Cycles of the firmware.
    pub accumulation_counter: u64,
    /// Cycles in which the chip was held down, by reason.
    pub prochot_residency_acc: u64,
    /// The same.
    pub ppt_residency_acc: u64,
    /// The same.
    pub socket_thm_residency_acc: u64,
    /// The same.
    pub vr_thm_residency_acc: u64,
    /// The same.
    pub hbm_thm_residency_acc: u64,
    /// Of the chip.
    pub num_partition: u16,
    /// By partition, and what later versions of the table have.
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
