//! The reader of recordings: delivers every event before the first damage, then an error that locates it.

use std::io::{self, BufReader, Read};

use event::{Event, EventSource};

use super::frames::{self, Counts, Payload, kind};
use super::{FRAME_MAX, Info, MAGIC, VERSION};
use crate::codec::Field;
use crate::input;

/// Frames read at a time.
const BATCH: usize = 1024;
/// Bytes of a frame before its payload.
const HEAD: usize = 8;

/// An error in reading a recording.
#[derive(Debug, thiserror::Error)]
pub enum RecordingError {
    /// The input cannot be read.
    #[error("cannot read the recording after byte {offset}: {source}")]
    Read {
        /// Bytes read before the error.
        offset: u64,
        /// The error of the input.
        source: io::Error,
    },
    /// The input begins with other bytes.
    #[error("not a recording: it begins with {found:02x?}, expected {MAGIC:02x?}")]
    NotARecording {
        /// First bytes of the input.
        found: Vec<u8>,
    },
    /// The recording has another major version.
    #[error("a recording of version {0}: this build reads version {major}", major = VERSION.0)]
    Version(u16),
    /// The recording is truncated, or its writer was stopped: everything before is valid.
    #[error("the recording ends at byte {offset} without an end frame: everything before it is valid")]
    Cut {
        /// End of the last whole frame.
        offset: u64,
    },
    /// A frame has an invalid length.
    #[error("damaged at byte {offset}: a frame of {length} bytes, expected at most {FRAME_MAX}")]
    Length {
        /// Start of the frame.
        offset: u64,
        /// Length in the frame.
        length: u32,
    },
    /// A frame was changed after it was written.
    #[error("damaged at byte {offset}: checksum {found:08x}, expected {expected:08x}")]
    Checksum {
        /// Start of the frame.
        offset: u64,
        /// Checksum of the bytes read.
        found: u32,
        /// Checksum in the frame.
        expected: u32,
    },
    /// The fields of a frame are invalid.
    #[error("damaged at byte {offset}: the fields of a frame of kind {kind} are invalid")]
    Payload {
        /// Start of the frame.
        offset: u64,
        /// Kind of the frame.
        kind: u16,
    },
    /// The counts of the end frame differ from the events.
    #[error("damaged before byte {offset}: {found} events of kind {kind}, expected {expected}")]
    Count {
        /// Start of the end frame.
        offset: u64,
        /// Kind of the events.
        kind: u16,
        /// Events that were read.
        found: u64,
        /// Events that were written.
        expected: u64,
    },
    /// There are bytes after the end frame.
    #[error("bytes after the end of the recording, at byte {offset}")]
    Trailing {
        /// End of the end frame.
        offset: u64,
    },
}

impl RecordingError {
    /// Returns true if the recording is truncated and otherwise valid.
    pub fn is_cut(&self) -> bool {
        matches!(self, RecordingError::Cut { .. })
    }
}

/// The state of a reader.
#[derive(Debug)]
enum State {
    Reading,
    Failed(RecordingError),
    Ended,
}

/// A source of the events of a recording, plain or gzip.
pub struct Reader<'a> {
    input: Box<dyn Read + 'a>,
    info: Info,
    /// Start of the next frame.
    offset: u64,
    payload: Vec<u8>,
    counts: Counts,
    state: State,
}

impl std::fmt::Debug for Reader<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Reader { info, offset, state, .. } = self;
        f.debug_struct("Reader").field("info", info).field("offset", offset).field("state", state).finish()
    }
}

impl<'a> Reader<'a> {
    /// Reads the header of a recording.
    pub fn open(input: impl Read + 'a) -> Result<Reader<'a>, RecordingError> {
        let fails = |source| RecordingError::Read { offset: 0, source };
        let input = Box::new(BufReader::new(input::plain(input).map_err(fails)?));
        let mut reader = Reader {
            input,
            info: Info::default(),
            offset: 0,
            payload: Vec::new(),
            counts: Counts::default(),
            state: State::Reading,
        };
        reader.read_magic()?;
        reader.read_info()?;
        Ok(reader)
    }

    /// Returns the header of the recording.
    pub fn info(&self) -> &Info {
        &self.info
    }

    /// Returns the number of texts and lists that the writer cut; known at the end.
    pub fn cut(&self) -> u64 {
        self.counts.cut
    }

    fn read_magic(&mut self) -> Result<(), RecordingError> {
        let mut head = [0; MAGIC.len() + 2];
        let length = self.fill(&mut head)?;
        let (magic, version) = head.split_at(MAGIC.len());
        if magic != MAGIC {
            return Err(RecordingError::NotARecording { found: magic[..length.min(MAGIC.len())].to_vec() });
        }
        if length < head.len() {
            return Err(RecordingError::Cut { offset: 0 });
        }
        let major = u16::take(&mut &*version).unwrap_or_default();
        if major != VERSION.0 {
            return Err(RecordingError::Version(major));
        }
        self.offset = head.len() as u64;
        Ok(())
    }

    fn read_info(&mut self) -> Result<(), RecordingError> {
        let offset = self.offset;
        let kind = self.read_frame()?;
        let header = <(u16, Info)>::take(&mut self.payload.as_slice()).filter(|_| kind == kind::HEADER);
        (_, self.info) = header.ok_or(RecordingError::Payload { offset, kind })?;
        Ok(())
    }

    /// Fills `into` as far as there are bytes, and returns their number.
    fn fill(&mut self, into: &mut [u8]) -> Result<usize, RecordingError> {
        let mut filled = 0;
        while filled < into.len() {
            match self.input.read(&mut into[filled..]) {
                Ok(0) => break,
                Ok(more) => filled += more,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(self.failed(e)),
            }
        }
        Ok(filled)
    }

    /// Returns the error for a failed read; a truncated gzip stream is a truncated recording.
    fn failed(&self, source: io::Error) -> RecordingError {
        match source.kind() {
            io::ErrorKind::UnexpectedEof => RecordingError::Cut { offset: self.offset },
            _ => RecordingError::Read { offset: self.offset, source },
        }
    }

    /// Reads a frame, with its payload into `self.payload`, and returns its kind.
    fn read_frame(&mut self) -> Result<u16, RecordingError> {
        let offset = self.offset;
        let mut head = [0; HEAD];
        if self.fill(&mut head)? < HEAD {
            return Err(RecordingError::Cut { offset });
        }
        let (length, kind) = <(u32, u16)>::take(&mut &head[..]).unwrap_or_default();
        if length > FRAME_MAX {
            return Err(RecordingError::Length { offset, length });
        }
        self.read_payload(length)?;
        let mut checksum = [0; 4];
        if self.fill(&mut checksum)? < checksum.len() {
            return Err(RecordingError::Cut { offset });
        }
        let mut hasher = crc32fast::Hasher::new();
        hasher.update(&head);
        hasher.update(&self.payload);
        let (found, expected) = (hasher.finalize(), u32::from_le_bytes(checksum));
        if found != expected {
            return Err(RecordingError::Checksum { offset, found, expected });
        }
        self.offset += (HEAD + self.payload.len() + checksum.len()) as u64;
        Ok(kind)
    }

    /// Reads a payload. Memory grows with the bytes read, not with the length in the frame.
    fn read_payload(&mut self, length: u32) -> Result<(), RecordingError> {
        self.payload.clear();
        let read = self.input.by_ref().take(u64::from(length)).read_to_end(&mut self.payload);
        match read {
            Ok(n) if n == length as usize => Ok(()),
            Ok(_) => Err(RecordingError::Cut { offset: self.offset }),
            Err(e) => Err(self.failed(e)),
        }
    }

    /// Returns the next event; `None` after the end frame.
    fn next(&mut self) -> Result<Option<Event>, RecordingError> {
        loop {
            let offset = self.offset;
            let kind = self.read_frame()?;
            match frames::take(kind, &self.payload) {
                Payload::Event(event) => {
                    self.counts.count(kind);
                    return Ok(Some(event));
                }
                Payload::End(written) => {
                    self.check_end(offset, written)?;
                    return Ok(None);
                }
                Payload::Malformed => return Err(RecordingError::Payload { offset, kind }),
                Payload::Unknown => self.counts.count(kind),
            }
        }
    }

    fn check_end(&mut self, offset: u64, written: Counts) -> Result<(), RecordingError> {
        let kinds = written.by_kind.keys().chain(self.counts.by_kind.keys());
        for kind in kinds.copied() {
            let of = |counts: &Counts| counts.by_kind.get(&kind).copied().unwrap_or(0);
            let (found, expected) = (of(&self.counts), of(&written));
            if found != expected {
                return Err(RecordingError::Count { offset, kind, found, expected });
            }
        }
        self.counts.cut = written.cut;
        match self.fill(&mut [0])? {
            0 => Ok(()),
            _ => Err(RecordingError::Trailing { offset: self.offset }),
        }
    }
}

impl EventSource for Reader<'_> {
    type Error = RecordingError;

    /// Appends events. An error is returned by the read after the one that delivered the last valid events.
    fn read(&mut self, into: &mut Vec<Event>) -> Result<bool, RecordingError> {
        match std::mem::replace(&mut self.state, State::Ended) {
            State::Ended => return Ok(false),
            State::Failed(error) => return Err(error),
            State::Reading => {}
        }
        for _ in 0..BATCH {
            match self.next() {
                Ok(Some(event)) => into.push(event),
                Ok(None) => return Ok(true),
                Err(error) => {
                    self.state = State::Failed(error);
                    return Ok(true);
                }
            }
        }
        self.state = State::Reading;
        Ok(true)
    }
}
