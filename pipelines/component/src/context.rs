//! The context of the request that data arrived in: its headers, the authenticated sender and its address.
//!
//! The context belongs to the task, as Go's `context.Context` belongs to the call: a receiver opens a [`scope`] around
//! `consume`, and components called within it read it with [`current`]. A component that continues in another task, such
//! as a queue, stores the context and opens a new scope.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

use crate::auth::Identity;

/// The headers of a request: names in lower case, each with its values in order.
#[derive(Clone, Debug, Default, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Metadata(BTreeMap<String, Vec<String>>);

impl Metadata {
    /// Returns the values of a name, ignoring case; none if it is absent.
    pub fn get(&self, name: &str) -> &[String] {
        self.0.get(&name.to_ascii_lowercase()).map(Vec::as_slice).unwrap_or_default()
    }

    /// Adds a value to a name.
    pub fn add(&mut self, name: &str, value: impl Into<String>) {
        self.0.entry(name.to_ascii_lowercase()).or_default().push(value.into());
    }

    /// Returns all names with their values, sorted by name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &[String])> {
        self.0.iter().map(|(name, values)| (name.as_str(), values.as_slice()))
    }

    /// Returns true if there are no headers.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// The context of a request. Cheap to clone.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Context {
    /// The headers, if the receiver is configured to include them.
    pub metadata: Arc<Metadata>,
    /// The sender, if the receiver authenticates it.
    pub identity: Arc<Identity>,
    /// The address that the request came from; none for a Unix socket, and after a queue on disk.
    pub address: Option<IpAddr>,
}

tokio::task_local! {
    static CURRENT: Context;
}

/// Returns the context of the current request; an empty one outside of every scope.
pub fn current() -> Context {
    CURRENT.try_with(Clone::clone).unwrap_or_default()
}

/// Runs `work` with `context` as the current one.
pub async fn scope<T>(context: Context, work: impl Future<Output = T>) -> T {
    CURRENT.scope(context, work).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_context_is_current_only_within_its_scope() {
        let mut metadata = Metadata::default();
        metadata.add("X-Tenant", "a");
        metadata.add("x-tenant", "b");
        let context = Context { metadata: Arc::new(metadata), ..Context::default() };
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let seen = runtime.block_on(scope(context.clone(), async { current() }));
        assert_eq!(seen, context);
        assert_eq!(seen.metadata.get("X-TENANT"), ["a", "b"]);
        assert_eq!(runtime.block_on(async { current() }), Context::default());
    }
}
