//! A small file whose content may change while we run, such as a mounted secret: read again when it changed.
//!
//! The one idea: instead of watching, whoever needs the content asks for it, and the file is asked whether it
//! is still the one that was read: one `stat` per use. A file that cannot be read any more, or is empty, leaves
//! the last content in place, which is told once.

use std::fs::{File, Metadata};
use std::io::{self, Read as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, SystemTime};

/// The largest file that is read, in bytes: it is held in memory.
const BYTES_MAX: u64 = 1024 * 1024;

/// A file that changed this shortly before it was read may change again without looking different: clocks of
/// file systems are coarse.
const SETTLED: Duration = Duration::from_secs(2);

/// A file and what was made of its content.
pub(crate) struct SecretFile<T> {
    path: PathBuf,
    make: fn(&str) -> Result<T, String>,
    state: Mutex<State<T>>,
}

struct State<T> {
    made: T,
    /// What the file looked like when it was read; none where it must be read again.
    seen: Option<Look>,
    is_failing: bool,
}

/// What tells one content of a file from another, without reading it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
struct Look {
    device: u64,
    inode: u64,
    bytes: u64,
    changed: (i64, i64),
}

impl<T: Clone> SecretFile<T> {
    /// Reads the file, and makes of its content what is needed, now and whenever it changes.
    pub(crate) fn open(path: &Path, make: fn(&str) -> Result<T, String>) -> Result<Self, String> {
        let told = |e: &dyn std::fmt::Display| format!("cannot read file {:?}: {e}", path.display());
        let (content, seen) = read(path).map_err(|e| told(&e))?;
        let made = make(&content).map_err(|e| told(&e))?;
        let state = Mutex::new(State { made, seen, is_failing: false });
        Ok(SecretFile { path: path.to_owned(), make, state })
    }

    /// What the content stands for now.
    pub(crate) fn current(&self) -> T {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if state.seen.is_none() || state.seen != look(&self.path) {
            self.renew(&mut state);
        }
        state.made.clone()
    }

    fn renew(&self, state: &mut State<T>) {
        let read = read(&self.path).map_err(|e| e.to_string());
        match read.and_then(|(content, seen)| Ok(((self.make)(&content)?, seen))) {
            Ok((made, seen)) => *state = State { made, seen, is_failing: false },
            Err(error) => {
                if !state.is_failing {
                    tracing::warn!(file = ?self.path, error, "cannot read the file again, its last content holds");
                }
                (state.seen, state.is_failing) = (None, true);
            }
        }
    }
}

/// The content without white space around it; at least one character.
pub(crate) fn whole(content: &str) -> Result<String, String> {
    match content.trim() {
        "" => Err("the file is empty".to_owned()),
        content => Ok(content.to_owned()),
    }
}

fn read(path: &Path) -> io::Result<(String, Option<Look>)> {
    let file = File::open(path)?;
    let metadata = file.metadata()?;
    if metadata.len() > BYTES_MAX {
        let told = format!("it has {} bytes: expected {BYTES_MAX} at most", metadata.len());
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, told));
    }
    let mut content = String::new();
    file.take(BYTES_MAX).read_to_string(&mut content)?;
    Ok((content, is_settled(&metadata).then(|| Look::of(&metadata))))
}

fn is_settled(metadata: &Metadata) -> bool {
    let age = metadata.modified().ok().and_then(|at| SystemTime::now().duration_since(at).ok());
    age.is_some_and(|age| age > SETTLED)
}

fn look(path: &Path) -> Option<Look> {
    std::fs::metadata(path).ok().as_ref().map(Look::of)
}

impl Look {
    fn of(metadata: &Metadata) -> Self {
        Look {
            device: metadata.dev(),
            inode: metadata.ino(),
            bytes: metadata.len(),
            changed: (metadata.mtime(), metadata.mtime_nsec()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn age(path: &Path, age: Duration) {
        File::options().write(true).open(path).unwrap().set_modified(SystemTime::now() - age).unwrap();
    }

    #[test]
    fn a_change_is_seen_whether_the_file_is_written_replaced_or_pointed_elsewhere() {
        let folder = tempfile::tempdir().unwrap();
        let [path, other] = ["secret", "other"].map(|name| folder.path().join(name));
        std::fs::write(&path, " one\n").unwrap();
        let file = SecretFile::open(&path, whole).unwrap();
        assert_eq!(file.current(), "one");
        // Of the same length, and at once.
        std::fs::write(&path, " two\n").unwrap();
        assert_eq!(file.current(), "two");
        std::fs::write(&other, "three").unwrap();
        age(&other, Duration::from_secs(60));
        std::fs::rename(&other, &path).unwrap();
        assert_eq!(file.current(), "three");
        assert!(file.state.lock().unwrap().seen.is_some(), "an old file is not read at each use");
        std::fs::write(&other, "four").unwrap();
        std::fs::remove_file(&path).unwrap();
        std::os::unix::fs::symlink(&other, &path).unwrap();
        assert_eq!(file.current(), "four");
    }

    #[test]
    fn a_file_that_went_or_is_empty_leaves_its_last_content() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("secret");
        std::fs::write(&path, "one").unwrap();
        let file = SecretFile::open(&path, whole).unwrap();
        std::fs::remove_file(&path).unwrap();
        assert_eq!(file.current(), "one");
        std::fs::write(&path, "  \n").unwrap();
        assert_eq!(file.current(), "one");
        std::fs::write(&path, "two").unwrap();
        assert_eq!(file.current(), "two");
    }

    #[test]
    fn a_file_that_cannot_be_read_at_the_start_is_an_error_that_names_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("secret");
        let told = |path: &Path| SecretFile::open(path, whole).err().unwrap();
        assert!(told(&path).contains("secret\": No such file"), "{}", told(&path));
        std::fs::write(&path, "\n").unwrap();
        assert!(told(&path).ends_with("secret\": the file is empty"), "{}", told(&path));
        File::create(&path).unwrap().set_len(BYTES_MAX + 1).unwrap();
        assert!(told(&path).contains("expected 1048576 at most"), "{}", told(&path));
    }
}
