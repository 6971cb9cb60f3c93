//! Recordings: events written down so that replaying them gives, byte for byte, what they gave live.
//!
//! The one idea: a file of checked frames that is written and read front to back, with no seek and no index, so a
//! recording cut anywhere is whole up to there. FORMAT.md has the picture. Opening files, and when
//! to flush, is left to the caller.

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
pub const VERSION: (u16, u16) = (1, 3);
/// The longest payload of a frame, bytes.
pub const FRAME_MAX: u32 = 8 << 20;
/// The longest list; longer ones are cut.
pub const LIST_MAX: usize = 256;

/// A machine's architecture.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
#[repr(u16)]
pub enum Architecture {
    /// None of the others.
    #[default]
    Unknown = 0,
    /// x86-64.
    X86_64 = 1,
    /// AArch64.
    Aarch64 = 2,
}

impl Architecture {
    /// The one that this code was built for.
    pub const fn here() -> Architecture {
        match () {
            () if cfg!(target_arch = "x86_64") => Architecture::X86_64,
            () if cfg!(target_arch = "aarch64") => Architecture::Aarch64,
            () => Architecture::Unknown,
        }
    }
}

/// What a recording says of itself before its first event.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Info {
    /// The recorded machine's.
    pub architecture: Architecture,
    /// The version of the agent that wrote it.
    pub agent_version: String,
    /// The clocks when it began.
    pub clock: ClockOffsets,
    /// The writer's probe table: id and symbol of each row.
    pub rows: Vec<(u16, String)>,
}

impl Info {
    /// What a recording begun here and now says.
    pub fn here(agent_version: &str, clock: ClockOffsets) -> Info {
        Info {
            architecture: Architecture::here(),
            agent_version: agent_version.into(),
            clock,
            rows: PROBES.iter().map(|p| (p.id, p.symbol.into())).collect(),
        }
    }

    /// The symbol that the writer knew under a row's id.
    pub fn symbol(&self, row: u16) -> Option<&str> {
        self.rows.iter().find(|(id, _)| *id == row).map(|(_, symbol)| symbol.as_str())
    }
}

#[cfg(test)]
mod tests;
