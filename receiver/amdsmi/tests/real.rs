//! The machine's own libamd_smi, where there is one: whatever it says, the receiver goes on.

#![allow(clippy::print_stdout, reason = "what was seen or skipped is said")]
#![allow(clippy::unwrap_used, reason = "a panic in a test is its report")]

use amdsmi::Library;
use hardware::{Driver as _, Fault};

#[test]
fn the_machines_own_library_answers_or_says_why_not_and_does_so_again() {
    for _ in 0..3 {
        let mut seen = Vec::new();
        let opened = Library::default().open(&mut |session| {
            let readings = session.read().unwrap();
            seen.extend(readings.iter().map(|reading| (reading.identity.clone(), reading.lost())));
            assert!(session.wait(std::time::Duration::ZERO).is_none() || !seen.is_empty());
        });
        match opened {
            Err(Fault::Failed("library_not_found")) => return println!("skipped: no libamd_smi here"),
            Err(fault) => assert!(!fault.name().is_empty() && seen.is_empty()),
            Ok(()) => assert!(seen.iter().all(|(identity, _)| !identity.id.is_empty())),
        }
        println!("{opened:?}, {seen:?}");
    }
}
