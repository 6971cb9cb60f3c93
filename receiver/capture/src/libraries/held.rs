//! Library files that are held open, so that they can be attached by their descriptor.
//!
//! A thread of its own closes them: the last process that closes a removed file frees its blocks. That took a quarter of a second for
//! NCCL's library on ext4 with `discard`, during which nothing was read and no library attached, and takes longer for a
//! larger file.

use std::fs::File;
use std::os::fd::AsRawFd as _;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread::Builder;

/// Files that wait to be closed. Further ones are closed by the thread that drops them.
const WAITING_MAX: usize = 128;

/// The thread that closes files, which is started for the first one. `None` if it could not be started.
static CLOSING: LazyLock<Option<SyncSender<Box<dyn Send>>>> = LazyLock::new(|| {
    let (closing, files) = sync_channel(WAITING_MAX);
    let spawned = Builder::new().name("close".to_owned()).spawn(move || files.into_iter().for_each(drop));
    spawned.is_ok().then_some(closing)
});

/// An open library file. Dropping it does not wait until it is closed.
pub struct HeldFile {
    path: PathBuf,
    file: Option<File>,
}

impl HeldFile {
    /// Holds a file open.
    pub fn new(file: File) -> HeldFile {
        let path = Path::new("/proc/self/fd").join(file.as_raw_fd().to_string());
        HeldFile { path, file: Some(file) }
    }

    /// Returns a path of the open file. Unlike its path in a process, it leads to this file until it is dropped.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for HeldFile {
    fn drop(&mut self) {
        if let Some(file) = self.file.take() {
            drop_elsewhere(file);
        }
    }
}

/// Drops a value in the thread that closes files.
fn drop_elsewhere(value: impl Send + 'static) {
    if let Some(closing) = CLOSING.as_ref() {
        // If too many wait, the error contains the value, which is dropped here.
        drop(closing.try_send(Box::new(value)));
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{Receiver, Sender, channel};
    use std::time::Duration;

    use super::*;

    /// A value whose end takes until a message comes, at most ten seconds.
    struct Slow(Receiver<()>, Sender<()>);

    impl Drop for Slow {
        fn drop(&mut self) {
            let _ = self.0.recv_timeout(Duration::from_secs(10));
            let _ = self.1.send(());
        }
    }

    /// Where a removed file was closed, nothing was attached for a quarter of a second.
    #[test]
    fn what_takes_long_to_end_delays_no_one() {
        let ((go, waits), (ended, end)) = (channel(), channel());
        drop_elsewhere(Slow(waits, ended));
        assert!(end.try_recv().is_err(), "it ended in this thread");
        go.send(()).unwrap();
        end.recv_timeout(Duration::from_secs(10)).unwrap();
    }

    #[test]
    fn file_is_open_until_it_is_dropped() {
        let path = std::env::temp_dir().join(format!("warptap-held-{}", std::process::id()));
        std::fs::write(&path, "library").unwrap();
        let held = HeldFile::new(File::open(&path).unwrap());
        std::fs::remove_file(&path).unwrap();
        assert_eq!(std::fs::read_to_string(held.path()).unwrap(), "library");
    }
}
