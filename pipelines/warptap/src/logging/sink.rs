//! Destinations of log lines: standard streams and files. Write errors are reported to other destinations.

use std::fs::OpenOptions;
use std::io::{self, Write};
use std::sync::{Mutex, PoisonError};

/// A destination of lines.
type Writer = Box<dyn Write + Send>;

/// The reason why a destination could not be opened.
#[derive(Debug, thiserror::Error)]
#[error("open sink {path:?}: {source}")]
pub struct OpenError {
    path: String,
    source: io::Error,
}

/// Writes lines to all `writers`, and their errors to `errors`.
pub(super) struct Sink {
    writers: Mutex<Vec<Writer>>,
    errors: Mutex<Vec<Writer>>,
}

impl Sink {
    pub(super) fn open(paths: &[String], error_paths: &[String]) -> Result<Self, OpenError> {
        Ok(Sink::over(open_all(paths)?, open_all(error_paths)?))
    }

    pub(super) fn over(writers: Vec<Writer>, errors: Vec<Writer>) -> Self {
        Sink { writers: Mutex::new(writers), errors: Mutex::new(errors) }
    }

    /// Writes a line to all destinations, and returns the number of failed writes.
    pub(super) fn write(&self, line: &str) -> u64 {
        let errors = write_all(&self.writers, line);
        for error in &errors {
            // If this fails too, the error is only counted.
            write_all(&self.errors, &format!("write error: {error}\n"));
        }
        errors.len() as u64
    }
}

fn write_all(writers: &Mutex<Vec<Writer>>, text: &str) -> Vec<io::Error> {
    let mut writers = writers.lock().unwrap_or_else(PoisonError::into_inner);
    let write = |w: &mut Writer| w.write_all(text.as_bytes()).and_then(|()| w.flush());
    writers.iter_mut().filter_map(|w| write(w).err()).collect()
}

fn open_all(paths: &[String]) -> Result<Vec<Writer>, OpenError> {
    paths.iter().map(|path| open(path)).collect()
}

fn open(path: &str) -> Result<Writer, OpenError> {
    Ok(match path {
        "stdout" => Box::new(io::stdout()),
        "stderr" => Box::new(io::stderr()),
        path => {
            let file = OpenOptions::new().append(true).create(true).open(path);
            Box::new(file.map_err(|source| OpenError { path: path.to_owned(), source })?)
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Full;

    impl Write for Full {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            Err(io::ErrorKind::StorageFull.into())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn lines_are_appended_and_write_errors_are_reported() {
        let folder = tempfile::tempdir().unwrap();
        let [log, errors] =
            ["log", "errors"].map(|name| folder.path().join(name).to_str().unwrap().to_owned());
        std::fs::write(&log, "before\n").unwrap();
        Sink::open(std::slice::from_ref(&log), &[]).unwrap().write("a\n");
        assert_eq!(std::fs::read_to_string(&log).unwrap(), "before\na\n");

        let broken = Sink::over(vec![Box::new(Full)], open_all(std::slice::from_ref(&errors)).unwrap());
        assert_eq!(broken.write("lost\n"), 1);
        assert_eq!(std::fs::read_to_string(&errors).unwrap(), "write error: no storage space\n");
    }

    #[test]
    fn a_file_that_cannot_be_opened_is_named() {
        let error = Sink::open(&["/nonexistent/x".to_owned()], &[]).err().unwrap().to_string();
        assert_eq!(error, "open sink \"/nonexistent/x\": No such file or directory (os error 2)");
    }
}
