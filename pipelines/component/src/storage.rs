//! Durable state of components, which a storage extension offers to queues, baselines and recorders.
//!
//! Keys and values are bytes, whose meaning only the component knows. A completed write is as durable as the
//! extension is configured to be.

use std::sync::Arc;

use crate::{BoxFuture, ComponentId};

/// The namespace of a component's state, which is unique.
#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Namespace {
    /// The kind of component: `exporter`, `receiver`.
    pub kind: &'static str,
    /// Id of the component.
    pub id: ComponentId,
    /// Name of the state, such as the signal of a queue.
    pub name: String,
}

/// The reason why state could not be read or written.
#[derive(Clone, Debug, thiserror::Error, Eq, PartialEq)]
pub enum StorageError {
    /// The disk or the configured size is exhausted. A later write may succeed.
    #[error("storage is full: {0}")]
    Full(String),
    /// The storage was closed because the collector stops.
    #[error("storage is closed")]
    Closed,
    /// The storage cannot be used.
    #[error("storage failed: {0}")]
    Failed(String),
}

/// An operation of a batch.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Operation {
    /// Reads a key.
    Get(String),
    /// Writes a key.
    Set(String, Vec<u8>),
    /// Removes a key, which may be absent.
    Delete(String),
}

/// An extension that stores state.
pub trait Storage: Send + Sync {
    /// Opens the state of one component. It is closed by dropping the client.
    fn open(&self, namespace: Namespace) -> BoxFuture<'_, Result<Arc<dyn StorageClient>, StorageError>>;
}

/// The state of one component.
pub trait StorageClient: Send + Sync {
    /// Runs all operations in order and atomically: after a crash either all or none of its writes are visible.
    /// Returns one entry per operation: the value found by a [`Operation::Get`], `None` for the others.
    fn batch(&self, steps: Vec<Operation>) -> BoxFuture<'_, Result<Vec<Option<Vec<u8>>>, StorageError>>;
}
