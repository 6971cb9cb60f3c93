//! Decompression of inputs: gzip is recognised by its first bytes, anything else is plain.

use std::io::{self, Cursor, Read};

use flate2::read::MultiGzDecoder;

/// The first two bytes of a gzip member (RFC 1952).
const GZIP: [u8; 2] = [0x1f, 0x8b];

/// Maximum number of bytes that [`peek`] returns.
pub const HEAD: usize = 8;

/// Returns a reader of the decompressed bytes of `input`.
pub fn plain<'a>(input: impl Read + 'a) -> io::Result<Box<dyn Read + 'a>> {
    let (head, input) = peek(input)?;
    match head.starts_with(&GZIP) {
        true => Ok(Box::new(MultiGzDecoder::new(input))),
        false => Ok(Box::new(input)),
    }
}

/// Returns the first bytes of `input`, at most [`HEAD`], and a reader of all of `input`.
pub fn peek<'a>(mut input: impl Read + 'a) -> io::Result<(Vec<u8>, impl Read + 'a)> {
    let mut head = Vec::with_capacity(HEAD);
    input.by_ref().take(HEAD as u64).read_to_end(&mut head)?;
    Ok((head.clone(), Cursor::new(head).chain(input)))
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use flate2::Compression;
    use flate2::write::GzEncoder;

    use super::*;

    fn check(input: &[u8], expected: &[u8]) {
        let mut out = Vec::new();
        plain(input).unwrap().read_to_end(&mut out).unwrap();
        assert_eq!(out, expected);
    }

    #[test]
    fn gzip_is_decompressed_and_other_input_unchanged() {
        let mut gzip = GzEncoder::new(Vec::new(), Compression::fast());
        gzip.write_all(b"hello").unwrap();
        check(&gzip.finish().unwrap(), b"hello");
        check(b"{}", b"{}");
        check(b"", b"");
    }
}
