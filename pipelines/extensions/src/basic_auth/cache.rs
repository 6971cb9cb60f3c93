//! A cache of credentials that were verified before.
//!
//! The better formats take tens of milliseconds per verification by design, and a sender with ten batches a
//! second shows the same credentials each time. The cache holds keyed digests only, whose key never leaves the
//! process. Wrong credentials are verified each time.

use std::collections::BTreeSet;
use std::hash::{BuildHasher as _, RandomState};
use std::sync::{Mutex, PoisonError};

use sha2::{Digest as _, Sha256};

/// Largest number of cached credentials. When it is reached, the cache is cleared.
const ENTRIES_MAX: usize = 1024;

/// Digests of valid credentials.
pub(super) struct CredentialCache {
    salt: [u8; 16],
    digests: Mutex<BTreeSet<[u8; 32]>>,
}

impl Default for CredentialCache {
    fn default() -> Self {
        let half = |n: u64| RandomState::new().hash_one(n).to_ne_bytes();
        let mut salt = [0; 16];
        salt[..8].copy_from_slice(&half(0));
        salt[8..].copy_from_slice(&half(1));
        CredentialCache { salt, digests: Mutex::default() }
    }
}

impl CredentialCache {
    /// Returns true if the credentials are cached, or if `verify` accepts them.
    pub(super) fn contains_or_verify(
        &self,
        user: &str,
        password: &str,
        verify: impl FnOnce() -> bool,
    ) -> bool {
        let digest = self.digest(user, password);
        if self.with(|digests| digests.contains(&digest)) {
            return true;
        }
        let is_valid = verify();
        if is_valid {
            self.with(|digests| {
                if digests.len() >= ENTRIES_MAX {
                    digests.clear();
                }
                digests.insert(digest);
            });
        }
        is_valid
    }

    fn digest(&self, user: &str, password: &str) -> [u8; 32] {
        let user_bytes = (user.len() as u64).to_ne_bytes();
        let digest = Sha256::new().chain_update(self.salt).chain_update(user_bytes);
        digest.chain_update(user).chain_update(password).finalize().into()
    }

    fn with<T>(&self, f: impl FnOnce(&mut BTreeSet<[u8; 32]>) -> T) -> T {
        f(&mut self.digests.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_valid_credentials_are_cached_within_the_bound() {
        let cache = CredentialCache::default();
        assert!(!cache.contains_or_verify("ann", "x", || false));
        assert!(cache.contains_or_verify("ann", "x", || true));
        assert!(cache.contains_or_verify("ann", "x", || unreachable!("it is cached")));
        assert!(!cache.contains_or_verify("an", "nx", || false), "another user with the same letters");
        for i in 0..ENTRIES_MAX {
            cache.contains_or_verify("bob", &i.to_string(), || true);
        }
        assert!(cache.with(|digests| digests.len()) <= ENTRIES_MAX);
        assert!(!cache.contains_or_verify("ann", "x", || false), "evicted");
    }
}
