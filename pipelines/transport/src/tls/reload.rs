//! Reading certificates again: a value that is made anew when it has become old or a file of it has changed.
//!
//! The one idea: nothing runs in the background. Whoever opens a connection asks for the current value, and
//! that is when its age and its files are looked at. A value that cannot be made anew is told, and the last
//! one that could stays in use: a certificate half written must not cut off a node.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use super::material::TlsError;

/// When a value is made anew.
#[derive(Clone, Debug, Default)]
pub(super) struct When {
    /// Once it is so old.
    pub(super) age: Option<Duration>,
    /// Once one of these files has another time or size.
    pub(super) changed: Vec<PathBuf>,
}

/// A value that may be made anew.
pub(super) struct Reloading<T> {
    make: Box<dyn Fn() -> Result<T, TlsError> + Send + Sync>,
    when: When,
    made: Mutex<Made<T>>,
}

struct Made<T> {
    value: Arc<T>,
    at: Instant,
    stamps: Vec<Stamp>,
}

/// By what a file's change is noticed; none where there is no file.
type Stamp = Option<(SystemTime, u64)>;

impl<T> Reloading<T> {
    /// Makes the first value.
    pub(super) fn new(
        when: When,
        make: impl Fn() -> Result<T, TlsError> + Send + Sync + 'static,
    ) -> Result<Self, TlsError> {
        let stamps = stamps(&when.changed);
        let made = Mutex::new(Made { value: Arc::new(make()?), at: Instant::now(), stamps });
        Ok(Reloading { make: Box::new(make), when, made })
    }

    /// The value as of now.
    pub(super) fn current(&self) -> Arc<T> {
        let mut made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
        let stamps = stamps(&self.when.changed);
        let is_old = self.when.age.is_some_and(|age| made.at.elapsed() >= age);
        if is_old || stamps != made.stamps {
            made.at = Instant::now();
            made.stamps = stamps;
            match (self.make)() {
                Ok(value) => made.value = Arc::new(value),
                Err(error) => tracing::warn!(%error, "certificates stay as they are"),
            }
        }
        made.value.clone()
    }
}

fn stamps(paths: &[PathBuf]) -> Vec<Stamp> {
    let stamp = |path: &PathBuf| {
        let metadata = std::fs::metadata(path).ok()?;
        Some((metadata.modified().ok()?, metadata.len()))
    };
    paths.iter().map(stamp).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reading(path: &std::path::Path, when: When) -> Reloading<String> {
        let path = path.to_owned();
        let make = move || {
            let text = std::fs::read_to_string(&path).unwrap_or_default();
            if text.is_empty() { Err(TlsError::NoAuthorities) } else { Ok(text) }
        };
        Reloading::new(when, make).unwrap()
    }

    #[test]
    fn a_value_is_made_anew_when_told_and_kept_where_that_fails() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("ca.pem");
        std::fs::write(&path, "one").unwrap();
        let at_once = When { age: Some(Duration::ZERO), ..When::default() };
        let on_change = When { changed: vec![path.clone()], ..When::default() };
        let [never, at_once, on_change] =
            [When::default(), at_once, on_change].map(|when| reading(&path, when));
        let read = |text: &str| {
            std::fs::write(&path, text).unwrap();
            [&never, &at_once, &on_change].map(|value| value.current().as_str().to_owned())
        };
        assert_eq!(read("one more"), ["one", "one more", "one more"]);
        assert_eq!(read(""), ["one", "one more", "one more"]);
        assert_eq!(read("two"), ["one", "two", "two"]);
    }
}
