//! Where the library puts what it answers: offsets in the structs of amdsmi.h.
//!
//! The one idea: structs grew from version to version, mostly at their ends, so none of them is declared here. The
//! library writes into a [`Buffer`] that is larger than any of them, and what is read is a [`Field`] that stands where it
//! stands in every version that is known, or in the one that it names. [`FIELDS`] lists them for a test that holds them
//! against AMD's own Python wrappers, which have every struct of a version.
//!
//! Numbers are read as little-endian machines have them: others have no such GPUs.

/// Bytes of a buffer: the largest struct known has fewer than 5000.
const BYTES: usize = 1 << 16;

/// The major version of the library of ROCm 6.4.
pub(crate) const ROCM_6_4: u32 = 25;
/// The major version of the library of ROCm 7.
pub(crate) const ROCM_7: u32 = 26;

/// A member of a struct.
#[derive(Clone, Copy, Debug)]
pub struct Field {
    /// The struct.
    pub of: &'static str,
    /// The member.
    pub name: &'static str,
    /// Bytes from the beginning of the struct.
    pub at: usize,
    /// Bytes of the member.
    pub size: usize,
    /// The major version of the library that has it there; none where every known one has.
    pub only: Option<u32>,
}

/// Makes a constant of each field, and the list of them.
macro_rules! fields {
    ($($of:literal { $($field:ident = $name:literal at $at:literal size $size:literal $(only $only:ident)?;)* })*) => {
        $($(
            pub(crate) const $field: Field =
                Field { of: $of, name: $name, at: $at, size: $size, only: only!($($only)?) };
        )*)*

        /// Every field that is read.
        pub const FIELDS: &[Field] = &[$($($field),*),*];
    };
}

macro_rules! only {
    () => {
        None
    };
    ($version:ident) => {
        Some($version)
    };
}

fields! {
    "amdsmi_asic_info_t" {
        MARKET_NAME = "market_name" at 0 size 256;
    }
    "amdsmi_bdf_t" {
        BDF = "as_uint" at 0 size 8;
    }
    "amdsmi_board_info_t" {
        PRODUCT_SERIAL = "product_serial" at 256 size 256;
    }
    "amdsmi_driver_info_t" {
        DRIVER_VERSION = "driver_version" at 0 size 256;
    }
    "amdsmi_error_count_t" {
        CORRECTABLE = "correctable_count" at 0 size 8;
        UNCORRECTABLE = "uncorrectable_count" at 8 size 8;
        DEFERRED = "deferred_count" at 16 size 8;
    }
    "amdsmi_evt_notification_data_t" {
        EVENT_DEVICE = "processor_handle" at 0 size 8;
        EVENT = "event" at 8 size 4;
        EVENT_MESSAGE_25 = "message" at 12 size 96 only ROCM_6_4;
        EVENT_MESSAGE = "message" at 12 size 256 only ROCM_7;
    }
    "amdsmi_gpu_metrics_t" {
        TEMPERATURE_EDGE = "temperature_edge" at 4 size 2;
        TEMPERATURE_HOTSPOT = "temperature_hotspot" at 6 size 2;
        TEMPERATURE_MEMORY = "temperature_mem" at 8 size 2;
        ACTIVITY = "average_gfx_activity" at 16 size 2;
        POWER_AVERAGE = "average_socket_power" at 22 size 2;
        CLOCK_NS = "system_clock_counter" at 32 size 8;
        CLOCK_GRAPHICS = "current_gfxclk" at 54 size 2;
        CLOCK_SOC = "current_socclk" at 56 size 2;
        CLOCK_MEMORY = "current_uclk" at 58 size 2;
        CLOCK_VIDEO = "current_vclk0" at 60 size 2;
        THROTTLE = "indep_throttle_status" at 112 size 8;
        POWER = "current_socket_power" at 120 size 2;
        PCIE_RECOVERY = "pcie_l0_to_recov_count_acc" at 160 size 8;
        PCIE_REPLAY = "pcie_replay_count_acc" at 168 size 8;
        XGMI_READ = "xgmi_read_data_acc" at 184 size 64;
        XGMI_WRITTEN = "xgmi_write_data_acc" at 248 size 64;
        CLOCKS_GRAPHICS = "current_gfxclks" at 312 size 16;
        CLOCKS_SOC = "current_socclks" at 328 size 8;
        CLOCKS_VIDEO = "current_vclk0s" at 336 size 8;
        PCIE_NAK_SENT = "pcie_nak_sent_count_acc" at 416 size 4;
        PCIE_NAK_RECEIVED = "pcie_nak_rcvd_count_acc" at 420 size 4;
        CYCLES = "accumulation_counter" at 424 size 8;
        HELD_PROCHOT = "prochot_residency_acc" at 432 size 8;
        HELD_POWER = "ppt_residency_acc" at 440 size 8;
        HELD_SOCKET = "socket_thm_residency_acc" at 448 size 8;
        HELD_REGULATORS = "vr_thm_residency_acc" at 456 size 8;
        HELD_MEMORY = "hbm_thm_residency_acc" at 464 size 8;
    }
    "amdsmi_proc_info_t" {
        PID = "pid" at 256 size 4;
        PROCESS_MEMORY = "memory_usage" at 336 size 64;
    }
    "amdsmi_version_t" {
        VERSION_25 = "year" at 0 size 4 only ROCM_6_4;
        VERSION = "major" at 0 size 4 only ROCM_7;
    }
    "amdsmi_vbios_info_t" {
        VBIOS_VERSION_25 = "version" at 544 size 256 only ROCM_6_4;
        VBIOS_VERSION = "version" at 768 size 256 only ROCM_7;
    }
}

/// Bytes from one element of a list of `amdsmi_proc_info_t` to the next.
pub(crate) const PROCESS_STRIDE: usize = 704;
/// Where in [`PROCESS_MEMORY`] the GPU's own stands.
const PROCESS_VRAM: usize = 16;

/// What the library writes into: aligned for any struct.
#[derive(Debug)]
pub(crate) struct Buffer(Vec<u64>);

impl Buffer {
    /// One that holds any struct.
    pub(crate) fn new() -> Buffer {
        Buffer(vec![0; BYTES / 8])
    }

    /// One that holds so many processes.
    pub(crate) fn of_processes(count: usize) -> Buffer {
        Buffer(vec![0; count * PROCESS_STRIDE / 8])
    }

    /// Zero again, for the library to write into.
    pub(crate) fn clear(&mut self) -> *mut u64 {
        self.0.fill(0);
        self.0.as_mut_ptr()
    }

    /// A number; none where the library says by all ones that there is none.
    pub(crate) fn number(&self, field: Field) -> Option<u64> {
        self.element(field, 0, field.size)
    }

    /// The elements of a list of numbers of so many bytes each, in the same way.
    pub(crate) fn numbers(&self, field: Field, size: usize) -> impl Iterator<Item = Option<u64>> {
        (0..field.size / size).map(move |at| self.element(field, at, size))
    }

    /// A text up to its NUL.
    pub(crate) fn text(&self, field: Field) -> String {
        let bytes = (field.at..field.at + field.size).map(|at| self.unsigned(at, 1) as u8);
        let bytes: Vec<u8> = bytes.take_while(|byte| *byte != 0).collect();
        String::from_utf8_lossy(&bytes).trim().to_owned()
    }

    /// Pid, and bytes of the GPU's own, of a process of a list.
    pub(crate) fn process(&self, index: usize) -> (u32, u64) {
        let base = index * PROCESS_STRIDE;
        let pid = self.unsigned(base + PID.at, PID.size) as u32;
        (pid, self.unsigned(base + PROCESS_MEMORY.at + PROCESS_VRAM, 8))
    }

    fn element(&self, field: Field, index: usize, size: usize) -> Option<u64> {
        let value = self.unsigned(field.at + index * size, size);
        (value != u64::MAX >> (64 - 8 * size)).then_some(value)
    }

    /// A number stands where its size divides its offset, so never in two words.
    fn unsigned(&self, at: usize, size: usize) -> u64 {
        let word = self.0.get(at / 8).copied().unwrap_or(0) >> (at % 8 * 8);
        word & u64::MAX >> (64 - 8 * size)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_within_a_buffer_and_numbers_within_a_word() {
        for field in FIELDS {
            assert!(field.at + field.size <= BYTES, "{field:?}");
            assert!(field.size > 8 || field.at % field.size == 0, "{field:?}");
        }
    }

    #[test]
    fn all_ones_are_no_number_and_a_text_ends_at_its_nul() {
        let mut buffer = Buffer::new();
        buffer.0[0] = u64::from_le_bytes(*b"MI\0xxx\xff\xff");
        assert_eq!(buffer.text(MARKET_NAME), "MI");
        assert_eq!(buffer.number(TEMPERATURE_HOTSPOT), None);
        assert_eq!(buffer.number(TEMPERATURE_EDGE), Some(u64::from(u16::from_le_bytes(*b"xx"))));
    }
}
