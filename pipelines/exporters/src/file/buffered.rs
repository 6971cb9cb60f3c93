//! A buffer before a file that never tears a record: what a full disk did not take stays in the buffer and
//! is written first when there is room again. `std`'s writer, after an error, does not say what it wrote.

use std::io::{self, Write};

/// From here on, data is written at once.
const FLUSH_BYTES: usize = 64 * 1024;
/// What is kept at most while the file takes nothing; more is refused.
const HELD_BYTES_MAX: usize = 16 * 1024 * 1024;

/// A file and what is to be written to it.
pub(super) struct Buffered<W> {
    file: W,
    held: Vec<u8>,
}

impl<W: Write> Buffered<W> {
    pub(super) fn over(file: W) -> Self {
        Buffered { file, held: Vec::new() }
    }

    /// Takes a record whole, or not at all.
    pub(super) fn append(&mut self, record: &[u8]) -> io::Result<()> {
        if !self.held.is_empty() && self.held.len() + record.len() > HELD_BYTES_MAX {
            self.flush()?;
        }
        self.held.extend_from_slice(record);
        if self.held.len() >= FLUSH_BYTES {
            // The record is taken; that the file does not take it now is found again by the next flush.
            let _ = self.flush();
        }
        Ok(())
    }

    /// Writes what is held.
    pub(super) fn flush(&mut self) -> io::Result<()> {
        let mut written = 0;
        let outcome = loop {
            match self.file.write(&self.held[written..]) {
                _ if written == self.held.len() => break Ok(()),
                Ok(0) => break Err(io::ErrorKind::WriteZero.into()),
                Ok(n) => written += n,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => break Err(e),
            }
        };
        self.held.drain(..written);
        outcome
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A disk with so much room.
    struct Disk {
        room: usize,
        bytes: Vec<u8>,
    }

    impl Write for Disk {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let taken = bytes.len().min(self.room).min(7);
            if taken == 0 && !bytes.is_empty() {
                return Err(io::ErrorKind::StorageFull.into());
            }
            self.room -= taken;
            self.bytes.extend(&bytes[..taken]);
            Ok(taken)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_record_that_met_a_full_disk_is_whole_once_there_is_room() {
        let mut file = Buffered::over(Disk { room: 25, bytes: Vec::new() });
        for record in ["first line\n", "second line\n", "third line\n"] {
            file.append(record.as_bytes()).unwrap();
        }
        assert_eq!(file.flush().unwrap_err().kind(), io::ErrorKind::StorageFull);
        assert_eq!(file.file.bytes, b"first line\nsecond line\nth");
        file.file.room = 1000;
        file.append(b"fourth line\n").unwrap();
        file.flush().unwrap();
        assert_eq!(file.file.bytes, b"first line\nsecond line\nthird line\nfourth line\n");
        assert!(file.held.is_empty());
    }

    #[test]
    fn what_is_held_has_a_bound_and_what_is_beyond_is_refused() {
        let mut file = Buffered::over(Disk { room: 0, bytes: Vec::new() });
        let record = vec![b'x'; 1024 * 1024];
        let taken = (0..20).filter(|_| file.append(&record).is_ok()).count();
        assert_eq!(taken, 16);
        assert!(file.held.len() <= HELD_BYTES_MAX);
        file.file.room = usize::MAX;
        file.append(&record).unwrap();
        file.flush().unwrap();
        assert_eq!(
            file.file.bytes.len(),
            17 * record.len(),
            "what was taken is there, what was refused is not"
        );
    }
}
