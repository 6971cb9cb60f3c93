//! Bounded decompression. A size in the header is only used to refuse; memory grows with the bytes decoded.

use std::io::{ErrorKind, Read};

use flate2::read::{MultiGzDecoder, ZlibDecoder};
use ruzstd::decoding::errors::{FrameDecoderError, ReadFrameHeaderError};
use ruzstd::decoding::{BlockDecodingStrategy, FrameDecoder};

use super::Compression;

/// Largest window of a Zstandard frame, in bytes, if the limit for the result is smaller: the decoder buffers
/// that much before it returns anything.
const ZSTD_WINDOW_BYTES_MAX: u64 = 32 * 1024 * 1024;

/// The first bytes of snappy's frame format.
const SNAPPY_FRAMED: &[u8] = b"\xff\x06\x00\x00sNaPpY";

/// The reason why bytes cannot be decompressed.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum DecompressError {
    /// The result would exceed the limit.
    #[error("the decompressed body is larger than {bytes_max} bytes")]
    TooLarge {
        /// Limit of the decompressed size, in bytes.
        bytes_max: usize,
    },
    /// The bytes are not valid.
    #[error("cannot decompress {name}: {reason}")]
    Broken {
        /// Name of the compression.
        name: &'static str,
        /// The error of the decoder.
        reason: String,
    },
}

pub(super) fn decompress(
    compression: Compression,
    bytes: &[u8],
    bytes_max: usize,
) -> Result<Vec<u8>, DecompressError> {
    let broken = |reason| DecompressError::Broken { name: compression.name(), reason };
    let result = match compression {
        Compression::None => decode(bytes_max, bytes),
        Compression::Gzip => decode(bytes_max, MultiGzDecoder::new(bytes)),
        Compression::Deflate | Compression::Zlib => decode(bytes_max, ZlibDecoder::new(bytes)),
        Compression::Zstd => zstd(bytes_max, bytes),
        Compression::Snappy if !bytes.starts_with(SNAPPY_FRAMED) => snappy_block(bytes_max, bytes),
        Compression::Snappy | Compression::SnappyFramed => {
            decode(bytes_max, snap::read::FrameDecoder::new(bytes))
        }
        Compression::Lz4 => lz4(bytes_max, bytes),
    };
    match result {
        Ok(Some(bytes)) => Ok(bytes),
        Ok(None) => Err(DecompressError::TooLarge { bytes_max }),
        Err(reason) => Err(broken(reason)),
    }
}

/// The decompressed bytes, or `None` if they exceed the limit.
type Decompressed = Result<Option<Vec<u8>>, String>;

fn decode(bytes_max: usize, decoder: impl Read) -> Decompressed {
    let mut out = Vec::new();
    append(&mut out, bytes_max, decoder)?;
    Ok(Some(out).filter(|out| out.len() <= bytes_max))
}

/// Appends the output of a decoder, and stops one byte after the limit.
fn append(out: &mut Vec<u8>, bytes_max: usize, decoder: impl Read) -> Result<(), String> {
    let limit = (bytes_max - out.len().min(bytes_max)) as u64 + 1;
    decoder.take(limit).read_to_end(out).map(drop).map_err(|e| match e.kind() {
        ErrorKind::UnexpectedEof => "it is truncated".to_owned(),
        _ => e.to_string(),
    })
}

/// Decompresses a block. Its size is in front, and is checked before memory is allocated.
fn snappy_block(bytes_max: usize, bytes: &[u8]) -> Decompressed {
    let size = snap::raw::decompress_len(bytes).map_err(|e| e.to_string())?;
    if size > bytes_max {
        return Ok(None);
    }
    // A byte of snappy expands to at most 64 bytes; a larger size is invalid.
    if size > bytes.len().saturating_mul(64) {
        return Err(format!("{} bytes cannot expand to {size}", bytes.len()));
    }
    snap::raw::Decoder::new().decompress_vec(bytes).map(Some).map_err(|e| e.to_string())
}

/// Decompresses consecutive frames; the decoder stops after each.
fn lz4(bytes_max: usize, mut bytes: &[u8]) -> Decompressed {
    let mut out = Vec::new();
    while !bytes.is_empty() && out.len() <= bytes_max {
        let before = bytes.len();
        append(&mut out, bytes_max, lz4_flex::frame::FrameDecoder::new(&mut bytes))?;
        if bytes.len() == before {
            return Err("no frame".to_owned());
        }
    }
    Ok(Some(out).filter(|out| out.len() <= bytes_max))
}

/// Decompresses consecutive frames, skippable ones among them.
fn zstd(bytes_max: usize, mut bytes: &[u8]) -> Decompressed {
    let mut out = Vec::new();
    while !bytes.is_empty() {
        let mut decoder = FrameDecoder::new();
        match window_bytes(bytes) {
            Some(window) if window > ZSTD_WINDOW_BYTES_MAX.max(bytes_max as u64) => return Ok(None),
            _ => {}
        }
        match decoder.init(&mut bytes) {
            Ok(()) => {}
            Err(FrameDecoderError::ReadFrameHeaderError(ReadFrameHeaderError::SkipFrame {
                length, ..
            })) => {
                bytes = bytes.get(length as usize..).ok_or("it is truncated")?;
                continue;
            }
            Err(e) => return Err(e.to_string()),
        }
        if decoder.content_size() > bytes_max as u64 {
            return Ok(None);
        }
        if !zstd_frame(&mut out, bytes_max, &mut decoder, &mut bytes)? {
            return Ok(None);
        }
    }
    Ok(Some(out))
}

/// Appends the content of one frame, block by block; returns false if it exceeds the limit.
fn zstd_frame(
    out: &mut Vec<u8>,
    bytes_max: usize,
    decoder: &mut FrameDecoder,
    bytes: &mut &[u8],
) -> Result<bool, String> {
    while !decoder.is_finished() {
        let one = BlockDecodingStrategy::UptoBlocks(1);
        decoder.decode_blocks(&mut *bytes, one).map_err(|e| e.to_string())?;
        if out.len() + decoder.can_collect() > bytes_max {
            return Ok(false);
        }
        decoder.collect_to_writer(&mut *out).map_err(|e| e.to_string())?;
    }
    match (decoder.get_checksum_from_data(), decoder.get_calculated_checksum()) {
        (Some(expected), Some(found)) if expected != found => {
            Err(format!("checksum is {found:08x}, expected {expected:08x}"))
        }
        _ => Ok(out.len() <= bytes_max),
    }
}

/// Returns the window size in a frame's header (RFC 8878, 3.1.1.1).
fn window_bytes(frame: &[u8]) -> Option<u64> {
    const MAGIC: [u8; 4] = 0xFD2F_B528_u32.to_le_bytes();
    const SINGLE_SEGMENT: u8 = 1 << 5;
    let (descriptor, rest) = frame.strip_prefix(&MAGIC)?.split_first()?;
    if descriptor & SINGLE_SEGMENT != 0 {
        return None; // The content size serves as the window; it is checked after the header.
    }
    let window = rest.first()?;
    let base = 1u64 << (10 + (window >> 3));
    Some(base + base / 8 * u64::from(window & 7))
}
