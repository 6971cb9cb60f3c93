//! A write buffer that never splits a record: bytes that a full disk did not accept stay in the buffer and are
//! written first later. `std`'s `BufWriter` does not tell how much it wrote before an error.

use std::io::{self, Write};

/// Buffer size from which data is written at once.
const FLUSH_BYTES: usize = 64 * 1024;
/// Largest buffer while the file accepts nothing; further records are refused.
const BUFFER_BYTES_MAX: usize = 16 * 1024 * 1024;

/// A file with a write buffer.
pub(super) struct Buffered<W> {
    file: W,
    buffer: Vec<u8>,
}

impl<W: Write> Buffered<W> {
    pub(super) fn over(file: W) -> Self {
        Buffered { file, buffer: Vec::new() }
    }

    /// Appends a whole record, or returns an error without appending any of it.
    pub(super) fn append(&mut self, record: &[u8]) -> io::Result<()> {
        if !self.buffer.is_empty() && self.buffer.len() + record.len() > BUFFER_BYTES_MAX {
            self.flush()?;
        }
        self.buffer.extend_from_slice(record);
        if self.buffer.len() >= FLUSH_BYTES {
            // The record is in the buffer; the next flush returns the error again.
            let _ = self.flush();
        }
        Ok(())
    }

    /// Writes the buffer.
    pub(super) fn flush(&mut self) -> io::Result<()> {
        let mut written = 0;
        let outcome = loop {
            match self.file.write(&self.buffer[written..]) {
                _ if written == self.buffer.len() => break Ok(()),
                Ok(0) => break Err(io::ErrorKind::WriteZero.into()),
                Ok(n) => written += n,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => break Err(e),
            }
        };
        self.buffer.drain(..written);
        outcome
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A disk with limited space.
    struct Disk {
        space: usize,
        bytes: Vec<u8>,
    }

    impl Write for Disk {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let taken = bytes.len().min(self.space).min(7);
            if taken == 0 && !bytes.is_empty() {
                return Err(io::ErrorKind::StorageFull.into());
            }
            self.space -= taken;
            self.bytes.extend(&bytes[..taken]);
            Ok(taken)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_record_survives_a_full_disk_unsplit() {
        let mut file = Buffered::over(Disk { space: 25, bytes: Vec::new() });
        for record in ["first line\n", "second line\n", "third line\n"] {
            file.append(record.as_bytes()).unwrap();
        }
        assert_eq!(file.flush().unwrap_err().kind(), io::ErrorKind::StorageFull);
        assert_eq!(file.file.bytes, b"first line\nsecond line\nth");
        file.file.space = 1000;
        file.append(b"fourth line\n").unwrap();
        file.flush().unwrap();
        assert_eq!(file.file.bytes, b"first line\nsecond line\nthird line\nfourth line\n");
        assert!(file.buffer.is_empty());
    }

    #[test]
    fn records_above_the_buffer_bound_are_refused() {
        let mut file = Buffered::over(Disk { space: 0, bytes: Vec::new() });
        let record = vec![b'x'; 1024 * 1024];
        let taken = (0..20).filter(|_| file.append(&record).is_ok()).count();
        assert_eq!(taken, 16);
        assert!(file.buffer.len() <= BUFFER_BYTES_MAX);
        file.file.space = usize::MAX;
        file.append(&record).unwrap();
        file.flush().unwrap();
        assert_eq!(
            file.file.bytes.len(),
            17 * record.len(),
            "accepted records are there, refused ones are not"
        );
    }
}
