//! Failures of a disk: it is full, or its files are overwritten.

use std::fs;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

use crate::dice::Dice;

/// A small file system, unmounted on drop.
pub struct Disk(TempDir);

impl Disk {
    /// Mounts a file system, which requires root.
    pub fn of_mib(mib: usize) -> Result<Self, String> {
        let folder = tempfile::tempdir().map_err(|e| e.to_string())?;
        let size = format!("size={mib}m");
        let mut mount = Command::new("mount");
        let output = mount.args(["-t", "tmpfs", "-o", &size, "none"]).arg(folder.path()).output();
        let output = output.map_err(|e| e.to_string())?;
        match output.status.success() {
            true => Ok(Disk(folder)),
            false => Err(String::from_utf8_lossy(&output.stderr).trim().to_owned()),
        }
    }

    pub fn path(&self) -> &Path {
        self.0.path()
    }

    /// Fills the file system completely.
    pub fn fill(&self) {
        // The write fails when the file system is full.
        let _ = fs::write(self.rest(), vec![0; 64 << 20]);
    }

    /// Frees the space.
    pub fn free(&self) {
        let _ = fs::remove_file(self.rest());
    }

    fn rest(&self) -> PathBuf {
        self.0.path().join("rest")
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(self.0.path()).output();
    }
}

/// Returns the database files of a storage with queues of logs.
fn queues(folder: &Path) -> Vec<PathBuf> {
    let files = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    files.filter(|path| path.to_string_lossy().ends_with("_logs")).collect()
}

/// Returns the number of files that were set aside.
pub fn set_aside(folder: &Path) -> usize {
    let files = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    files.filter(|path| path.to_string_lossy().contains(".corrupt-")).count()
}

/// Writes garbage into every database: in the whole file, in its header, or at its end.
pub fn corrupt(folder: &Path, dice: &mut Dice) {
    for path in queues(folder) {
        let file = fs::OpenOptions::new().write(true).open(&path).unwrap();
        let length = file.metadata().unwrap().len();
        let garbage: Vec<u8> = (0..4096).map(|_| dice.next() as u8).collect();
        match dice.below(3) {
            0 => (0..length / 4096).for_each(|page| file.write_all_at(&garbage, page * 4096).unwrap()),
            1 => file.write_all_at(&garbage[..512], 0).unwrap(),
            _ => file.set_len(length / 3).unwrap(),
        }
    }
}
