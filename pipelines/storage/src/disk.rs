//! The file backend of redb, with optional syncs, and the free space of a disk.
//!
//! Without syncs a write reaches the operating system with its commit and survives the end of the process by any
//! signal, but not a loss of power. The file is never mapped, so that it does not count as memory of the process.

use std::fs::OpenOptions;
use std::io;
use std::ops::Bound;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::Path;

use redb::backends::FileBackend;
use redb::{BackendError, DatabaseError, StorageBackend};

/// Permissions for the owner only, since queued data may be private.
const FILE_MODE: u32 = 0o600;

#[derive(Debug)]
pub(crate) struct Disk {
    file: FileBackend,
    syncs: bool,
}

impl Disk {
    /// Opens or creates the file.
    pub(crate) fn open(path: &Path, syncs: bool) -> Result<Self, DatabaseError> {
        let mut options = OpenOptions::new();
        let file = options.read(true).write(true).create(true).truncate(false).mode(FILE_MODE).open(path)?;
        Ok(Disk { file: FileBackend::new(file)?, syncs })
    }
}

impl StorageBackend for Disk {
    fn len(&self) -> io::Result<u64> {
        self.file.len()
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.file.read(offset, out)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.file.set_len(len)
    }

    fn sync_data(&self) -> io::Result<()> {
        if self.syncs { self.file.sync_data() } else { Ok(()) }
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.file.write(offset, data)
    }

    fn close(&self) -> io::Result<()> {
        self.file.close()
    }

    fn try_lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<bool, BackendError> {
        self.file.try_lock_range(start, end)
    }

    fn try_lock_shared_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<bool, BackendError> {
        self.file.try_lock_shared_range(start, end)
    }

    fn lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<(), BackendError> {
        self.file.lock_range(start, end)
    }

    fn lock_shared_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<(), BackendError> {
        self.file.lock_shared_range(start, end)
    }

    fn unlock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<(), BackendError> {
        self.file.unlock_range(start, end)
    }

    fn query_lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<bool, BackendError> {
        self.file.query_lock_range(start, end)
    }
}

/// Returns the length of a file and its size on disk, in bytes; zero if they are unknown.
pub(crate) fn file_bytes(path: &Path) -> (u64, u64) {
    std::fs::metadata(path).map_or((0, 0), |file| (file.len(), file.blocks() * 512))
}

/// Returns the free space of the disk that a file is on, in bytes, if it is known.
pub(crate) fn free_bytes(path: &Path) -> Option<u64> {
    let disk = rustix::fs::statvfs(path).ok()?;
    Some(disk.f_bavail.saturating_mul(disk.f_frsize))
}
