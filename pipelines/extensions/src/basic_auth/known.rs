//! Credentials that were right a moment ago.
//!
//! The one idea: to find out that a password is right takes tens of milliseconds in the better formats, on
//! purpose, and a sender that sends ten batches a second shows the same credentials each time. What is kept of
//! them is a keyed digest in memory, which is of no use to anybody else. Wrong credentials are as slow as ever.

use std::collections::BTreeSet;
use std::hash::{BuildHasher as _, RandomState};
use std::sync::{Mutex, PoisonError};

use sha2::{Digest as _, Sha256};

/// How many are known. When there are more, all are found out anew.
const KNOWN_MAX: usize = 1024;

/// Digests of right credentials.
pub(super) struct Known {
    salt: [u8; 16],
    digests: Mutex<BTreeSet<[u8; 32]>>,
}

impl Default for Known {
    fn default() -> Self {
        let half = |n: u64| RandomState::new().hash_one(n).to_ne_bytes();
        let mut salt = [0; 16];
        salt[..8].copy_from_slice(&half(0));
        salt[8..].copy_from_slice(&half(1));
        Known { salt, digests: Mutex::default() }
    }
}

impl Known {
    /// True where these are known to be right, or turn out to be.
    pub(super) fn or_found(&self, user: &str, password: &str, find_out: impl FnOnce() -> bool) -> bool {
        let digest = self.digest(user, password);
        if self.with(|digests| digests.contains(&digest)) {
            return true;
        }
        let is_right = find_out();
        if is_right {
            self.with(|digests| {
                if digests.len() >= KNOWN_MAX {
                    digests.clear();
                }
                digests.insert(digest);
            });
        }
        is_right
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
    fn only_what_was_right_is_known_and_not_for_ever() {
        let known = Known::default();
        assert!(!known.or_found("ann", "x", || false));
        assert!(known.or_found("ann", "x", || true));
        assert!(known.or_found("ann", "x", || unreachable!("it is known")));
        assert!(!known.or_found("an", "nx", || false), "another user, with the same letters");
        for i in 0..KNOWN_MAX {
            known.or_found("bob", &i.to_string(), || true);
        }
        assert!(known.with(|digests| digests.len()) <= KNOWN_MAX);
        assert!(!known.or_found("ann", "x", || false), "forgotten");
    }
}
