//! Decompresses arbitrary bytes with every compression. The result is a text within the limit or an error, and a
//! decompressed text can be compressed and decompressed again. The fuzzer's memory limit detects decompression
//! bombs.

#![no_main]

use libfuzzer_sys::fuzz_target;
use transport::compress::{Compression, Level};

const BYTES_MAX: usize = 1 << 20;

fuzz_target!(|bytes: &[u8]| {
    let Some((choice, bytes)) = bytes.split_first() else { return };
    let compression = Compression::ALL[usize::from(*choice) % Compression::ALL.len()];
    let Ok(text) = compression.decompress(bytes, BYTES_MAX) else { return };
    assert!(text.len() <= BYTES_MAX);
    let packed = compression.compress(Level::default(), &text);
    assert_eq!(compression.decompress(&packed, text.len()).as_deref(), Ok(&text[..]), "{compression}");
});
