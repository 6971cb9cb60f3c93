//! Where the library puts what it answers: offsets in the structs of amdsmi.h.
//!
//! The one idea: structs grew from version to version, mostly at their ends, so none of them is declared here. The
//! library writes into a [`Buffer`] that is larger than any of them, and a [`Field`] says since which version of the
//! library it stands where. [`FIELDS`] lists them for a test that holds them against AMD's own Python wrappers, which
//! have every struct of a version.
//!
//! Numbers are read as little-endian machines have them: others have no such GPUs.

/// Bytes of a buffer: the largest struct known has fewer than 5000.
const BYTES: usize = 1 << 16;

/// Major versions of the library that are known: of ROCm 6.4, of ROCm 7, and of what came after.
pub const VERSIONS: [u32; 3] = [25, 26, 27];

/// A member of a struct.
#[derive(Clone, Copy, Debug)]
pub struct Field {
    /// The struct.
    pub of: &'static str,
    /// The member.
    pub name: &'static str,
    /// Where it stands.
    pub places: &'static [Place],
}

/// Where a member stands in a struct.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Place {
    /// Since this major version of the library.
    pub since: u32,
    /// Bytes from the beginning of the struct.
    pub at: usize,
    /// Bytes of the member.
    pub size: usize,
}

impl Field {
    /// Where it stands in a version of the library; none where that has it not, or nobody reads it there.
    pub fn place(&self, version: u32) -> Option<Place> {
        self.places.iter().rev().find(|place| place.since <= version).copied()
    }
}

/// Makes a constant of each field, and the list of them.
macro_rules! fields {
    ($($of:literal {
        $($field:ident = $name:literal at $at:literal size $size:literal
            $(since $since:literal at $later:literal size $larger:literal)?;)*
    })*) => {
        $($(
            pub(crate) const $field: Field = Field {
                of: $of,
                name: $name,
                places: &[
                    Place { since: VERSIONS[0], at: $at, size: $size },
                    $(Place { since: $since, at: $later, size: $larger })?
                ],
            };
        )*)*

        /// Every field that is read.
        pub const FIELDS: &[Field] = &[$($($field),*),*];
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

/// Bytes from one element of a list of `amdsmi_proc_info_t` to the next.
pub(crate) const PROCESS_STRIDE: usize = 704;
/// Where in [`PROCESS_MEMORY`] the GPU's own stands.
const PROCESS_VRAM: usize = 16;

/// What a library of some version writes into: aligned for any struct.
#[derive(Debug)]
pub(crate) struct Buffer {
    version: u32,
    words: Vec<u64>,
}

impl Buffer {
    /// One that holds any struct.
    pub(crate) fn new(version: u32) -> Buffer {
        Buffer { version, words: vec![0; BYTES / 8] }
    }

    /// One that holds so many processes.
    pub(crate) fn of_processes(version: u32, count: usize) -> Buffer {
        Buffer { version, words: vec![0; count * PROCESS_STRIDE / 8] }
    }

    /// Zero again, for the library to write into.
    pub(crate) fn clear(&mut self) -> *mut u64 {
        self.words.fill(0);
        self.words.as_mut_ptr()
    }

    /// A number; none where the library says by all ones that there is none.
    pub(crate) fn number(&self, field: Field) -> Option<u64> {
        let Place { at, size, .. } = field.place(self.version)?;
        self.unsigned(at, size)
    }

    /// The elements of a list of numbers of so many bytes each, in the same way.
    pub(crate) fn numbers(&self, field: Field, size: usize) -> impl Iterator<Item = Option<u64>> {
        let place = field.place(self.version);
        let places =
            place.into_iter().flat_map(move |place| (0..place.size / size).map(move |n| place.at + n * size));
        places.map(move |at| self.unsigned(at, size))
    }

    /// A text up to its NUL.
    pub(crate) fn text(&self, field: Field) -> String {
        let places = field.place(self.version).into_iter().flat_map(|place| place.at..place.at + place.size);
        let bytes: Vec<u8> = places.map(|at| self.bytes(at, 1) as u8).take_while(|byte| *byte != 0).collect();
        String::from_utf8_lossy(&bytes).trim().to_owned()
    }

    /// The first number of the library's version, before that is known: the year of a library before ROCm 7, and the
    /// major version since, the same 25 and 26.
    pub(crate) fn first(&self) -> u32 {
        self.bytes(0, 4) as u32
    }

    /// Pid, and bytes of the GPU's own, of a process of a list.
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

    /// A number stands where its size divides its offset, so never in two words.
    fn bytes(&self, at: usize, size: usize) -> u64 {
        let word = self.words.get(at / 8).copied().unwrap_or(0) >> (at % 8 * 8);
        word & u64::MAX >> (64 - 8 * size)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_within_a_buffer_and_numbers_within_a_word() {
        for (field, place) in FIELDS.iter().flat_map(|field| field.places.iter().map(move |p| (field, p))) {
            assert!(place.at + place.size <= BYTES, "{field:?}");
            assert!(place.size > 8 || place.at % place.size == 0, "{field:?}");
        }
    }

    #[test]
    fn all_ones_are_no_number_and_a_text_ends_at_its_nul() {
        let mut buffer = Buffer::new(26);
        buffer.words[0] = u64::from_le_bytes(*b"MI\0xxx\xff\xff");
        assert_eq!(buffer.text(MARKET_NAME), "MI");
        assert_eq!(buffer.number(TEMPERATURE_HOTSPOT), None);
        assert_eq!(buffer.number(TEMPERATURE_EDGE), Some(u64::from(u16::from_le_bytes(*b"xx"))));
    }
}
