//! A small file whose content may change at run time, such as a mounted secret.

use std::fs::File;
use std::io::{self, Read as _};
use std::path::Path;

use transport::reload::{ReloadWhen, Reloading};

/// The largest file that is read, in bytes, since its content stays in memory.
const BYTES_MAX: u64 = 1024 * 1024;

/// A file and the value parsed from its content.
pub(crate) type SecretFile<T> = Reloading<T, String>;

/// Reads and parses the file, and does so again whenever it changes.
pub(crate) fn open<T: Clone + 'static>(
    path: &Path,
    parse: fn(&str) -> Result<T, String>,
) -> Result<SecretFile<T>, String> {
    let when = ReloadWhen { files: vec![path.to_owned()], ..ReloadWhen::default() };
    let path = path.to_owned();
    Reloading::new(when, move || {
        let content = read(&path).map_err(|e| e.to_string());
        content
            .and_then(|text| parse(&text))
            .map_err(|e| format!("cannot read file {:?}: {e}", path.display()))
    })
}

/// Returns the content without surrounding white space; an empty file is an error.
pub(crate) fn trimmed(content: &str) -> Result<String, String> {
    match content.trim() {
        "" => Err("the file is empty".to_owned()),
        content => Ok(content.to_owned()),
    }
}

fn read(path: &Path) -> io::Result<String> {
    let file = File::open(path)?;
    let bytes = file.metadata()?.len();
    if bytes > BYTES_MAX {
        let reason = format!("it has {bytes} bytes: expected {BYTES_MAX} at most");
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, reason));
    }
    let mut content = String::new();
    file.take(BYTES_MAX).read_to_string(&mut content)?;
    Ok(content)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_or_empty_file_leaves_the_last_content() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("secret");
        std::fs::write(&path, " one\n").unwrap();
        let file = open(&path, trimmed).unwrap();
        assert_eq!(file.current(), "one");
        std::fs::remove_file(&path).unwrap();
        assert_eq!(file.current(), "one");
        std::fs::write(&path, "  \n").unwrap();
        assert_eq!(file.current(), "one");
        std::fs::write(&path, "two").unwrap();
        assert_eq!(file.current(), "two");
    }

    #[test]
    fn a_file_that_cannot_be_read_at_start_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("secret");
        let error = |path: &Path| open(path, trimmed).err().unwrap();
        assert!(error(&path).contains("secret\": No such file"), "{}", error(&path));
        std::fs::write(&path, "\n").unwrap();
        assert!(error(&path).ends_with("secret\": the file is empty"), "{}", error(&path));
        File::create(&path).unwrap().set_len(BYTES_MAX + 1).unwrap();
        assert!(error(&path).contains("expected 1048576 at most"), "{}", error(&path));
    }
}
