//! The writer of recordings, with one write for each frame.

use std::io::{self, Write};

use super::frames::{self, Counts, kind};
use super::{Info, LIST_MAX, MAGIC, VERSION};
use crate::codec::{Encoder, Field};
use event::Event;
use probe_abi::record::ROWS;

/// A writer of events to a buffered output. Without [`Writer::finish`] the recording has no end frame, which readers
/// report as truncation.
#[derive(Debug)]
pub struct Writer<W> {
    output: W,
    frame: Encoder,
    counts: Counts,
}

/// Bytes of a frame before its payload.
const HEAD: usize = 8;

impl<W: Write> Writer<W> {
    /// Writes the header of a recording.
    pub fn begin(mut output: W, info: &Info) -> io::Result<Writer<W>> {
        output.write_all(&MAGIC)?;
        output.write_all(&VERSION.0.to_le_bytes())?;
        let mut writer = Writer { output, frame: Encoder::new(ROWS), counts: Counts::default() };
        writer.frame(|out| {
            VERSION.1.put(out);
            info.put(out);
            kind::HEADER
        })?;
        Ok(Writer { frame: Encoder::new(LIST_MAX), ..writer })
    }

    /// Writes an event. Texts and lists above the bounds of the format are cut, which the end frame counts.
    pub fn write(&mut self, event: &Event) -> io::Result<()> {
        let kind = self.frame(|out| frames::put(event, out))?;
        self.counts.count(kind);
        Ok(())
    }

    /// Returns the number of events written.
    pub fn events(&self) -> u64 {
        self.counts.events()
    }

    /// Flushes the output.
    pub fn flush(&mut self) -> io::Result<()> {
        self.output.flush()
    }

    /// Writes the end frame, flushes, and returns the output.
    pub fn finish(mut self) -> io::Result<W> {
        self.counts.cut = self.frame.cut;
        let counts = std::mem::take(&mut self.counts);
        self.frame(|out| {
            counts.put(out);
            kind::END
        })?;
        self.output.flush()?;
        Ok(self.output)
    }

    /// Writes a frame with the payload that `put` appends; `put` returns the kind.
    fn frame(&mut self, put: impl FnOnce(&mut Encoder) -> u16) -> io::Result<u16> {
        self.frame.bytes.clear();
        self.frame.bytes.resize(HEAD, 0);
        let kind = put(&mut self.frame);
        // The bounds on texts and lists keep every payload far below u32::MAX and FRAME_MAX.
        let length = (self.frame.bytes.len() - HEAD) as u32;
        self.frame.bytes[..4].copy_from_slice(&length.to_le_bytes());
        self.frame.bytes[4..6].copy_from_slice(&kind.to_le_bytes());
        let checksum = crc32fast::hash(&self.frame.bytes);
        self.frame.bytes.extend_from_slice(&checksum.to_le_bytes());
        self.output.write_all(&self.frame.bytes)?;
        Ok(kind)
    }
}
