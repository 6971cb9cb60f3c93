//! The directory of the sockets between this process and the child, which only this user can enter.

use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

/// Returns the name of the directory of this process: below the directory that the service manager or the session gives it, or
/// below `/run`, or below the directory of temporary files. Sockets have short paths (108 bytes, unix(7)).
pub(super) fn of_this_process() -> PathBuf {
    let given = ["RUNTIME_DIRECTORY", "XDG_RUNTIME_DIR"].into_iter().filter_map(std::env::var_os);
    let given = given.map(PathBuf::from).chain([PathBuf::from("/run")]);
    let parent = given.into_iter().find(|dir| dir.is_absolute() && is_writable(dir));
    let parent = parent.unwrap_or_else(std::env::temp_dir);
    parent.join(format!("warptap-{}", std::process::id()))
}

fn is_writable(dir: &Path) -> bool {
    rustix::fs::access(dir, rustix::fs::Access::WRITE_OK).is_ok()
}

/// A directory that is removed with everything in it when the value is dropped.
#[derive(Debug)]
pub struct Directory(PathBuf);

impl Directory {
    /// Takes care of the directory at `path`, which may not exist yet.
    pub fn removed_at_the_end(path: PathBuf) -> Self {
        Directory(path)
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        remove(&self.0);
    }
}

/// Removes the directory with everything in it if it belongs to this user alone. An error has no effect: a later process of the
/// same pid removes what is left.
pub(super) fn remove(path: &Path) {
    if is_own(path) {
        _ = fs::remove_dir_all(path);
    }
}

/// Makes the directory, or takes the one that is there if it belongs to this user alone.
pub(super) fn make(path: &Path) -> io::Result<()> {
    match DirBuilder::new().mode(0o700).create(path) {
        Err(e) if e.kind() == io::ErrorKind::AlreadyExists && is_own(path) => Ok(()),
        made => made,
    }
}

/// What the names of sockets begin with at which the child listens.
pub(super) const TO_CHILD: &str = "to-";

/// Removes the sockets of a child that was killed, at which another one could not listen.
pub(super) fn remove_sockets(path: &Path) -> io::Result<()> {
    for entry in fs::read_dir(path)? {
        let entry = entry?;
        if entry.file_name().to_string_lossy().starts_with(TO_CHILD) {
            fs::remove_file(entry.path())?;
        }
    }
    Ok(())
}

/// Returns whether a path is a directory of this user that others cannot enter.
fn is_own(path: &Path) -> bool {
    let user = rustix::process::geteuid().as_raw();
    fs::symlink_metadata(path)
        .is_ok_and(|meta| meta.is_dir() && meta.uid() == user && meta.mode() & 0o077 == 0)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    #[test]
    fn only_a_directory_of_this_user_alone_is_taken() {
        let dir = tempfile::tempdir().unwrap();
        let [new, open, link] = ["new", "open", "link"].map(|name| dir.path().join(name));
        make(&new).unwrap();
        assert_eq!(fs::metadata(&new).unwrap().mode() & 0o777, 0o700);
        make(&new).unwrap();
        fs::create_dir(&open).unwrap();
        fs::set_permissions(&open, PermissionsExt::from_mode(0o755)).unwrap();
        assert_eq!(make(&open).unwrap_err().kind(), io::ErrorKind::AlreadyExists);
        symlink(&new, &link).unwrap();
        assert_eq!(make(&link).unwrap_err().kind(), io::ErrorKind::AlreadyExists);
        drop(Directory::removed_at_the_end(link.clone()));
        assert!(link.exists() && new.exists());
        drop(Directory::removed_at_the_end(new.clone()));
        assert!(!new.exists());
    }
}
