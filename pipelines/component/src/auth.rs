//! Authentication by extensions, of requests to receivers and of requests by exporters.
//!
//! A [`ServerAuth`] checks the headers of an incoming request; a [`ClientAuth`] returns the headers of an outgoing
//! one. The extension determines the scheme and stores the secrets.

use std::collections::BTreeMap;

use crate::context::{Context, Metadata};

/// The attributes of an authenticated sender, such as `username`.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Identity(pub BTreeMap<String, String>);

/// The reason why a request was refused, as a message for the sender, without secrets.
#[derive(Clone, Debug, thiserror::Error, Eq, PartialEq)]
#[error("{0}")]
pub struct Unauthenticated(pub String);

/// Authenticates incoming requests.
pub trait ServerAuth: Send + Sync {
    /// Returns the sender of a request with these headers, whose names are in lower case.
    fn authenticate(&self, headers: &Metadata) -> Result<Identity, Unauthenticated>;
}

/// Adds credentials to outgoing requests.
pub trait ClientAuth: Send + Sync {
    /// Returns the headers to set, with names in lower case, for data that arrived under `context`. On an error,
    /// which is logged, the request is not sent and may be retried.
    fn headers(&self, context: &Context) -> Result<Vec<(String, String)>, String>;
}
