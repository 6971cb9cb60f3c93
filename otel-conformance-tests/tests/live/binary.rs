//! The real binary, for tests that trace programs with it.

use std::path::PathBuf;

use capture::{Readiness, checks};
use otel_conformance_tests::{peer, warptap_program};

/// Returns the binary, built beside this test, if this machine permits tracing; otherwise prints the reason.
pub fn binary() -> Option<PathBuf> {
    let path = peer(warptap_program())?;
    if let Some(missing) = checks().into_iter().find(|c| c.readiness == Readiness::Missing) {
        println!("skipped: {} {}: {}", missing.name, missing.found, missing.advice);
        return None;
    }
    Some(path)
}
