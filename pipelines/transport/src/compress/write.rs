//! Compression of a whole request in memory.

use std::io::Write;

use flate2::write::{GzEncoder, ZlibEncoder};
use ruzstd::encoding::{CompressionLevel, compress_to_vec};

use super::{Compression, Level};

const INFALLIBLE: &str = "writing to a vector does not fail";

pub(super) fn compress(compression: Compression, level: Level, bytes: &[u8]) -> Vec<u8> {
    match compression {
        Compression::None => bytes.to_vec(),
        Compression::Gzip => gzip(level, bytes),
        Compression::Deflate | Compression::Zlib => zlib(level, bytes),
        Compression::Zstd => compress_to_vec(bytes, CompressionLevel::Fastest),
        Compression::Snappy => {
            snap::raw::Encoder::new().compress_vec(bytes).expect("requests stay far below snappy's 4 GiB")
        }
        Compression::SnappyFramed => snappy_framed(bytes),
        Compression::Lz4 => lz4(bytes),
    }
}

/// Allocates the output for half of the input, a typical ratio for telemetry.
fn out(bytes: &[u8]) -> Vec<u8> {
    Vec::with_capacity(bytes.len() / 2)
}

fn effort(level: Level) -> flate2::Compression {
    match level.0 {
        1..=9 => flate2::Compression::new(level.0.unsigned_abs()),
        -2 => flate2::Compression::fast(),
        _ => flate2::Compression::default(),
    }
}

fn gzip(level: Level, bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(out(bytes), effort(level));
    encoder.write_all(bytes).and_then(|()| encoder.finish()).expect(INFALLIBLE)
}

fn zlib(level: Level, bytes: &[u8]) -> Vec<u8> {
    let mut encoder = ZlibEncoder::new(out(bytes), effort(level));
    encoder.write_all(bytes).and_then(|()| encoder.finish()).expect(INFALLIBLE)
}

fn snappy_framed(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = snap::write::FrameEncoder::new(out(bytes));
    encoder.write_all(bytes).expect(INFALLIBLE);
    encoder.into_inner().map_err(|e| e.error().kind()).expect(INFALLIBLE)
}

fn lz4(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = lz4_flex::frame::FrameEncoder::new(out(bytes));
    encoder.write_all(bytes).expect(INFALLIBLE);
    encoder.finish().expect(INFALLIBLE)
}
