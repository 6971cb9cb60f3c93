//! Who may send, and as whom we send: what an authenticating extension offers to receivers and exporters.
//!
//! A [`ServerAuth`] looks at the headers of a request that came in; a [`ClientAuth`] names the headers that
//! a request going out must carry. Which scheme that is, and where its secrets lie, is the extension's.

use std::collections::BTreeMap;

use crate::context::{Context, Metadata};

/// The attributes of an authenticated sender, such as `username`.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Identity(pub BTreeMap<String, String>);

/// Why a request was not let in: the sentence for the sender, which names no secret.
#[derive(Clone, Debug, thiserror::Error, Eq, PartialEq)]
#[error("{0}")]
pub struct Unauthenticated(pub String);

/// Checks requests that come in.
pub trait ServerAuth: Send + Sync {
    /// Tells who sends a request with these headers, whose names are in lower case.
    fn authenticate(&self, headers: &Metadata) -> Result<Identity, Unauthenticated>;
}

/// Signs requests that go out.
pub trait ClientAuth: Send + Sync {
    /// Returns the headers to set, with names in lower case, for data that arrived under `context`. On an error,
    /// which is logged, the request is not sent and may be retried.
    fn headers(&self, context: &Context) -> Result<Vec<(String, String)>, String>;
}
