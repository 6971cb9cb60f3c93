//! When a file is made smaller: redb gives room back to itself, never to the disk, until it is compacted.

use std::path::PathBuf;
use std::time::Duration;

use config::GoDuration;
use serde::Deserialize;

/// The section `compaction`.
#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(default)]
pub struct CompactionConfig {
    /// Compacts every file when it is opened.
    pub on_start: bool,
    /// Compacts a file that had grown large once it holds little.
    pub on_rebound: bool,
    /// Taken for compatibility: a file is compacted where it lies.
    pub directory: PathBuf,
    /// The size of a file beyond which it is compacted when it holds little, in MiB.
    pub rebound_needed_threshold_mib: i64,
    /// What a file must hold less than to be compacted, in MiB.
    pub rebound_trigger_threshold_mib: i64,
    /// Taken for compatibility: redb chooses its own steps.
    pub max_transaction_size: i64,
    /// How often sizes are looked at.
    pub check_interval: GoDuration,
    /// Taken for compatibility: a compaction leaves no files behind.
    pub cleanup_on_start: bool,
}

impl Default for CompactionConfig {
    fn default() -> Self {
        CompactionConfig {
            on_start: false,
            on_rebound: false,
            directory: PathBuf::new(),
            rebound_needed_threshold_mib: 100,
            rebound_trigger_threshold_mib: 10,
            max_transaction_size: 65536,
            check_interval: GoDuration::from_secs(5),
            cleanup_on_start: false,
        }
    }
}

/// The rule of `on_rebound`: large once, holding little now.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rebound {
    /// How large a file must be, in bytes.
    pub(crate) needed_bytes: u64,
    /// What it must hold less than, in bytes.
    pub(crate) trigger_bytes: u64,
    /// How often the sizes are looked at.
    pub(crate) every: Duration,
}

impl Rebound {
    /// The rule, where it is on.
    pub(crate) fn of(config: &CompactionConfig) -> Option<Self> {
        let bytes = |mib: i64| u64::try_from(mib).unwrap_or(0).saturating_mul(1 << 20);
        config.on_rebound.then(|| Rebound {
            needed_bytes: bytes(config.rebound_needed_threshold_mib),
            trigger_bytes: bytes(config.rebound_trigger_threshold_mib),
            every: *config.check_interval,
        })
    }

    /// True for a file of these sizes.
    pub(crate) fn applies(&self, file_bytes: u64, stored_bytes: u64) -> bool {
        file_bytes > self.needed_bytes && stored_bytes < self.trigger_bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_rebounds_when_it_was_large_and_holds_little() {
        let config = CompactionConfig { on_rebound: true, ..CompactionConfig::default() };
        let rule = Rebound::of(&config).unwrap();
        for (file_mib, stored_mib, want) in [(101, 9, true), (100, 9, false), (101, 10, false)] {
            assert_eq!(rule.applies(file_mib << 20, stored_mib << 20), want, "{file_mib} {stored_mib}");
        }
        assert!(Rebound::of(&CompactionConfig::default()).is_none(), "off unless asked for");
    }
}
