//! Values that are made from files and made again when the files change, such as certificates and secrets.
//!
//! Nothing runs in the background: each use compares the age of the value and the metadata of its files, which
//! costs one `stat` per file. If a value cannot be made again, the last one stays in use and the failure is
//! logged once, so that a certificate that is half written does not cut off a node.

use std::fmt::Display;
use std::fs::Metadata;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use component::health::{Change, Health};

/// Age below which a file may change again without a change of its metadata: the clocks of file systems are
/// coarse.
const SETTLED: Duration = Duration::from_secs(2);

/// When a value is made again.
#[derive(Clone, Debug, Default)]
pub struct ReloadWhen {
    /// The largest age of the value.
    pub max_age: Option<Duration>,
    /// The files whose change makes it outdated.
    pub files: Vec<PathBuf>,
}

/// A value that is made again when it is outdated.
pub struct Reloading<T, E> {
    make: Box<dyn Fn() -> Result<T, E> + Send + Sync>,
    when: ReloadWhen,
    current: Mutex<Current<T>>,
    health: Health,
}

struct Current<T> {
    value: T,
    made_at: Instant,
    /// The metadata of the files; `None` if the value must be made again at the next use.
    stamps: Option<Vec<FileStamp>>,
}

/// The metadata by which a changed file is recognised without reading it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
struct FileStamp {
    device: u64,
    inode: u64,
    bytes: u64,
    modified: (i64, i64),
}

impl<T: Clone, E: Display> Reloading<T, E> {
    /// Makes the first value.
    pub fn new(when: ReloadWhen, make: impl Fn() -> Result<T, E> + Send + Sync + 'static) -> Result<Self, E> {
        let stamps = stamps(&when.files);
        let current = Mutex::new(Current { value: make()?, made_at: Instant::now(), stamps });
        Ok(Reloading { make: Box::new(make), when, current, health: Health::default() })
    }

    /// Returns the current value, made again if it is outdated.
    pub fn current(&self) -> T {
        let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        let stamps = stamps(&self.when.files);
        let is_old = self.when.max_age.is_some_and(|age| current.made_at.elapsed() >= age);
        if is_old || stamps.is_none() || stamps != current.stamps {
            self.renew(&mut current, stamps);
        }
        current.value.clone()
    }

    fn renew(&self, current: &mut Current<T>, stamps: Option<Vec<FileStamp>>) {
        current.made_at = Instant::now();
        let made = (self.make)();
        let change = self.health.record(made.is_ok());
        match made {
            Ok(value) => (current.value, current.stamps) = (value, stamps),
            Err(error) => {
                current.stamps = None;
                if change == Some(Change::Failed) {
                    tracing::warn!(files = ?self.when.files, %error, "cannot reload, using the previous value");
                }
            }
        }
    }
}

/// Returns the metadata of the files, or `None` if one is missing or may still change unnoticed.
fn stamps(files: &[PathBuf]) -> Option<Vec<FileStamp>> {
    files.iter().map(|path| FileStamp::of(path)).collect()
}

impl FileStamp {
    fn of(path: &Path) -> Option<Self> {
        let metadata = std::fs::metadata(path).ok()?;
        is_settled(&metadata).then(|| FileStamp {
            device: metadata.dev(),
            inode: metadata.ino(),
            bytes: metadata.len(),
            modified: (metadata.mtime(), metadata.mtime_nsec()),
        })
    }
}

fn is_settled(metadata: &Metadata) -> bool {
    let age = metadata.modified().ok().and_then(|at| SystemTime::now().duration_since(at).ok());
    age.is_some_and(|age| age > SETTLED)
}

#[cfg(test)]
mod tests {
    use std::fs::{self, File};
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    type Text = Reloading<String, String>;

    /// Returns the text of a file, which may not be empty, and the number of times it was read.
    fn text_of(path: &Path, when: ReloadWhen) -> (Text, Arc<AtomicUsize>) {
        let (path, reads) = (path.to_owned(), Arc::<AtomicUsize>::default());
        let count = reads.clone();
        let make = move || {
            count.fetch_add(1, Ordering::Relaxed);
            let text = fs::read_to_string(&path).unwrap_or_default();
            if text.is_empty() { Err("empty".to_owned()) } else { Ok(text) }
        };
        (Reloading::new(when, make).unwrap(), reads)
    }

    fn on_change(path: &Path) -> ReloadWhen {
        ReloadWhen { files: vec![path.to_owned()], ..ReloadWhen::default() }
    }

    fn age(path: &Path) {
        let modified = SystemTime::now() - Duration::from_secs(60);
        File::options().write(true).open(path).unwrap().set_modified(modified).unwrap();
    }

    #[test]
    fn a_failed_reload_keeps_the_previous_value() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("ca.pem");
        fs::write(&path, "one").unwrap();
        let always = ReloadWhen { max_age: Some(Duration::ZERO), ..ReloadWhen::default() };
        let values = [ReloadWhen::default(), always, on_change(&path)].map(|when| text_of(&path, when).0);
        let read = |text: &str| {
            fs::write(&path, text).unwrap();
            values.each_ref().map(Reloading::current)
        };
        assert_eq!(read("one more"), ["one", "one more", "one more"]);
        assert_eq!(read(""), ["one", "one more", "one more"]);
        assert_eq!(read("two"), ["one", "two", "two"]);
        fs::remove_file(&path).unwrap();
        assert_eq!(values[2].current(), "two");
    }

    #[test]
    fn a_file_may_be_written_replaced_or_linked_elsewhere() {
        let folder = tempfile::tempdir().unwrap();
        let [path, other] = ["secret", "other"].map(|name| folder.path().join(name));
        fs::write(&path, "one").unwrap();
        let (value, _) = text_of(&path, on_change(&path));
        assert_eq!(value.current(), "one");
        // The same length, at once.
        fs::write(&path, "two").unwrap();
        assert_eq!(value.current(), "two");
        fs::write(&other, "three").unwrap();
        age(&other);
        fs::rename(&other, &path).unwrap();
        assert_eq!(value.current(), "three");
        fs::write(&other, "four").unwrap();
        fs::remove_file(&path).unwrap();
        std::os::unix::fs::symlink(&other, &path).unwrap();
        assert_eq!(value.current(), "four");
    }

    #[test]
    fn an_old_file_is_not_read_at_each_use() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("secret");
        fs::write(&path, "one").unwrap();
        age(&path);
        let (value, reads) = text_of(&path, on_change(&path));
        (0..3).for_each(|_| drop(value.current()));
        assert_eq!(reads.load(Ordering::Relaxed), 1);
    }
}
