//! The compressions that OTLP meets, both ways, each a row of one table.
//!
//! The one idea: a compression is a name and two functions over bytes, and the one that undoes it is told how
//! large the result may become, since a few kilobytes can stand for gigabytes. Everything is pure Rust. Which
//! of them a component takes, and what it answers to the others, is left to it.

mod read;
mod write;

use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, Error};

pub use read::DecompressError;

/// A compression, or none.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
pub enum Compression {
    /// As it is.
    #[default]
    None,
    /// What HTTP calls deflate, which is zlib's format.
    Deflate,
    /// gzip; several members one after the other are one text.
    Gzip,
    /// LZ4 in frames.
    Lz4,
    /// Snappy's block format; in frames it is understood as well, as the Collector does.
    Snappy,
    /// Snappy in frames.
    SnappyFramed,
    /// zlib's format.
    Zlib,
    /// Zstandard.
    Zstd,
}

/// Each compression with its name in `Content-Encoding` and in configurations.
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
    /// All that change the bytes, in the order of their names.
    pub const ALL: [Compression; 7] = {
        let mut all = [Compression::None; 7];
        let mut i = 0;
        while i < all.len() {
            all[i] = NAMES[i].0;
            i += 1;
        }
        all
    };

    /// The name in `Content-Encoding`; empty for none.
    pub fn name(self) -> &'static str {
        NAMES.iter().find(|(c, _)| *c == self).map_or("", |(_, name)| name)
    }

    /// The compression that goes by a name; `""`, `none` and `identity` are none.
    pub fn by_name(name: &str) -> Option<Self> {
        let name = name.trim();
        if ["", "identity", "none"].iter().any(|none| none.eq_ignore_ascii_case(name)) {
            return Some(Compression::None);
        }
        NAMES.iter().find(|(_, n)| n.eq_ignore_ascii_case(name)).map(|(c, _)| *c)
    }

    /// The bytes compressed.
    pub fn compress(self, level: Level, bytes: &[u8]) -> Vec<u8> {
        write::compress(self, level, bytes)
    }

    /// The bytes as they were before compression, of which there may be `bytes_max`.
    pub fn decompress(self, bytes: &[u8], bytes_max: usize) -> Result<Vec<u8>, DecompressError> {
        read::decompress(self, bytes, bytes_max)
    }

    /// Whether `level` is one that the Collector takes for this compression.
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
        // Case and `identity` are the wire's leniencies; configurations are written as the Collector has them.
        let found = Compression::by_name(&name).filter(|c| c.name() == name || name == "none");
        found.ok_or_else(|| {
            let names = NAMES.map(|(_, name)| name).join(", ");
            D::Error::custom(format_args!("unsupported compression type {name:?}: expected {names} or none"))
        })
    }
}

/// How much effort compression takes: 1, the least, to 9, the most; 0 and -1 leave it to the compression.
/// Only gzip, zlib and deflate know levels: Zstandard is always written at its fastest.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq)]
#[serde(transparent)]
pub struct Level(pub i32);

#[cfg(test)]
mod tests;
