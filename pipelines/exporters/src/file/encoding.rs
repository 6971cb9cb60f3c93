//! The encoding of a batch as one record.
//!
//! JSON is a line. Protobuf and compressed records are preceded by their length in four bytes, big-endian. Each
//! record is compressed separately, so that a file can be read from any record.

use pdata::Data;
use ruzstd::encoding::{CompressionLevel, compress_to_vec};

use super::config::{FileConfig, Format};

/// The format and the compression of records.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct Encoding {
    format: Format,
    is_compressed: bool,
}

impl Encoding {
    pub(super) fn of(config: &FileConfig) -> Self {
        Encoding { format: config.format, is_compressed: !config.compression.is_empty() }
    }

    /// Encodes a batch as a record with its framing.
    pub(super) fn record(self, data: &Data) -> Vec<u8> {
        let message = match self.format {
            Format::Json => pdata::json::encode(data),
            Format::Proto => {
                let mut bytes = Vec::with_capacity(data.encoded_len());
                data.encode(&mut bytes);
                bytes
            }
        };
        match (self.format, self.is_compressed) {
            (_, true) => with_length(&compress_to_vec(&message[..], CompressionLevel::Fastest)),
            (Format::Proto, false) => with_length(&message),
            (Format::Json, false) => {
                let mut line = message;
                line.push(b'\n');
                line
            }
        }
    }
}

fn with_length(message: &[u8]) -> Vec<u8> {
    let mut record = Vec::with_capacity(4 + message.len());
    record.extend(u32::try_from(message.len()).unwrap_or(u32::MAX).to_be_bytes());
    record.extend(message);
    record
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;
    use std::process::{Command, Stdio};

    use super::*;
    use crate::testing::span;

    #[test]
    fn the_zstd_tool_reads_compressed_records() {
        let tool =
            Command::new("zstd").args(["-d", "-c"]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
        let Ok(mut tool) = tool else {
            return eprintln!("skipped: there is no zstd here");
        };
        let data = span(&"name ".repeat(100_000));
        let record = Encoding { format: Format::Json, is_compressed: true }.record(&data);
        let (length, message) = record.split_first_chunk::<4>().unwrap();
        assert_eq!(u32::from_be_bytes(*length) as usize, message.len());
        let mut stdin = tool.stdin.take().unwrap();
        let message = message.to_vec();
        let writing = std::thread::spawn(move || stdin.write_all(&message).unwrap());
        let output = tool.wait_with_output().unwrap();
        writing.join().unwrap();
        assert!(output.status.success());
        assert_eq!(output.stdout, pdata::json::encode(&data));
        assert!(record.len() < output.stdout.len() / 10, "{} of {}", record.len(), output.stdout.len());
    }
}
