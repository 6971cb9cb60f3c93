//! The real binary, for tests that trace programs with it.

use std::path::PathBuf;

use capture::{Readiness, checks};

/// Returns the binary, built beside this test, if this machine permits tracing; otherwise prints the reason.
pub fn binary() -> Option<PathBuf> {
    let path = std::env::current_exe().ok()?.ancestors().nth(2)?.join("warptap");
    if !path.exists() {
        println!("skipped: the binary is not built beside this test");
        return None;
    }
    if let Some(missing) = checks().into_iter().find(|c| c.readiness == Readiness::Missing) {
        println!("skipped: {} {}: {}", missing.name, missing.found, missing.advice);
        return None;
    }
    Some(path)
}
