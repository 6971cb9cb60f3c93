//! Replay of recordings and profiler traces, distinguished by their first bytes.

use std::io::Read;

use crate::{Limits, Trace, TraceError, TraceEvents};
use event::{Event, EventSource};
use recording::{MAGIC, Reader, RecordingError, input};

/// A source of recorded events.
#[derive(Debug)]
pub enum Replay<'a> {
    /// A recording.
    Recording(Box<Reader<'a>>),
    /// A profiler trace.
    Trace(Box<TraceEvents>),
}

/// An error in reading recorded events.
#[derive(Debug, thiserror::Error)]
pub enum ReplayError {
    /// The input cannot be read.
    #[error("cannot read: {0}")]
    Read(#[from] std::io::Error),
    /// The input is a recording with an error.
    #[error(transparent)]
    Recording(#[from] RecordingError),
    /// The input is a trace with an error.
    #[error(transparent)]
    Trace(#[from] TraceError),
    /// The input is neither.
    #[error("neither a recording nor a profiler trace: it begins with {0:02x?}")]
    Unknown(Vec<u8>),
}

impl ReplayError {
    /// Returns true if the input is a truncated recording whose events before that were delivered.
    pub fn is_cut(&self) -> bool {
        matches!(self, ReplayError::Recording(e) if e.is_cut())
    }
}

impl<'a> Replay<'a> {
    /// Opens `input`, plain or gzip. A trace is read completely, within `limits`.
    pub fn open(input: impl Read + 'a, limits: &Limits) -> Result<Replay<'a>, ReplayError> {
        let (head, input) = input::peek(input::plain(input)?)?;
        if head.starts_with(&MAGIC) {
            return Ok(Replay::Recording(Box::new(Reader::open(input)?)));
        }
        match head.iter().find(|b| !b.is_ascii_whitespace()) {
            Some(b'{' | b'[') => Ok(Replay::Trace(Box::new(Trace::read(input, limits)?.into_events()))),
            _ => Err(ReplayError::Unknown(head)),
        }
    }

    /// Describes what a trace contains in which no call was recognised; `None` for other inputs.
    pub fn unrecognised(&self) -> Option<String> {
        match self {
            Replay::Recording(_) => None,
            Replay::Trace(events) => events.trace().stats.unrecognised(),
        }
    }
}

impl EventSource for Replay<'_> {
    type Error = ReplayError;

    fn read(&mut self, into: &mut Vec<Event>) -> Result<bool, ReplayError> {
        match self {
            Replay::Recording(reader) => Ok(reader.read(into)?),
            Replay::Trace(events) => events.read(into).map_err(|never| match never {}),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use flate2::Compression;
    use flate2::write::GzEncoder;

    use super::*;
    use recording::{Info, Writer};

    fn gzip(bytes: &[u8]) -> Vec<u8> {
        let mut gzip = GzEncoder::new(Vec::new(), Compression::fast());
        gzip.write_all(bytes).unwrap();
        gzip.finish().unwrap()
    }

    fn check(bytes: &[u8], expected: Result<usize, &str>) {
        for bytes in [bytes.to_vec(), gzip(bytes)] {
            let read = Replay::open(&bytes[..], &Limits::default()).and_then(|mut source| {
                let mut events = Vec::new();
                while source.read(&mut events)? {}
                Ok(events.len())
            });
            assert_eq!(read.map_err(|e| e.to_string()), expected.map_err(String::from));
        }
    }

    #[test]
    fn input_is_recognised_by_its_first_bytes() {
        let mut writer = Writer::begin(Vec::new(), &Info::default()).unwrap();
        writer.write(&Event::Tick { at_ns: 1 }).unwrap();
        check(&writer.finish().unwrap(), Ok(1));
        check(b" {\"traceEvents\": []}", Ok(2));
        check(b"\x7fELF", Err("neither a recording nor a profiler trace: it begins with [7f, 45, 4c, 46]"));
        check(b"", Err("neither a recording nor a profiler trace: it begins with []"));
    }
}
