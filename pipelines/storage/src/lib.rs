//! State that survives the process: one redb file per component, for the traits of [`component::storage`].
//!
//! A thread owns the file. Writes that wait together are committed together, so that many writers cost one sync
//! to disk and no asynchronous thread waits for one. Only this crate knows redb; the keys and values belong to
//! the user of a [`Store`].
//!
//! ```text
//!  batch ─▶ ┐                      ┌─▶ answer
//!  batch ─▶ ├─▶ thread: one commit ├─▶ answer     a full disk: refused, retried with the next batch
//!  batch ─▶ ┘   (rows of a table)  └─▶ answer     a broken file: renamed, counted, replaced
//! ```

mod compaction;
mod counts;
mod database;
mod disk;
mod extension;
mod file_name;
mod rows;
mod store;

pub use compaction::CompactionConfig;
pub use counts::{Counts, CountsSnapshot};
pub use extension::{FACTORY, FileStorageConfig};
pub use file_name::file_name;
pub use store::{Settings, Store};

#[cfg(test)]
mod tests;
