//! Decompressing, up to a size. What the bytes themselves say of the size is believed only where it is too
//! large: memory grows with what was really there.

use std::io::{ErrorKind, Read};

use flate2::read::{MultiGzDecoder, ZlibDecoder};
use ruzstd::decoding::errors::{FrameDecoderError, ReadFrameHeaderError};
use ruzstd::decoding::{BlockDecodingStrategy, FrameDecoder};

use super::Compression;

/// How far back in its text a Zstandard frame may point where the text may be shorter than that: a decoder
/// holds so much before it gives anything out.
const ZSTD_WINDOW_BYTES_MAX: u64 = 32 * 1024 * 1024;

/// A stream in snappy's framing format begins so.
const SNAPPY_FRAMED: &[u8] = b"\xff\x06\x00\x00sNaPpY";

/// Why bytes cannot be decompressed.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum DecompressError {
    /// The result is larger than it may be.
    #[error("the decompressed body is larger than {bytes_max} bytes")]
    TooLarge {
        /// How large it may be.
        bytes_max: usize,
    },
    /// The bytes are not in the format.
    #[error("cannot decompress {name}: {reason}")]
    Broken {
        /// The compression.
        name: &'static str,
        /// What is wrong.
        reason: String,
    },
}

pub(super) fn decompress(
    compression: Compression,
    bytes: &[u8],
    bytes_max: usize,
) -> Result<Vec<u8>, DecompressError> {
    let broken = |reason| DecompressError::Broken { name: compression.name(), reason };
    let taken = match compression {
        Compression::None => take(bytes_max, bytes),
        Compression::Gzip => take(bytes_max, MultiGzDecoder::new(bytes)),
        Compression::Deflate | Compression::Zlib => take(bytes_max, ZlibDecoder::new(bytes)),
        Compression::Zstd => zstd(bytes_max, bytes),
        Compression::Snappy if !bytes.starts_with(SNAPPY_FRAMED) => snappy_block(bytes_max, bytes),
        Compression::Snappy | Compression::SnappyFramed => {
            take(bytes_max, snap::read::FrameDecoder::new(bytes))
        }
        Compression::Lz4 => lz4(bytes_max, bytes),
    };
    match taken {
        Ok(Some(text)) => Ok(text),
        Ok(None) => Err(DecompressError::TooLarge { bytes_max }),
        Err(reason) => Err(broken(reason)),
    }
}

/// The whole text, or none where it is too large.
type Taken = Result<Option<Vec<u8>>, String>;

fn take(bytes_max: usize, decoder: impl Read) -> Taken {
    let mut out = Vec::new();
    append(&mut out, bytes_max, decoder)?;
    Ok(Some(out).filter(|out| out.len() <= bytes_max))
}

/// Appends what the decoder gives, and stops one byte after the limit.
fn append(out: &mut Vec<u8>, bytes_max: usize, decoder: impl Read) -> Result<(), String> {
    let room = (bytes_max - out.len().min(bytes_max)) as u64 + 1;
    decoder.take(room).read_to_end(out).map(drop).map_err(|e| match e.kind() {
        ErrorKind::UnexpectedEof => "it ends too early".to_owned(),
        _ => e.to_string(),
    })
}

/// A block says its size in front, and is refused by it before any memory is taken.
fn snappy_block(bytes_max: usize, bytes: &[u8]) -> Taken {
    let size = snap::raw::decompress_len(bytes).map_err(|e| e.to_string())?;
    if size > bytes_max {
        return Ok(None);
    }
    // A byte of snappy stands for 64 at most, three bytes being one copy: a size that the bytes cannot make
    // is refused before it is taken from memory.
    if size > bytes.len().saturating_mul(64) {
        return Err(format!("{size} bytes cannot come of {}", bytes.len()));
    }
    snap::raw::Decoder::new().decompress_vec(bytes).map(Some).map_err(|e| e.to_string())
}

/// Frames one after the other; the decoder ends with the first.
fn lz4(bytes_max: usize, mut bytes: &[u8]) -> Taken {
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

/// Frames one after the other, skippable ones among them.
fn zstd(bytes_max: usize, mut bytes: &[u8]) -> Taken {
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
                bytes = bytes.get(length as usize..).ok_or("it ends too early")?;
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

/// Appends one frame's text, block by block; false where it becomes too large.
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
        (Some(told), Some(found)) if told != found => {
            Err(format!("checksum {found:08x}, but the frame says {told:08x}"))
        }
        _ => Ok(out.len() <= bytes_max),
    }
}

/// The window that a frame's header asks for (RFC 8878, 3.1.1.1): of one in a single segment, its whole size.
fn window_bytes(frame: &[u8]) -> Option<u64> {
    const MAGIC: [u8; 4] = 0xFD2F_B528_u32.to_le_bytes();
    const SINGLE_SEGMENT: u8 = 1 << 5;
    let (descriptor, rest) = frame.strip_prefix(&MAGIC)?.split_first()?;
    if descriptor & SINGLE_SEGMENT != 0 {
        return None; // The decoder tells the size, which is checked there.
    }
    let window = rest.first()?;
    let base = 1u64 << (10 + (window >> 3));
    Some(base + base / 8 * u64::from(window & 7))
}
