//! Offsets of members in the structs of amdsmi.h.
//!
//! Structs grew from version to version, mostly at their ends, so none is declared here. The library writes into a
//! [`Buffer`] that is larger than any of them, and a [`StructField`] has the offset of a member by library version. [`FIELDS`]
//! lists them for a test that compares them with AMD's own Python wrappers, which declare every struct of a version.
//!
//! Numbers are little-endian, as on every machine with such GPUs.

/// Size of a buffer in bytes: the largest known struct has fewer than 5000.
const BYTES: usize = 1 << 16;

/// Known major versions of the library: of ROCm 6.4, ROCm 7, and its successor.
pub const VERSIONS: [u32; 3] = [25, 26, 27];

/// A member of a struct.
#[derive(Clone, Copy, Debug)]
pub struct StructField {
    /// Name of the struct.
    pub of: &'static str,
    /// Name of the member.
    pub name: &'static str,
    /// Offsets by version.
    pub places: &'static [Place],
}

/// The location of a member in a struct.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Place {
    /// First major version of the library with this location.
    pub since: u32,
    /// Offset in bytes.
    pub at: usize,
    /// Size in bytes.
    pub size: usize,
}

impl StructField {
    /// Returns the location in a version of the library, or `None` if that version does not have it or it is not read.
    pub fn place(&self, version: u32) -> Option<Place> {
        self.places.iter().rev().find(|place| place.since <= version).copied()
    }
}

/// Defines a constant for each field, and the list of all.
macro_rules! fields {
    ($($of:literal {
        $($field:ident = $name:literal at $at:literal size $size:literal
            $(since $since:literal at $later:literal size $larger:literal)?;)*
    })*) => {
        $($(
            pub(crate) const $field: StructField = StructField {
                of: $of,
                name: $name,
                places: &[
                    Place { since: VERSIONS[0], at: $at, size: $size },
                    $(Place { since: $since, at: $later, size: $larger })?
                ],
            };
        )*)*

        /// All fields of the structs.
        pub const FIELDS: &[StructField] = &[$($($field),*),*];
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
        EVENT_MESSAGE = "message" at 12 size 96 since 26 at 12 size 256;
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
        THROTTLE = "indep_throttle_status" at 112 size 8 since 27 at 120 size 8;
        POWER = "current_socket_power" at 120 size 2 since 27 at 128 size 2;
        PCIE_RECOVERY = "pcie_l0_to_recov_count_acc" at 160 size 8 since 27 at 168 size 8;
        PCIE_REPLAY = "pcie_replay_count_acc" at 168 size 8 since 27 at 176 size 8;
        XGMI_READ = "xgmi_read_data_acc" at 184 size 64 since 27 at 192 size 64;
        XGMI_WRITTEN = "xgmi_write_data_acc" at 248 size 64 since 27 at 256 size 64;
        CLOCKS_GRAPHICS = "current_gfxclks" at 312 size 16 since 27 at 320 size 16;
        CLOCKS_SOC = "current_socclks" at 328 size 8 since 27 at 336 size 8;
        CLOCKS_VIDEO = "current_vclk0s" at 336 size 8 since 27 at 344 size 8;
        PCIE_NAK_SENT = "pcie_nak_sent_count_acc" at 416 size 4 since 27 at 424 size 8;
        PCIE_NAK_RECEIVED = "pcie_nak_rcvd_count_acc" at 420 size 4 since 27 at 432 size 8;
        CYCLES = "accumulation_counter" at 424 size 8 since 27 at 440 size 8;
        HELD_PROCHOT = "prochot_residency_acc" at 432 size 8 since 27 at 448 size 8;
        HELD_POWER = "ppt_residency_acc" at 440 size 8 since 27 at 456 size 8;
        HELD_SOCKET = "socket_thm_residency_acc" at 448 size 8 since 27 at 464 size 8;
        HELD_REGULATORS = "vr_thm_residency_acc" at 456 size 8 since 27 at 472 size 8;
        HELD_MEMORY = "hbm_thm_residency_acc" at 464 size 8 since 27 at 480 size 8;
    }
    "amdsmi_proc_info_t" {
        PID = "pid" at 256 size 4;
        PROCESS_MEMORY = "memory_usage" at 336 size 64;
    }
    "amdsmi_vbios_info_t" {
        VBIOS_VERSION = "version" at 544 size 256 since 26 at 768 size 256;
    }
}

/// Size of `amdsmi_proc_info_t` in bytes.
pub(crate) const PROCESS_STRIDE: usize = 704;
/// Offset of the device memory in [`PROCESS_MEMORY`].
const PROCESS_VRAM: usize = 16;

/// Memory that the library writes a struct into, aligned for any struct.
#[derive(Debug)]
pub(crate) struct Buffer {
    version: u32,
    words: Vec<u64>,
}

impl Buffer {
    /// Returns a buffer for any struct.
    pub(crate) fn new(version: u32) -> Buffer {
        Buffer { version, words: vec![0; BYTES / 8] }
    }

    /// Returns a buffer for `count` processes.
    pub(crate) fn of_processes(version: u32, count: usize) -> Buffer {
        Buffer { version, words: vec![0; count * PROCESS_STRIDE / 8] }
    }

    /// Zeroes the buffer and returns a pointer to it.
    pub(crate) fn clear(&mut self) -> *mut u64 {
        self.words.fill(0);
        self.words.as_mut_ptr()
    }

    /// Returns a number, or `None` if all its bits are set, which the library uses for missing values.
    pub(crate) fn number(&self, field: StructField) -> Option<u64> {
        let Place { at, size, .. } = field.place(self.version)?;
        self.unsigned(at, size)
    }

    /// Returns the elements of a list of numbers of `size` bytes, with `None` for missing values.
    pub(crate) fn numbers(&self, field: StructField, size: usize) -> impl Iterator<Item = Option<u64>> {
        let place = field.place(self.version);
        let places =
            place.into_iter().flat_map(move |place| (0..place.size / size).map(move |n| place.at + n * size));
        places.map(move |at| self.unsigned(at, size))
    }

    /// Returns a text up to its NUL.
    pub(crate) fn text(&self, field: StructField) -> String {
        let places = field.place(self.version).into_iter().flat_map(|place| place.at..place.at + place.size);
        let bytes: Vec<u8> = places.map(|at| self.bytes(at, 1) as u8).take_while(|byte| *byte != 0).collect();
        String::from_utf8_lossy(&bytes).trim().to_owned()
    }

    /// Returns the first number of the library's version: the year before ROCm 7, the major version since; both were 25
    /// and 26.
    pub(crate) fn first(&self) -> u32 {
        self.bytes(0, 4) as u32
    }

    /// Returns pid and bytes of device memory of a process in a list.
    pub(crate) fn process(&self, index: usize) -> Option<(u32, u64)> {
        let (pid, memory) = (PID.place(self.version)?, PROCESS_MEMORY.place(self.version)?);
        let base = index * PROCESS_STRIDE;
        let pid = self.bytes(base + pid.at, pid.size) as u32;
        Some((pid, self.bytes(base + memory.at + PROCESS_VRAM, 8)))
    }

    fn unsigned(&self, at: usize, size: usize) -> Option<u64> {
        let value = self.bytes(at, size);
        (value != u64::MAX >> (64 - 8 * size)).then_some(value)
    }

    /// Reads a number; its size divides its offset, so that it is never in two words.
    fn bytes(&self, at: usize, size: usize) -> u64 {
        let word = self.words.get(at / 8).copied().unwrap_or(0) >> (at % 8 * 8);
        word & u64::MAX >> (64 - 8 * size)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_within_a_buffer_and_numbers_in_one_word() {
        for (field, place) in FIELDS.iter().flat_map(|field| field.places.iter().map(move |p| (field, p))) {
            assert!(place.at + place.size <= BYTES, "{field:?}");
            assert!(place.size > 8 || place.at % place.size == 0, "{field:?}");
        }
    }

    #[test]
    fn all_ones_are_missing_and_text_ends_at_nul() {
        let mut buffer = Buffer::new(26);
        buffer.words[0] = u64::from_le_bytes(*b"MI\0xxx\xff\xff");
        assert_eq!(buffer.text(MARKET_NAME), "MI");
        assert_eq!(buffer.number(TEMPERATURE_HOTSPOT), None);
        assert_eq!(buffer.number(TEMPERATURE_EDGE), Some(u64::from(u16::from_le_bytes(*b"xx"))));
    }
}
