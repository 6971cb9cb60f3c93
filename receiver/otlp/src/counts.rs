//! What was accepted and refused, by protocol and signal: the Collector's `otelcol_receiver_accepted_*` and
//! `otelcol_receiver_refused_*`.

use std::sync::atomic::{AtomicU64, Ordering};

use component::Signal;

use crate::Protocol;

/// The counts of one receiver.
#[derive(Debug, Default)]
pub struct Counts([[Pair; 3]; 2]);

#[derive(Debug, Default)]
struct Pair {
    accepted: AtomicU64,
    refused: AtomicU64,
}

/// The counts of one protocol and signal at one moment, in log records, points or spans.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct CountsSnapshot {
    /// Items that the pipelines took.
    pub accepted: u64,
    /// Items that they refused.
    pub refused: u64,
}

impl Counts {
    /// The counts now.
    pub fn snapshot(&self, protocol: Protocol, signal: Signal) -> CountsSnapshot {
        let pair = &self.0[protocol as usize][signal as usize];
        CountsSnapshot {
            accepted: pair.accepted.load(Ordering::Relaxed),
            refused: pair.refused.load(Ordering::Relaxed),
        }
    }

    pub(crate) fn add(&self, protocol: Protocol, signal: Signal, items: usize, is_accepted: bool) {
        let pair = &self.0[protocol as usize][signal as usize];
        let count = if is_accepted { &pair.accepted } else { &pair.refused };
        count.fetch_add(items as u64, Ordering::Relaxed);
    }
}
