//! Output files of commands, which may run as root.
//!
//! In a directory to which every user may write, such as that for temporary files, another user may have put a file or a
//! link in the place of the output: the command would write elsewhere, or to a file that the other user can read.

use std::fs::{File, Metadata, OpenOptions};
use std::io;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;
use rustix::io::Errno;

/// Only the owner may read what a command writes: it contains command lines of all users.
const MODE: u32 = 0o600;
const WRITABLE_BY_ALL: u32 = 0o002;

/// Creates a file, or empties an existing one. Fails for a file or link of another user in a directory to which every
/// user may write.
pub(super) fn create(path: &Path) -> io::Result<File> {
    if !is_shared(path)? {
        return OpenOptions::new().write(true).create(true).truncate(true).mode(MODE).open(path);
    }
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(false).mode(MODE).custom_flags(flags.bits() as i32);
    let file = options.open(path).map_err(|e| match Errno::from_io_error(&e) {
        Some(Errno::LOOP) => refused("it is a symbolic link"),
        _ => e,
    })?;
    check(&file.metadata()?)?;
    file.set_len(0)?;
    Ok(file)
}

/// Creates a file that did not exist before.
pub(super) fn create_new(path: &Path) -> io::Result<File> {
    OpenOptions::new().write(true).create_new(true).mode(MODE).open(path)
}

/// Creates a file with a random name among the temporary files.
pub(super) fn create_temporary(prefix: &str, suffix: &str) -> io::Result<(File, PathBuf)> {
    Ok(tempfile::Builder::new().prefix(prefix).suffix(suffix).tempfile()?.keep()?)
}

/// Returns true if every user may create files beside this one.
fn is_shared(path: &Path) -> io::Result<bool> {
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    Ok(std::fs::metadata(parent)?.mode() & WRITABLE_BY_ALL != 0)
}

fn check(file: &Metadata) -> io::Result<()> {
    let own = std::fs::metadata("/proc/self")?.uid();
    match file {
        file if !file.is_file() => Err(refused("it is not a regular file")),
        file if file.uid() != own => Err(refused(&format!("it belongs to user {}", file.uid()))),
        file if file.nlink() > 1 => Err(refused("it has another name, too")),
        _ => Ok(()),
    }
}

fn refused(what: &str) -> io::Error {
    let reason =
        format!("{what}, and every user may write to its directory: remove it, or choose another directory");
    io::Error::new(io::ErrorKind::PermissionDenied, reason)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, chown, lchown, symlink};

    use super::*;

    /// Returns a directory to which every user may write.
    fn shared() -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        std::fs::set_permissions(dir.path(), PermissionsExt::from_mode(0o1777)).unwrap();
        dir
    }

    #[test]
    fn links_and_files_with_other_names_are_refused_where_every_user_may_write() {
        let (dir, private) = (shared(), tempfile::tempdir().unwrap());
        let (victim, output) = (private.path().join("victim"), dir.path().join("output"));
        std::fs::write(&victim, "kept").unwrap();
        symlink(&victim, &output).unwrap();
        assert!(create(&output).unwrap_err().to_string().starts_with("it is a symbolic link"));
        std::fs::remove_file(&output).unwrap();
        std::fs::hard_link(&victim, &output).unwrap();
        assert!(create(&output).unwrap_err().to_string().starts_with("it has another name, too"));
        assert_eq!(std::fs::read_to_string(&victim).unwrap(), "kept");
        symlink(&victim, private.path().join("link")).unwrap();
        create(&private.path().join("link")).unwrap();
        assert_eq!(
            std::fs::read_to_string(&victim).unwrap(),
            "",
            "links in one's own directory are followed"
        );
    }

    #[test]
    fn files_of_other_users_are_refused_where_every_user_may_write() {
        let dir = shared();
        let output = dir.path().join("output");
        std::fs::write(&output, "of another user").unwrap();
        if chown(&output, Some(65_534), None).is_err() {
            return println!("skipped: only root can give files away");
        }
        assert!(create(&output).unwrap_err().to_string().starts_with("it belongs to user 65534"));
        std::fs::remove_file(&output).unwrap();
        symlink("nowhere", &output).unwrap();
        lchown(&output, Some(65_534), None).unwrap();
        assert!(create(&output).is_err());
        assert!(!dir.path().join("nowhere").exists());
    }

    #[test]
    fn own_files_are_emptied_and_new_ones_are_private() {
        let dir = shared();
        let output = dir.path().join("output");
        create(&output).unwrap();
        std::fs::write(&output, "before").unwrap();
        let file = create(&output).unwrap();
        assert_eq!(file.metadata().unwrap().len(), 0);
        assert_eq!(file.metadata().unwrap().mode() & 0o777, MODE);
        assert!(create_new(&output).is_err());
        let (_, temporary) = create_temporary("warptap-test-", ".jsonl").unwrap();
        assert_eq!(std::fs::metadata(&temporary).unwrap().mode() & 0o777, MODE);
        std::fs::remove_file(temporary).unwrap();
    }
}
