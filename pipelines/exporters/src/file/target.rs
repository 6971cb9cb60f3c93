//! One file, opened by the rules of `append` and `rotation`.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use component::ComponentId;

use super::buffered::Buffered;
use super::config::FileConfig;
use super::rotation::Rotation;

/// The mode of new files, which contain telemetry of all users; that of an existing file stays as it is.
const MODE: u32 = 0o600;

/// Opens files as configured.
#[derive(Clone, Debug)]
pub(super) struct Opener {
    append: bool,
    rotation: Option<Rotation>,
    directory_mode: u32,
    /// Files written by this process, which are not truncated when they are reopened.
    begin: SystemTime,
}

impl Opener {
    pub(super) fn new(id: &ComponentId, config: &FileConfig) -> Self {
        Opener {
            append: config.append,
            rotation: config.rotation.get().map(|rotation| Rotation::new(id, rotation)),
            directory_mode: config.directory_mode().unwrap_or(0o755),
            begin: SystemTime::now(),
        }
    }

    /// Opens a file and creates its folder if `creates_folder`. A file with rotation is never truncated.
    pub(super) fn open(&self, path: &Path, create_directory: bool) -> io::Result<Target> {
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
        if let (true, Some(folder)) = (create_directory, folder) {
            DirBuilder::new().recursive(true).mode(self.directory_mode).create(folder)?;
        }
        let is_ours = fs::metadata(path).and_then(|m| m.modified()).is_ok_and(|at| at >= self.begin);
        let keeps = self.append || self.rotation.is_some() || is_ours;
        let file = OpenOptions::new()
            .create(true)
            .write(true)
            .append(keeps)
            .truncate(!keeps)
            .mode(MODE)
            .open(path)?;
        let bytes = file.metadata()?.len();
        if let Some(rotation) = &self.rotation {
            rotation.prune(path);
        }
        Ok(Target {
            path: path.to_owned(),
            file: Buffered::over(file),
            bytes,
            rotation: self.rotation.clone(),
        })
    }
}

/// An open file.
pub(super) struct Target {
    path: PathBuf,
    file: Buffered<File>,
    /// The size of the file including the buffer.
    bytes: u64,
    rotation: Option<Rotation>,
}

impl Target {
    /// Appends a whole record, in this file or after a rotation.
    pub(super) fn append(&mut self, record: &[u8]) -> io::Result<()> {
        let length = record.len() as u64;
        let is_full = |rotation: &Rotation| self.bytes > 0 && self.bytes + length > rotation.bytes_max;
        if let Some(rotation) = self.rotation.clone().filter(is_full) {
            self.rotate(&rotation)?;
        }
        self.file.append(record)?;
        self.bytes += length;
        Ok(())
    }

    pub(super) fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }

    fn rotate(&mut self, rotation: &Rotation) -> io::Result<()> {
        self.file.flush()?;
        rotation.rotate(&self.path)?;
        let file = OpenOptions::new().create(true).append(true).mode(MODE).open(&self.path)?;
        (self.file, self.bytes) = (Buffered::over(file), 0);
        rotation.prune(&self.path);
        Ok(())
    }
}
