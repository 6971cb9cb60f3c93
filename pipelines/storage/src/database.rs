//! The redb file: opened, renamed if it cannot be read, written in transactions, reopened after a disk error.
//!
//! Everything here blocks and runs on the thread of [`super::store`]. redb trusts a file that it closed and may
//! panic on one that was modified by others; therefore every page is checked at the start, and panics are caught
//! and treated as a broken file.

use std::io::{self, ErrorKind};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use component::storage::{Operation, StorageError};
use redb::{DatabaseError, ReadableDatabase as _, ReadableTableMetadata as _, TableError, TableHandle as _};

use crate::counts::{Counts, count};
use crate::disk::{self, Disk};
use crate::rows::{self, ROWS};
use crate::store::Settings;

/// Size of redb's cache, in bytes.
const CACHE_BYTES: usize = 4 << 20;

/// Disk space that stays free, in bytes, so that delivered requests can still be removed from the file.
const RESERVE_BYTES: u64 = 1 << 20;

/// Number of broken files that are kept; after that, the last one is overwritten.
const SET_ASIDE_MAX: u32 = 8;

/// Interval between attempts to open a file that another process holds.
const LOCKED_RETRY_EVERY: Duration = Duration::from_millis(10);

/// The values that a batch read, or its error.
pub(crate) type Answer = Result<Vec<Option<Vec<u8>>>, StorageError>;

/// A file with its counters.
pub(crate) struct Database {
    path: PathBuf,
    settings: Settings,
    counts: Arc<Counts>,
    /// `None` after a disk error, until the file is reopened.
    redb: Option<redb::Database>,
    stored_bytes: u64,
}

/// The reason why a transaction failed.
#[derive(Debug)]
enum Failure {
    /// The file is not, or no longer, a valid redb file.
    Broken(String),
    /// The disk is full.
    Full(String),
    /// The file is locked by another process.
    Locked,
    /// Any other error.
    Other(String),
}

impl Database {
    /// Opens or creates the file.
    pub(crate) fn open(path: PathBuf, settings: Settings, counts: Arc<Counts>) -> Result<Self, StorageError> {
        let mut database = Database { path, settings, counts, redb: None, stored_bytes: 0 };
        database.ensure_open().map_err(|failure| database.error(failure))?;
        Ok(database)
    }

    /// Runs batches, together if possible; returns the answers in their order.
    pub(crate) fn run(&mut self, batches: &[Vec<Operation>]) -> Vec<Answer> {
        let refused: Vec<Option<StorageError>> = self.admit(batches);
        let taken: Vec<&[Operation]> =
            batches.iter().zip(&refused).filter(|(_, r)| r.is_none()).map(|(b, _)| b.as_slice()).collect();
        let mut done = self.attempt(&taken).into_iter();
        let answers = refused.into_iter().map(|refused| match refused {
            Some(refused) => Err(refused),
            None => done.next().expect("one answer for each admitted batch"),
        });
        let answers: Vec<Answer> = answers.collect();
        answers.iter().for_each(|answer| self.record(answer));
        self.record_sizes();
        answers
    }

    /// Returns the size of the file and of its content, in bytes.
    pub(crate) fn sizes(&self) -> (u64, u64) {
        (disk::file_bytes(&self.path).0, self.stored_bytes)
    }

    /// Returns unused space of the file to the disk.
    pub(crate) fn compact(&mut self) {
        let Some(redb) = &mut self.redb else { return };
        let before = disk::file_bytes(&self.path).0;
        let outcome = catch_unwind(AssertUnwindSafe(|| redb.compact()));
        let after = disk::file_bytes(&self.path).0;
        match outcome {
            Ok(Ok(_)) => {
                count(&self.counts.compactions);
                tracing::info!(file = %self.path.display(), before_bytes = before, after_bytes = after, "compacted");
            }
            Ok(Err(error)) => {
                self.redb = None;
                tracing::warn!(file = %self.path.display(), %error, "cannot compact the file");
            }
            Err(_) => self.redb = None,
        }
        self.record_sizes();
    }

    /// Runs all batches in one transaction. If it fails, runs each separately, so that a batch that does not fit
    /// does not prevent another one from freeing space.
    fn attempt(&mut self, batches: &[&[Operation]]) -> Vec<Answer> {
        if batches.is_empty() {
            return Vec::new();
        }
        match self.transact(batches) {
            Ok(answers) => answers.into_iter().map(Ok).collect(),
            Err(failure) if batches.len() == 1 => vec![Err(self.error(failure))],
            Err(_) => batches.iter().flat_map(|batch| self.attempt(&[batch])).collect(),
        }
    }

    fn transact(&mut self, batches: &[&[Operation]]) -> Result<Vec<Vec<Option<Vec<u8>>>>, Failure> {
        self.ensure_open()?;
        let redb = self.redb.as_ref().expect("it was opened above");
        let outcome = catch_unwind(AssertUnwindSafe(|| transaction(redb, batches)));
        match outcome.unwrap_or_else(|panic| Err(Failure::Broken(panic_text(&*panic)))) {
            Ok((answers, grown)) => {
                self.stored_bytes = self.stored_bytes.saturating_add_signed(grown);
                count(&self.counts.commits);
                Ok(answers)
            }
            Err(failure) => {
                // After an error, redb must be reopened.
                self.redb = None;
                if let Failure::Broken(reason) = &failure {
                    self.set_aside(reason);
                }
                Err(failure)
            }
        }
    }

    /// Returns the batches that exceed the configured size or the space on the disk.
    fn admit(&self, batches: &[Vec<Operation>]) -> Vec<Option<StorageError>> {
        let (file, on_disk) = disk::file_bytes(&self.path);
        let unused = on_disk.min(file).saturating_sub(self.stored_bytes + self.stored_bytes / 4);
        let left = disk::free_bytes(&self.path).unwrap_or(u64::MAX).saturating_add(unused);
        let mut wanted = 0u64;
        let mut admit = |batch: &Vec<Operation>| {
            let bytes = written_bytes(batch);
            if bytes == 0 {
                return None;
            }
            // Pages are copied on write, and the old ones are freed after the commit.
            let needs = (wanted + bytes).saturating_mul(2).saturating_add(RESERVE_BYTES);
            let most = self.settings.bytes_max;
            if most > 0 && self.stored_bytes + wanted + bytes > most {
                let held = self.stored_bytes + wanted;
                return Some(StorageError::Full(format!(
                    "{bytes} bytes do not fit: {held} of at most {most} bytes are held"
                )));
            }
            if needs > left {
                return Some(StorageError::Full(format!(
                    "{bytes} bytes do not fit: the disk of {} has {left} bytes left, {needs} are needed",
                    self.path.display()
                )));
            }
            wanted += bytes;
            None
        };
        batches.iter().map(&mut admit).collect()
    }

    fn ensure_open(&mut self) -> Result<(), Failure> {
        if self.redb.is_some() {
            return Ok(());
        }
        let begin = Instant::now();
        loop {
            match self.try_open() {
                Err(Failure::Broken(reason)) => {
                    self.set_aside(&reason);
                    return self.try_open();
                }
                Err(Failure::Locked) if begin.elapsed() < self.settings.timeout => {
                    std::thread::sleep(LOCKED_RETRY_EVERY);
                }
                outcome => return outcome,
            }
        }
    }

    fn try_open(&mut self) -> Result<(), Failure> {
        let opened = catch_unwind(AssertUnwindSafe(|| open_checked(&self.path, self.settings.fsync)));
        let (redb, stored) = opened.unwrap_or_else(|panic| Err(Failure::Broken(panic_text(&*panic))))?;
        (self.redb, self.stored_bytes) = (Some(redb), stored);
        self.record_sizes();
        Ok(())
    }

    /// Renames a file that cannot be read, so that it can be inspected and a new one is used.
    fn set_aside(&mut self, reason: &str) {
        (self.redb, self.stored_bytes) = (None, 0);
        let name = |n: u32| {
            let mut name = self.path.clone().into_os_string();
            name.push(format!(".corrupt-{n}"));
            PathBuf::from(name)
        };
        let free = (1..SET_ASIDE_MAX).map(name).find(|path| !path.exists());
        let aside = free.unwrap_or_else(|| name(SET_ASIDE_MAX));
        count(&self.counts.set_aside);
        match std::fs::rename(&self.path, &aside) {
            Ok(()) => tracing::error!(
                file = %self.path.display(), aside = %aside.display(), reason,
                "cannot read the storage: it is renamed, and its content is not delivered"
            ),
            Err(error) => tracing::error!(
                file = %self.path.display(), reason, %error, "cannot read the storage, nor rename it"
            ),
        }
    }

    fn error(&self, failure: Failure) -> StorageError {
        let path = self.path.display();
        match failure {
            Failure::Full(reason) => StorageError::Full(format!("{path}: {reason}")),
            Failure::Locked => StorageError::Failed(format!(
                "{path} is in use by another process, and was for {:?}",
                self.settings.timeout
            )),
            Failure::Broken(reason) | Failure::Other(reason) => {
                StorageError::Failed(format!("{path}: {reason}"))
            }
        }
    }

    fn record(&self, answer: &Answer) {
        match answer {
            Ok(_) => count(&self.counts.batches),
            Err(StorageError::Full(_)) => count(&self.counts.refused_full),
            Err(_) => count(&self.counts.failed),
        }
    }

    fn record_sizes(&self) {
        let (file, stored) = self.sizes();
        self.counts.file_bytes.store(file, Ordering::Relaxed);
        self.counts.stored_bytes.store(stored, Ordering::Relaxed);
    }
}

/// Opens a file and checks every page; returns it with the size of its content in bytes.
fn open_checked(path: &Path, fsync: bool) -> Result<(redb::Database, u64), Failure> {
    let disk = Disk::open(path, fsync)?;
    let mut builder = redb::Builder::new();
    let redb =
        builder.set_cache_size(CACHE_BYTES).set_check_integrity_on_open(true).create_with_backend(disk)?;
    let begun = redb.begin_write().map_err(redb::Error::from)?;
    let names: Vec<String> =
        begun.list_tables().map_err(redb::Error::from)?.map(|table| table.name().to_owned()).collect();
    if !names.is_empty() && names != [ROWS.name()] {
        return Err(Failure::Broken(format!("it belongs to another program, with the tables {names:?}")));
    }
    let stored = {
        let table = begun.open_table(ROWS).map_err(redb::Error::from)?;
        table.stats().map_err(redb::Error::from)?.stored_bytes()
    };
    begun.commit().map_err(redb::Error::from)?;
    Ok((redb, stored))
}

/// The values that each batch read, and the growth of the content in bytes.
type Done = (Vec<Vec<Option<Vec<u8>>>>, i64);

/// Runs batches in one transaction.
fn transaction(redb: &redb::Database, batches: &[&[Operation]]) -> Result<Done, Failure> {
    let reads = |batch: &&[Operation]| batch.iter().all(|step| matches!(step, Operation::Get(_)));
    if batches.iter().all(reads) {
        return Ok((read_only(redb, batches)?, 0));
    }
    let begun = redb.begin_write().map_err(redb::Error::from)?;
    let mut grown = 0;
    let answers = {
        let mut table = begun.open_table(ROWS).map_err(redb::Error::from)?;
        let mut do_batch =
            |batch: &&[Operation]| batch.iter().map(|s| step(&mut table, s, &mut grown)).collect();
        batches.iter().map(&mut do_batch).collect::<Result<_, Failure>>()?
    };
    begun.commit().map_err(redb::Error::from)?;
    Ok((answers, grown))
}

fn read_only(redb: &redb::Database, batches: &[&[Operation]]) -> Result<Vec<Vec<Option<Vec<u8>>>>, Failure> {
    let begun = redb.begin_read().map_err(redb::Error::from)?;
    let table = begun.open_table(ROWS).map_err(redb::Error::from)?;
    let read = |step: &Operation| match step {
        Operation::Get(key) => Ok(rows::get(&table, key).map_err(redb::Error::from)?),
        Operation::Set(..) | Operation::Delete(_) => unreachable!("batches that write are not read only"),
    };
    batches.iter().map(|batch| batch.iter().map(read).collect()).collect()
}

fn step(table: &mut rows::Rows<'_>, step: &Operation, grown: &mut i64) -> Result<Option<Vec<u8>>, Failure> {
    match step {
        Operation::Get(key) => return Ok(rows::get(table, key).map_err(redb::Error::from)?),
        Operation::Set(key, value) => *grown += rows::set(table, key, value).map_err(redb::Error::from)?,
        Operation::Delete(key) => *grown += rows::delete(table, key).map_err(redb::Error::from)?,
    }
    Ok(None)
}

/// Returns the bytes that a batch writes.
pub(crate) fn written_bytes(batch: &[Operation]) -> u64 {
    let bytes = |step: &Operation| match step {
        Operation::Set(key, value) => rows::cost(key, value),
        Operation::Get(_) | Operation::Delete(_) => 0,
    };
    batch.iter().map(bytes).sum()
}

fn panic_text(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "redb panicked".to_owned())
}

impl From<DatabaseError> for Failure {
    fn from(error: DatabaseError) -> Self {
        redb::Error::from(error).into()
    }
}

impl From<TableError> for Failure {
    fn from(error: TableError) -> Self {
        redb::Error::from(error).into()
    }
}

impl From<redb::Error> for Failure {
    fn from(error: redb::Error) -> Self {
        let text = error.to_string();
        match error {
            redb::Error::DatabaseAlreadyOpen => Failure::Locked,
            redb::Error::Io(error) => of_io(&error, text),
            redb::Error::Corrupted(_)
            | redb::Error::UpgradeRequired(_)
            | redb::Error::RepairAborted
            | redb::Error::LockPoisoned(_)
            | redb::Error::TableTypeMismatch { .. }
            | redb::Error::TableIsMultimap(_)
            | redb::Error::TypeDefinitionChanged { .. } => Failure::Broken(text),
            _ => Failure::Other(text),
        }
    }
}

/// Classifies an error of the operating system.
fn of_io(error: &io::Error, text: String) -> Failure {
    match error.kind() {
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded | ErrorKind::FileTooLarge => Failure::Full(text),
        ErrorKind::InvalidData | ErrorKind::UnexpectedEof | ErrorKind::IsADirectory => Failure::Broken(text),
        _ => Failure::Other(text),
    }
}
