//! Round trips of every compression, decompression bombs, and invalid bytes.

use super::*;

/// Returns text that compresses like telemetry: repetitive, not constant.
fn text(bytes: usize) -> Vec<u8> {
    (0..).flat_map(|i: u32| format!("span-{} http.method=GET ", i % 997).into_bytes()).take(bytes).collect()
}

#[test]
fn every_compression_round_trips() {
    for compression in Compression::ALL.into_iter().chain([Compression::None]) {
        for bytes in [0, 1, 100, 70_000, 3 << 20] {
            let plain = text(bytes);
            for level in [0, -1, 1, 9] {
                let packed = compression.compress(Level(level), &plain);
                assert_eq!(
                    compression.decompress(&packed, bytes),
                    Ok(plain.clone()),
                    "{compression} {bytes}"
                );
                if level == 0 && bytes > 10_000 && compression != Compression::None {
                    assert!(packed.len() < plain.len() / 2, "{compression}: {} of {bytes}", packed.len());
                }
            }
        }
    }
}

#[test]
fn every_compression_refuses_a_result_above_the_limit() {
    for compression in Compression::ALL.into_iter().chain([Compression::None]) {
        for plain in [text(100_000), vec![0; 50 << 20]] {
            let packed = compression.compress(Level(0), &plain);
            for bytes_max in [0, 10, 99_999] {
                let refused = compression.decompress(&packed, bytes_max);
                assert_eq!(refused, Err(DecompressError::TooLarge { bytes_max }), "{compression}");
            }
        }
    }
}

#[test]
fn invalid_and_truncated_bytes_are_errors() {
    for compression in Compression::ALL {
        let packed = compression.compress(Level(0), &text(100_000));
        for broken in [&b"\x60\xff\xff garbage \xff\xff"[..], &packed[..packed.len() / 2]] {
            match compression.decompress(broken, 1 << 20) {
                Err(DecompressError::Broken { name, .. }) => assert_eq!(name, compression.name()),
                other => panic!("{compression}: {:?}", other.map(|text| text.len())),
            }
        }
    }
}

#[test]
fn a_false_size_allocates_no_memory() {
    // Snappy: 4 GiB in front of nothing. Zstandard: a single segment of 2^62 bytes; a window of 3.75 TiB.
    let huge = [0xff, 0xff, 0xff, 0xff, 0x0f, 0x00];
    let allowed = usize::try_from(u32::MAX).unwrap();
    assert!(matches!(Compression::Snappy.decompress(&huge, allowed), Err(DecompressError::Broken { .. })));
    let refused = Err(DecompressError::TooLarge { bytes_max: 1000 });
    assert_eq!(Compression::Snappy.decompress(&huge, 1000), refused);
    let segment = [0x28, 0xb5, 0x2f, 0xfd, 0b1110_0000, 0, 0, 0, 0, 0, 0, 0, 0x40, 1, 0, 0];
    assert_eq!(Compression::Zstd.decompress(&segment, 1000), refused);
    let window = [0x28, 0xb5, 0x2f, 0xfd, 0, 0xff, 1, 0, 0];
    assert_eq!(Compression::Zstd.decompress(&window, 1000), refused);
}

#[test]
fn consecutive_frames_and_members_are_concatenated() {
    for compression in [Compression::Gzip, Compression::Lz4, Compression::SnappyFramed, Compression::Zstd] {
        let mut packed = compression.compress(Level(0), b"one ");
        packed.extend(compression.compress(Level(0), b"two"));
        assert_eq!(compression.decompress(&packed, 7), Ok(b"one two".to_vec()), "{compression}");
        let refused = compression.decompress(&packed, 6);
        assert_eq!(refused, Err(DecompressError::TooLarge { bytes_max: 6 }), "{compression}");
    }
    let mut skippable = vec![0x50, 0x2a, 0x4d, 0x18, 3, 0, 0, 0, b'x', b'y', b'z'];
    skippable.extend(Compression::Zstd.compress(Level(0), b"text"));
    assert_eq!(Compression::Zstd.decompress(&skippable, 100), Ok(b"text".to_vec()));
}

#[test]
fn snappy_is_decompressed_in_blocks_and_frames() {
    for written in [Compression::Snappy, Compression::SnappyFramed] {
        let packed = written.compress(Level(0), &text(5000));
        assert_eq!(Compression::Snappy.decompress(&packed, 5000), Ok(text(5000)));
    }
}

/// The bytes are those of Python's zlib, `gzip -n`, `zstd -c` and `lz4 -c` for "hello".
#[test]
fn bytes_of_other_implementations_are_decompressed() {
    for (compression, bytes) in [
        (Compression::Zlib, &b"\x78\x9c\xcb\x48\xcd\xc9\xc9\x07\x00\x06\x2c\x02\x15"[..]),
        (
            Compression::Gzip,
            b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\x03\xcb\x48\xcd\xc9\xc9\x07\x00\x86\xa6\x10\x36\x05\x00\x00\x00",
        ),
        (Compression::Zstd, b"\x28\xb5\x2f\xfd\x24\x05\x29\x00\x00hello\x42\x51\x2a\x88"),
        (Compression::Snappy, b"\x05\x10hello"),
    ] {
        let read = compression.decompress(bytes, 5);
        if compression == Compression::Zstd {
            // The checksum above is wrong on purpose.
            let Err(DecompressError::Broken { reason, .. }) = read else { panic!("{read:?}") };
            assert!(reason.contains("expected 882a5142"), "{reason}");
            continue;
        }
        assert_eq!(read, Ok(b"hello".to_vec()), "{compression}");
    }
}

#[test]
fn names_are_the_collectors() {
    let parse = |name: &str| serde_json::from_value::<Compression>(name.into()).map_err(|e| e.to_string());
    for (compression, name) in NAMES {
        assert_eq!(parse(name), Ok(compression));
        assert_eq!(Compression::by_name(&name.to_uppercase()), Some(compression));
    }
    assert_eq!(parse("none"), Ok(Compression::None));
    assert_eq!(parse(""), Ok(Compression::None));
    assert!(parse("br").unwrap_err().starts_with(r#"unsupported compression type "br": expected deflate, "#));
    assert!(parse("GZIP").is_err());
    assert!(NAMES.is_sorted_by_key(|(_, name)| name));
}

#[test]
fn levels_are_checked_as_the_collector_does() {
    for (compression, level, fits) in [
        (Compression::Gzip, 9, true),
        (Compression::Gzip, -2, true),
        (Compression::Gzip, 10, false),
        (Compression::Zlib, -3, false),
        (Compression::Zstd, 22, true),
        (Compression::Snappy, 0, true),
        (Compression::Snappy, 1, false),
        (Compression::None, 1, false),
    ] {
        assert_eq!(compression.check_level(Level(level)).is_ok(), fits, "{compression} {level}");
    }
    let refused = Compression::Gzip.check_level(Level(10)).unwrap_err();
    assert_eq!(refused, r#"unsupported parameters {Level:10} for compression type "gzip""#);
}

#[test]
fn damaged_bytes_never_exceed_the_limit() {
    for compression in Compression::ALL {
        let packed = compression.compress(Level(0), &text(600));
        for at in 0..packed.len() {
            for damage in [1, 0x80, 0xff] {
                let mut packed = packed.clone();
                packed[at] ^= damage;
                if let Ok(text) = compression.decompress(&packed, 1000) {
                    assert!(text.len() <= 1000, "{compression} at {at}");
                }
            }
        }
    }
}
