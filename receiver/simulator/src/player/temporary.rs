//! Directories that a player creates. Each is removed on drop, and all of them when the player's parent ends.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

static DIRS: Mutex<BTreeSet<PathBuf>> = Mutex::new(BTreeSet::new());

/// A directory that is removed on drop.
#[derive(Debug)]
pub(super) struct TemporaryDir(PathBuf);

impl TemporaryDir {
    /// Adopts a directory, which may not exist yet.
    pub(super) fn adopt(dir: PathBuf) -> TemporaryDir {
        dirs().insert(dir.clone());
        TemporaryDir(dir)
    }

    /// Creates the directory `warptap-NAME-PID` among the temporary files.
    pub(super) fn create(name: &str) -> std::io::Result<TemporaryDir> {
        let dir = TemporaryDir::adopt(path(name));
        std::fs::create_dir_all(&dir.0)?;
        Ok(dir)
    }

    /// Returns its path.
    pub(super) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for TemporaryDir {
    fn drop(&mut self) {
        let mut dirs = dirs();
        let _ = std::fs::remove_dir_all(&self.0);
        dirs.remove(&self.0);
    }
}

/// Returns the path `warptap-NAME-PID` among the temporary files.
pub(super) fn path(name: &str) -> PathBuf {
    std::env::temp_dir().join(format!("warptap-{name}-{}", std::process::id()))
}

/// Removes all directories and exits.
pub(super) fn exit() -> ! {
    // Locked until the process has ended, so that none is created meanwhile.
    let dirs = dirs();
    dirs.iter().for_each(|dir| drop(std::fs::remove_dir_all(dir)));
    std::process::exit(1)
}

fn dirs() -> MutexGuard<'static, BTreeSet<PathBuf>> {
    DIRS.lock().unwrap_or_else(PoisonError::into_inner)
}
