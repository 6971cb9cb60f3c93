//! Opening of the files that processes have mapped, whatever a process has put at their paths.
//!
//! A file is found with `O_PATH`, which opens no FIFO, device or socket, and is opened for reading only if it is the mapped
//! file and a regular one. A file system that does not answer, such as NFS without its server, can still delay the look-up.

#![expect(unsafe_code, reason = "a file is mapped to learn its identity, and never read that way")]

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd as _, OwnedFd};
use std::path::Path;

use rustix::fs::{AtFlags, FileType, Mode, OFlags, ResolveFlags, StatxFlags, open, openat2, statx};
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

use super::served;
use crate::maps::{self, FileKey, Mapping};
use crate::proc;

/// An error in opening the file of a mapping.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The kernel does not let the agent look up or open the file, or there is none at its path.
    #[error("cannot open the file: {0}")]
    Inaccessible(#[from] io::Error),
    /// There is another file at the path.
    #[error("the file was replaced after it was loaded: restart the process to trace it")]
    Replaced,
    /// There is a FIFO, a device or the like.
    #[error("{0:?}: expected a regular file")]
    Irregular(FileType),
    /// A page of the file that never comes would block the kernel.
    #[error(
        "the file is on a file system that user {0} serves (FUSE): expected one of the kernel or of root"
    )]
    Untrusted(u32),
}

impl From<rustix::io::Errno> for OpenError {
    fn from(error: rustix::io::Errno) -> Self {
        OpenError::Inaccessible(error.into())
    }
}

/// Opens the file of a mapping: through the mapping itself or, where that is not allowed or the loader has changed the
/// mapping since, through the root directory of the process. Waits for no other process to open or release the file.
pub fn open_mapped(pid: u32, mapping: &Mapping) -> Result<File, OpenError> {
    let mounts = proc::read_text(format!("/proc/{pid}/mountinfo")).unwrap_or_default();
    if let Some(user) = served::server(&mounts, mapping) {
        return Err(OpenError::Untrusted(user));
    }
    let through_mapping = find_mapped(pid, mapping).and_then(|found| open_found(&found, mapping.file));
    through_mapping.or_else(|_| open_below_root(pid, mapping))
}

/// Finds the file by a link in /proc that leads to it without a look-up of its path.
fn find_mapped(pid: u32, mapping: &Mapping) -> Result<OwnedFd, OpenError> {
    let link = format!("/proc/{pid}/map_files/{:x}-{:x}", mapping.start, mapping.end);
    Ok(open(link, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?)
}

/// Opens the file by its path below the root directory of the process. The kernel reports paths without symbolic links.
fn open_below_root(pid: u32, mapping: &Mapping) -> Result<File, OpenError> {
    let flags = OFlags::PATH | OFlags::CLOEXEC;
    let root = open(format!("/proc/{pid}/root"), flags | OFlags::DIRECTORY, Mode::empty())?;
    let resolve = ResolveFlags::IN_ROOT | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    let found = openat2(root, &mapping.path, flags | OFlags::NOFOLLOW, Mode::empty(), resolve)?;
    open_found(&found, mapping.file)
}

/// Opens a file that was found, if it is regular and the expected one.
fn open_found(found: &OwnedFd, expected: FileKey) -> Result<File, OpenError> {
    let (kind, key) = identify(found)?;
    if kind != FileType::RegularFile {
        return Err(OpenError::Irregular(kind));
    }
    let link = Path::new("/proc/self/fd").join(found.as_raw_fd().to_string());
    // A lease of another process on the file makes a non-blocking open fail.
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let file = File::from(open(link, flags, Mode::empty())?);
    let is_expected = key == expected || mapped_key(&file)? == Some(expected);
    if is_expected { Ok(file) } else { Err(OpenError::Replaced) }
}

/// Returns the type and the identity of a file as stat(2) reports them, without asking a server.
fn identify(found: impl AsFd) -> Result<(FileType, FileKey), OpenError> {
    let flags = AtFlags::EMPTY_PATH | AtFlags::STATX_DONT_SYNC;
    let stat = statx(found, c"", flags, StatxFlags::TYPE | StatxFlags::INO)?;
    let key = FileKey { device: (stat.stx_dev_major, stat.stx_dev_minor), inode: stat.stx_ino };
    Ok((FileType::from_raw_mode(stat.stx_mode.into()), key))
}

/// Returns the identity of a file as /proc/PID/maps reports it, which differs from that of stat(2) on btrfs and, on some
/// kernels, on overlayfs.
fn mapped_key(file: &File) -> Result<Option<FileKey>, OpenError> {
    let (protection, flags) = (ProtFlags::READ, MapFlags::PRIVATE);
    // SAFETY: the kernel chooses an unused address, and nothing accesses the memory, so that a truncated file does not matter.
    let address = unsafe { mmap(std::ptr::null_mut(), 1, protection, flags, file, 0) }?;
    let text = proc::read_text("/proc/self/maps");
    // SAFETY: the page was mapped above, and nothing refers to it.
    unsafe { munmap(address, 1) }?;
    Ok(maps::file_at(&text?, address.addr() as u64))
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;

    /// A file of this process that is mapped as code, and removed with its directory in the end.
    struct Mapped {
        dir: PathBuf,
        address: *mut std::ffi::c_void,
        mapping: Mapping,
    }

    impl Mapped {
        fn new(name: &str) -> Mapped {
            let dir = std::env::temp_dir().join(format!("warptap-open-{}-{name}", std::process::id()));
            std::fs::create_dir_all(&dir).unwrap();
            let path = dir.join("libcudart.so.12");
            std::fs::write(&path, [1; 4096]).unwrap();
            let (file, flags) = (File::open(&path).unwrap(), MapFlags::PRIVATE);
            let protection = ProtFlags::READ | ProtFlags::EXEC;
            // SAFETY: the kernel chooses an unused address, and nothing accesses the memory.
            let address = unsafe { mmap(std::ptr::null_mut(), 4096, protection, flags, file, 0) }.unwrap();
            let mut mapped = Mapped { dir, address, mapping: mapping_at(address.addr() as u64) };
            mapped.mapping.path = path;
            mapped
        }

        /// Returns the mapping with the path that the kernel reports after the file was removed.
        fn removed(&self) -> Mapping {
            std::fs::remove_file(&self.mapping.path).unwrap();
            mapping_at(self.mapping.start)
        }
    }

    impl Drop for Mapped {
        fn drop(&mut self) {
            // SAFETY: the mapping was made by `new`, and nothing refers to it.
            unsafe { munmap(self.address, 4096) }.unwrap();
            std::fs::remove_dir_all(&self.dir).unwrap();
        }
    }

    fn mapping_at(start: u64) -> Mapping {
        let text = proc::read_text("/proc/self/maps").unwrap();
        maps::parse(&text).into_iter().find(|m| m.start == start).unwrap()
    }

    fn opened(mapping: &Mapping) -> Result<File, OpenError> {
        open_below_root(std::process::id(), mapping)
    }

    #[test]
    fn mapped_file_is_opened_by_its_path() {
        let mapped = Mapped::new("path");
        assert_eq!(opened(&mapped.mapping).unwrap().metadata().unwrap().len(), 4096);
        let file = open_mapped(std::process::id(), &mapped.mapping).unwrap();
        assert_eq!(mapped_key(&file).unwrap(), Some(mapped.mapping.file));
    }

    /// The agent waited in open(2) for a process that writes to the FIFO, for ever.
    #[test]
    fn fifo_at_the_path_of_a_removed_file_is_not_opened() {
        let mapped = Mapped::new("fifo");
        let mapping = mapped.removed();
        assert!(mapping.path.to_str().unwrap().ends_with(" (deleted)"));
        rustix::fs::mknodat(rustix::fs::CWD, &mapping.path, FileType::Fifo, Mode::RUSR, 0).unwrap();
        assert!(matches!(opened(&mapping), Err(OpenError::Irregular(FileType::Fifo))));
    }

    #[test]
    fn other_files_and_links_at_the_path_are_not_opened() {
        let mapped = Mapped::new("other");
        let (mapping, other) = (mapped.removed(), mapped.dir.join("other"));
        assert!(matches!(opened(&mapping), Err(OpenError::Inaccessible(_))));
        std::fs::write(&mapping.path, "another file").unwrap();
        assert!(matches!(opened(&mapping), Err(OpenError::Replaced)));
        std::fs::rename(&mapping.path, &other).unwrap();
        std::os::unix::fs::symlink(&other, &mapping.path).unwrap();
        assert!(matches!(opened(&mapping), Err(OpenError::Irregular(FileType::Symlink))));
    }

    /// A file on another file system may have any inode number.
    #[test]
    fn file_with_the_inode_number_of_another_device_is_not_opened() {
        let mapped = Mapped::new("device");
        let mut mapping = mapped.mapping.clone();
        mapping.file.device.1 += 1;
        assert!(matches!(opened(&mapping), Err(OpenError::Replaced)));
    }
}
