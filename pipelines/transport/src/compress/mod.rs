//! Compression and decompression in the formats of the Collector, each a row of one table, in pure Rust.
//!
//! Decompression is bounded, since a few kilobytes can expand to gigabytes. A component decides which formats it
//! accepts.

mod read;
mod write;

use std::fmt;

use config::Setting;
use serde::Deserialize;
use serde::de::{Deserializer, Error};

pub use read::DecompressError;

/// A compression format.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
pub enum Compression {
    /// No compression.
    #[default]
    None,
    /// HTTP's deflate, which is the zlib format.
    Deflate,
    /// gzip, possibly with several members.
    Gzip,
    /// The LZ4 frame format.
    Lz4,
    /// Snappy's block format; decompression detects the frame format, as the Collector does.
    Snappy,
    /// Snappy's frame format.
    SnappyFramed,
    /// The zlib format.
    Zlib,
    /// Zstandard.
    Zstd,
}

/// The name of each compression in `Content-Encoding` and in configurations.
const NAMES: [(Compression, &str); 7] = [
    (Compression::Deflate, "deflate"),
    (Compression::Gzip, "gzip"),
    (Compression::Lz4, "lz4"),
    (Compression::Snappy, "snappy"),
    (Compression::SnappyFramed, "x-snappy-framed"),
    (Compression::Zlib, "zlib"),
    (Compression::Zstd, "zstd"),
];

impl Compression {
    /// All compressions other than `None`, sorted by name.
    pub const ALL: [Compression; 7] = {
        let mut all = [Compression::None; 7];
        let mut i = 0;
        while i < all.len() {
            all[i] = NAMES[i].0;
            i += 1;
        }
        all
    };

    /// Returns the name in `Content-Encoding`, empty for `None`.
    pub fn name(self) -> &'static str {
        NAMES.iter().find(|(c, _)| *c == self).map_or("", |(_, name)| name)
    }

    /// Returns the compression of a name; `""`, `none` and `identity` are `None`.
    pub fn by_name(name: &str) -> Option<Self> {
        let name = name.trim();
        if ["", "identity", "none"].iter().any(|none| none.eq_ignore_ascii_case(name)) {
            return Some(Compression::None);
        }
        NAMES.iter().find(|(_, n)| n.eq_ignore_ascii_case(name)).map(|(c, _)| *c)
    }

    /// Compresses bytes.
    pub fn compress(self, level: Level, bytes: &[u8]) -> Vec<u8> {
        write::compress(self, level, bytes)
    }

    /// Decompresses bytes to at most `bytes_max` bytes.
    pub fn decompress(self, bytes: &[u8], bytes_max: usize) -> Result<Vec<u8>, DecompressError> {
        read::decompress(self, bytes, bytes_max)
    }

    /// Checks that the Collector accepts `level` for this compression.
    pub fn check_level(self, level: Level) -> Result<(), String> {
        let fits = match self {
            Compression::Deflate | Compression::Gzip | Compression::Zlib => (-2..=9).contains(&level.0),
            Compression::Zstd => true,
            _ => level.0 == 0,
        };
        let name = if self == Compression::None { "none" } else { self.name() };
        if fits {
            return Ok(());
        }
        Err(format!("unsupported parameters {{Level:{}}} for compression type {name:?}", level.0))
    }
}

impl fmt::Display for Compression {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl<'de> Deserialize<'de> for Compression {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let name = String::deserialize(deserializer)?;
        // Only HTTP ignores case and knows `identity`; configurations use the Collector's names.
        let found = Compression::by_name(&name).filter(|c| c.name() == name || name == "none");
        found.ok_or_else(|| {
            let names = NAMES.map(|(_, name)| name).join(", ");
            D::Error::custom(format_args!("unsupported compression type {name:?}: expected {names} or none"))
        })
    }
}

/// A compression level from 1 (fastest) to 9 (smallest); 0 and -1 select the default. Only gzip, zlib and
/// deflate have levels; Zstandard always uses its fastest.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq)]
#[serde(transparent)]
pub struct Level(pub i32);

impl Setting for Compression {
    fn kind() -> String {
        let names = NAMES.map(|(_, name)| format!("{name:?}")).join(", ");
        format!("{names} or \"none\"")
    }

    fn shown(&self) -> String {
        match self {
            Compression::None => "none".to_owned(),
            other => other.name().to_owned(),
        }
    }
}

impl Setting for Level {
    fn kind() -> String {
        "integer".to_owned()
    }

    fn shown(&self) -> String {
        self.0.to_string()
    }
}

#[cfg(test)]
mod tests;
