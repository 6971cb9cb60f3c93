//! The unit in which the size of a queue or a batch is counted.

use std::fmt;

use pdata::Data;

config::choice! {
    /// The unit of a size.
    #[derive(Default)]
    pub enum Sizer {
        /// Number of requests.
        #[default]
        Requests = "requests",
        /// Number of log records, metric points, spans or profile samples.
        Items = "items",
        /// Number of bytes as uncompressed protobuf.
        Bytes = "bytes",
    }
}

impl Sizer {
    /// Returns the size of `data` in this unit.
    pub fn size_of(self, data: &Data) -> u64 {
        match self {
            Sizer::Requests => 1,
            Sizer::Items => data.items() as u64,
            Sizer::Bytes => data.encoded_len() as u64,
        }
    }
}

impl fmt::Display for Sizer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Sizer::Requests => "requests",
            Sizer::Items => "items",
            Sizer::Bytes => "bytes",
        })
    }
}
