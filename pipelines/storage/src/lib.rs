//! State that outlives the process: one redb file per component, behind the trait of [`component::storage`].
//!
//! The one idea: a thread owns the file, and writes that wait together are committed together, so that many
//! writers cost one sync to disk and no asynchronous thread ever waits for one. This crate alone knows redb;
//! what the keys and values mean is left to whoever opens a [`Store`].
//!
//! ```text
//!  batch ─▶ ┐                      ┌─▶ answer
//!  batch ─▶ ├─▶ thread: one commit ├─▶ answer     a full disk: refused, tried again with the next batch
//!  batch ─▶ ┘   (rows of a table)  └─▶ answer     a broken file: renamed, counted, begun anew
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
