//! What is known of the request that data came in with: headers and who sent it, carried beside the data.
//!
//! The one idea: the context travels with the task, as Go's `context.Context` travels with the call: a
//! receiver opens a [`scope`] around `consume`, and whoever is called within sees it by [`current`]. A
//! component that goes on in another task, such as a queue, keeps the context and opens a scope again.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::auth::Identity;

/// The headers of a request: names in lower case, each with its values in order.
#[derive(Clone, Debug, Default, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Metadata(BTreeMap<String, Vec<String>>);

impl Metadata {
    /// The values under a name, in whatever case it is given; none where it is not there.
    pub fn get(&self, name: &str) -> &[String] {
        self.0.get(&name.to_ascii_lowercase()).map(Vec::as_slice).unwrap_or_default()
    }

    /// Adds a value under a name.
    pub fn add(&mut self, name: &str, value: impl Into<String>) {
        self.0.entry(name.to_ascii_lowercase()).or_default().push(value.into());
    }

    /// All names with their values, by name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &[String])> {
        self.0.iter().map(|(name, values)| (name.as_str(), values.as_slice()))
    }

    /// True where there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// What is known of a request. Cheap to clone.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Context {
    /// Its headers, where the receiver was told to include them.
    pub metadata: Arc<Metadata>,
    /// Who sent it, where the receiver authenticates.
    pub identity: Arc<Identity>,
}

tokio::task_local! {
    static CURRENT: Context;
}

/// The context of the request that is being handled; an empty one outside of every scope.
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
    fn a_context_is_seen_within_its_scope_and_nowhere_else() {
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
