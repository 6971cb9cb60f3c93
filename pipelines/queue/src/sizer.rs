//! What a queue or a batch counts.

use std::fmt;

use component::Data;
use serde::Deserialize;

/// What is counted.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq)]
#[serde(rename_all = "lowercase")]
pub enum Sizer {
    /// Requests.
    #[default]
    Requests,
    /// Log records, metric points, spans.
    Items,
    /// Bytes of the request as protobuf.
    Bytes,
}

impl Sizer {
    /// The size of data by this count.
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
