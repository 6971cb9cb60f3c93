//! Directories that a player creates. Each is removed on drop, all of them when the player's parent ends, and those of a player
//! that was killed by the next one.
//!
//! Their names are random: a file or link that another user creates among the temporary files is never used.

use std::collections::BTreeSet;
use std::fs::{DirEntry, read_dir};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt};
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

    /// Creates a directory `warptap-NAME-PID-RANDOM` among the temporary files, which only its owner can read.
    pub(super) fn create(name: &str) -> std::io::Result<TemporaryDir> {
        TemporaryDir::create_in(&std::env::temp_dir(), name)
    }

    fn create_in(parent: &Path, name: &str) -> std::io::Result<TemporaryDir> {
        remove_leftovers(parent, name);
        let prefix = format!("warptap-{name}-{}-", std::process::id());
        let private = PermissionsExt::from_mode(0o700);
        let dir = tempfile::Builder::new().prefix(&prefix).permissions(private).tempdir_in(parent)?;
        Ok(TemporaryDir::adopt(dir.keep()))
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

/// Removes the directories of players that have ended without removing them.
fn remove_leftovers(parent: &Path, name: &str) {
    let own = std::fs::metadata("/proc/self").map(|own| own.uid()).ok();
    let is_own = |entry: &DirEntry| entry.metadata().is_ok_and(|m| m.is_dir() && Some(m.uid()) == own);
    let prefix = format!("warptap-{name}-");
    for entry in read_dir(parent).into_iter().flatten().flatten() {
        let file_name = entry.file_name();
        let pid =
            file_name.to_str().and_then(|n| n.strip_prefix(&prefix)?.split_once('-')).map(|(pid, _)| pid);
        if pid.is_some_and(has_ended) && is_own(&entry) {
            let _ = std::fs::remove_dir_all(entry.path());
        }
    }
}

fn has_ended(pid: &str) -> bool {
    pid.parse::<u32>().is_ok_and(|pid| !Path::new("/proc").join(pid.to_string()).exists())
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

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn directories_of_ended_players_are_removed_and_others_are_left() {
        let parent = tempfile::tempdir().unwrap();
        let at = |name: &str| parent.path().join(name);
        // No process has a pid beyond the largest (PID_MAX_LIMIT in linux/threads.h).
        let ended = "warptap-ranks-4194305-x";
        let others = [
            format!("warptap-ranks-{}-x", std::process::id()),
            "warptap-ranks-4194305".to_owned(),
            "warptap-stubs-4194305-x".to_owned(),
        ];
        let target = tempfile::tempdir().unwrap();
        std::fs::create_dir(at(ended)).unwrap();
        others.iter().for_each(|name| std::fs::create_dir(at(name)).unwrap());
        symlink(target.path(), at("warptap-ranks-4194306-x")).unwrap();
        let dir = TemporaryDir::create_in(parent.path(), "ranks").unwrap();
        assert!(!at(ended).exists());
        assert!(others.iter().all(|name| at(name).exists()) && target.path().exists());
        assert_eq!(std::fs::metadata(dir.path()).unwrap().permissions().mode() & 0o777, 0o700);
        let created = dir.path().to_owned();
        drop(dir);
        assert!(!created.exists());
    }
}
