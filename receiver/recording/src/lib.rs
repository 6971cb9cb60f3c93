//! Recordings: files of events, whose replay has the same result, byte for byte, as the live analysis.
//!
//! A recording is a sequence of checksummed frames, written and read without seeking, so that a truncated recording is
//! valid up to its last whole frame. FORMAT.md describes the format. The caller opens files and flushes.
//!
//! [`persisted`] is the frame of records that outlive the agent; both formats share one [`codec`].

pub mod codec;
mod fields;
mod frames;
pub mod input;
pub mod persisted;
mod reader;
mod writer;

use event::ClockOffsets;
use probe_abi::PROBES;

pub use self::codec::TEXT_MAX;
pub use self::reader::{Reader, RecordingError};
pub use self::writer::Writer;

/// The first bytes of a recording.
pub const MAGIC: [u8; 8] = *b"\x89WTAP\r\n\x1a";
/// The format's version, major and minor.
pub const VERSION: (u16, u16) = (1, 5);
/// Maximum payload of a frame, bytes.
pub const FRAME_MAX: u32 = 8 << 20;
/// Maximum length of a list in an event; longer ones are cut.
pub const LIST_MAX: usize = 256;

/// The architecture of a machine.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
#[repr(u16)]
pub enum Architecture {
    /// An unknown architecture.
    #[default]
    Unknown = 0,
    /// x86-64.
    X86_64 = 1,
    /// AArch64.
    Aarch64 = 2,
}

impl Architecture {
    /// Returns the architecture of this build.
    pub const fn here() -> Architecture {
        match () {
            () if cfg!(target_arch = "x86_64") => Architecture::X86_64,
            () if cfg!(target_arch = "aarch64") => Architecture::Aarch64,
            () => Architecture::Unknown,
        }
    }
}

/// The header of a recording.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Info {
    /// Architecture of the recorded machine.
    pub architecture: Architecture,
    /// Version of the agent that wrote the recording.
    pub agent_version: String,
    /// Clock offsets at the beginning.
    pub clock: ClockOffsets,
    /// Probe rows of the writer: id and symbol.
    pub rows: Vec<(u16, String)>,
}

impl Info {
    /// Returns the header of a recording of this build.
    pub fn here(agent_version: &str, clock: ClockOffsets) -> Info {
        Info {
            architecture: Architecture::here(),
            agent_version: agent_version.into(),
            clock,
            rows: PROBES.iter().map(|p| (p.id, p.symbol.into())).collect(),
        }
    }

    /// Returns the symbol of a row id in the probe table of the writer.
    pub fn symbol(&self, row: u16) -> Option<&str> {
        self.rows.iter().find(|(id, _)| *id == row).map(|(_, symbol)| symbol.as_str())
    }
}

#[cfg(test)]
mod tests;
