//! The directory of the pins: who may write to it, and who owns it.
//!
//! The owner holds a lock of the directory, which the kernel releases when the owner ends, whatever ended it. A
//! directory that another user could write to is refused: its pins could be links to programs that the agent never
//! loaded.

use std::fs::{DirBuilder, File, Metadata, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::sys;

const STICKY: u32 = 0o1000;
const WRITABLE_BY_OTHERS: u32 = 0o022;
/// How long a lock is awaited: the guard of an earlier agent holds it for an instant.
const LOCK_WITHIN: Duration = Duration::from_millis(500);

/// Beginning of the name of the empty directory that says which process is or was the owner.
const OWNER: &str = "owner_";

/// A directory of which this process is the owner.
pub(super) struct Root {
    path: PathBuf,
    _lock: File,
}

impl Root {
    /// Creates the directory if it is missing, and becomes its owner.
    pub(super) fn own(path: &Path) -> Result<Root, String> {
        check_parents(path)?;
        if !path.exists() {
            make_dir(path).map_err(|e| format!("cannot create {}: {e}", path.display()))?;
        }
        let dir = open(path)?;
        lock(&dir, LOCK_WITHIN).map_err(|e| e.of(path))?;
        Ok(Root { path: path.to_owned(), _lock: dir })
    }

    /// Becomes the owner of a directory that exists, if it has none.
    pub(super) fn own_existing(path: &Path) -> Result<Root, String> {
        check_parents(path)?;
        let dir = open(path)?;
        lock(&dir, LOCK_WITHIN).map_err(|e| e.of(path))?;
        Ok(Root { path: path.to_owned(), _lock: dir })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the names of what agents pinned.
    pub(super) fn ids(&self) -> Vec<String> {
        ids(&self.path)
    }

    /// Names this process as the owner. Returns the name, which no other owner has.
    pub(super) fn name_owner(&self) -> io::Result<String> {
        let (pid, now_ns) = (std::process::id(), crate::clock::now_ns());
        let name = format!("{OWNER}{pid}_{now_ns}");
        for before in names(&self.path).into_iter().filter(|name| name.starts_with(OWNER)) {
            self.remove(&before)?;
        }
        make_dir(&self.path.join(&name))?;
        Ok(name)
    }

    /// Removes a directory and everything that is pinned in it; nothing if there is none.
    pub(super) fn remove(&self, name: &str) -> io::Result<()> {
        remove(&self.path.join(name))
    }

    pub(super) fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        std::fs::rename(self.path.join(from), self.path.join(to))
    }
}

/// Returns the names of what agents pinned in the directory.
pub(super) fn ids(path: &Path) -> Vec<String> {
    names(path).into_iter().filter(|name| !name.starts_with(OWNER)).collect()
}

/// Returns the name of the last owner, and its pid.
pub(super) fn owner(path: &Path) -> Option<(String, u32)> {
    let name = names(path).into_iter().find(|name| name.starts_with(OWNER))?;
    let pid = name.strip_prefix(OWNER)?.split('_').next()?.parse().ok()?;
    Some((name, pid))
}

/// Returns the names in a directory, sorted; none if it cannot be read.
pub(super) fn names(path: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(path).into_iter().flatten().flatten();
    let mut names: Vec<String> = entries.filter_map(|e| e.file_name().into_string().ok()).collect();
    names.sort_unstable();
    names
}

/// Removes a directory and everything in it; nothing if there is none.
pub(super) fn remove(path: &Path) -> io::Result<()> {
    match std::fs::remove_dir_all(path) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(()),
        removed => removed,
    }
}

/// Removes everything that is pinned in the directory, then the name of the owner.
pub(super) fn remove_all(path: &Path) -> io::Result<()> {
    ids(path)
        .into_iter()
        .chain(owner(path).map(|(name, _)| name))
        .try_for_each(|name| remove(&path.join(name)))
}

/// Creates a directory, and those above it, that only this user can use.
pub(super) fn make_dir(path: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(path)
}

/// Opens the directory if it is this user's alone.
pub(super) fn open(path: &Path) -> Result<File, String> {
    let name = path.display();
    let mut options = OpenOptions::new();
    options.read(true).custom_flags(libc::O_DIRECTORY | libc::O_NOFOLLOW);
    let dir = options.open(path).map_err(|e| format!("cannot open {name}: {e}"))?;
    let found = dir.metadata().map_err(|e| format!("cannot open {name}: {e}"))?;
    if found.uid() != own_uid() || found.mode() & 0o077 != 0 {
        return Err(format!(
            "{name} is of user {} with mode {:o}: expected user {} and mode 700",
            found.uid(),
            found.mode() & 0o7777,
            own_uid()
        ));
    }
    Ok(dir)
}

/// Checks that the directory is on a bpf file system, and that no other user can replace it.
pub(super) fn check_parents(path: &Path) -> Result<(), String> {
    let parent = path.parent().filter(|_| path.is_absolute());
    let parent = parent.ok_or_else(|| format!("{}: expected an absolute path", path.display()))?;
    if !sys::is_bpf_fs(parent).map_err(|e| format!("{}: {e}", parent.display()))? {
        return Err(format!("{} is on no bpf file system", parent.display()));
    }
    for dir in parent.ancestors() {
        let found = std::fs::symlink_metadata(dir).map_err(|e| format!("{}: {e}", dir.display()))?;
        if !is_safe_parent(&found) {
            return Err(format!("other users can replace what is in {}", dir.display()));
        }
    }
    Ok(())
}

fn is_safe_parent(dir: &Metadata) -> bool {
    let is_closed = dir.mode() & WRITABLE_BY_OTHERS == 0 || dir.mode() & STICKY != 0;
    dir.is_dir() && is_closed && (dir.uid() == 0 || dir.uid() == own_uid())
}

fn own_uid() -> u32 {
    std::fs::metadata("/proc/self").map_or(0, |own| own.uid())
}

/// The reason why a directory cannot be locked.
pub(super) enum LockError {
    Owned,
    Failed(io::Error),
}

impl LockError {
    fn of(self, path: &Path) -> String {
        match (self, owner(path)) {
            (LockError::Owned, Some((_, pid))) => format!("process {pid} owns {}", path.display()),
            (LockError::Owned, None) => format!("another process owns {}", path.display()),
            (LockError::Failed(e), _) => format!("cannot lock {}: {e}", path.display()),
        }
    }
}

/// Locks the directory, if that succeeds within this time.
pub(super) fn lock(dir: &File, within: Duration) -> Result<(), LockError> {
    let began = Instant::now();
    loop {
        match dir.try_lock() {
            Ok(()) => return Ok(()),
            Err(TryLockError::WouldBlock) if began.elapsed() < within => {
                std::thread::sleep(Duration::from_millis(10));
            }
            Err(TryLockError::WouldBlock) => return Err(LockError::Owned),
            Err(TryLockError::Error(e)) => return Err(LockError::Failed(e)),
        }
    }
}
