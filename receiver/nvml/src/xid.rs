//! Meaning of the most important XID numbers, from NVIDIA's catalogue.
//!
//! Source: <https://docs.nvidia.com/deploy/xid-errors/index.html>. Other numbers are reported without a meaning.

use hardware::Incident;
use opentelemetry::logs::Severity;
use semconv::{attribute, event};

/// The likely origin of an XID.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Blame {
    /// A fault of the program.
    Program,
    /// The device, its memory, its links or its driver.
    Device,
}

const KNOWN: [(u64, Blame, &str); 22] = [
    (13, Blame::Program, "graphics engine exception"),
    (31, Blame::Program, "memory page fault"),
    (32, Blame::Device, "corrupted push buffer"),
    (38, Blame::Device, "driver firmware error"),
    (43, Blame::Program, "the program's channel was stopped"),
    (45, Blame::Program, "preemptive cleanup after earlier errors"),
    (48, Blame::Device, "double-bit ECC error"),
    (61, Blame::Device, "internal microcontroller warning"),
    (62, Blame::Device, "internal microcontroller halt"),
    (63, Blame::Device, "memory page retired or row remapped"),
    (64, Blame::Device, "memory page could not be retired or row not remapped"),
    (68, Blame::Device, "video decoder exception"),
    (69, Blame::Program, "graphics engine class error"),
    (74, Blame::Device, "NVLink error"),
    (79, Blame::Device, "the GPU has fallen off the bus"),
    (92, Blame::Device, "many single-bit ECC errors"),
    (94, Blame::Device, "contained memory error"),
    (95, Blame::Device, "uncontained memory error"),
    (119, Blame::Device, "the GPU system processor did not answer"),
    (120, Blame::Device, "error of the GPU system processor"),
    (121, Blame::Device, "link to the CPU has errors"),
    (140, Blame::Device, "unrecovered ECC error"),
];

/// Returns the incident of an XID.
pub(crate) fn incident(device: String, number: u64) -> Incident {
    let (blame, meaning) = meaning(number);
    let meaning = meaning.map(|text| format!(": {text}")).unwrap_or_default();
    Incident {
        device,
        event: event::GPU_HARDWARE_XID,
        severity: match blame {
            Blame::Program => Severity::Warn,
            Blame::Device => Severity::Error,
        },
        text: format!("reports XID {number}{meaning}"),
        which: (attribute::GPU_XID, number.to_string()),
        error: Some("xid"),
    }
}

/// Returns the likely origin of an XID, and its meaning if known.
fn meaning(number: u64) -> (Blame, Option<&'static str>) {
    match KNOWN.iter().find(|(known, ..)| *known == number) {
        Some((_, blame, meaning)) => (*blame, Some(meaning)),
        None => (Blame::Device, None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_sorted_and_unknown_ones_blame_the_device() {
        assert!(KNOWN.windows(2).all(|w| w[0].0 < w[1].0));
        assert_eq!(meaning(79), (Blame::Device, Some("the GPU has fallen off the bus")));
        assert_eq!(meaning(9999), (Blame::Device, None));
    }
}
