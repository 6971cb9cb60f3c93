//! A small durable place for a component's own state: what a storage extension offers to queues, baselines
//! and recorders.
//!
//! Keys and values are bytes to the storage; what they mean is the component's own. The writer knows,
//! when the future is done, that the write is as durable as the extension was configured to make it.

use std::sync::Arc;

use crate::{BoxFuture, ComponentId};

/// The namespace of a component's state; no two components share one.
#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Namespace {
    /// The kind of component: `exporter`, `receiver`.
    pub kind: &'static str,
    /// Its id.
    pub id: ComponentId,
    /// Which of its states, such as the signal of a queue.
    pub name: String,
}

/// Why state could not be read or written.
#[derive(Clone, Debug, thiserror::Error, Eq, PartialEq)]
pub enum StorageError {
    /// There is no room: on the disk, or within the configured size. There may be later.
    #[error("storage is full: {0}")]
    Full(String),
    /// The storage was closed, since the collector stops.
    #[error("storage is closed")]
    Closed,
    /// The storage cannot be used.
    #[error("storage failed: {0}")]
    Failed(String),
}

/// One step of a batch.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Operation {
    /// Reads a key.
    Get(String),
    /// Writes a key.
    Set(String, Vec<u8>),
    /// Removes a key, which need not be there.
    Delete(String),
}

/// An extension that stores state.
pub trait Storage: Send + Sync {
    /// Opens the state of one component. It is closed by dropping the client.
    fn open(&self, namespace: Namespace) -> BoxFuture<'_, Result<Arc<dyn StorageClient>, StorageError>>;
}

/// The state of one component.
pub trait StorageClient: Send + Sync {
    /// Does all of the steps, in order, or none: after a crash either all or none of its writes are seen.
    /// Returns one entry per step: what a [`Operation::Get`] found, nothing for the others.
    fn batch(&self, steps: Vec<Operation>) -> BoxFuture<'_, Result<Vec<Option<Vec<u8>>>, StorageError>>;
}
