//! Compaction of database files. redb reuses free pages of a file, and returns them to the disk only when the file
//! is compacted.

use std::path::PathBuf;
use std::time::Duration;

use config::GoDuration;

config::section! {
    /// The section `compaction`.
    #[derive(Clone, Debug, PartialEq)]
    pub struct CompactionConfig {
        /// Whether every file is compacted when it is opened.
        pub on_start: bool,
        /// Whether a file that has grown is compacted once little of it is in use.
        pub on_rebound: bool,
        /// Folder for temporary files.
        pub directory: PathBuf => unused "a file is compacted in place",
        /// Size in MiB above which a file may be compacted.
        pub rebound_needed_threshold_mib: i64 = 100,
        /// Size in MiB of the data in use below which a file is compacted.
        pub rebound_trigger_threshold_mib: i64 = 10,
        /// Number of items per transaction of a compaction.
        pub max_transaction_size: i64 = 65536 => in 0.. => unused "the database chooses its own transactions",
        /// Interval at which sizes are checked.
        pub check_interval: GoDuration = GoDuration::from_secs(5),
        /// Whether temporary files of an earlier compaction are removed at the start.
        pub cleanup_on_start: bool => unused "a compaction leaves no files behind",
    }
}

/// The rule of `on_rebound`: a file is compacted if it is large and most of it is free.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rebound {
    /// Size above which a file may be compacted, in bytes.
    pub(crate) needed_bytes: u64,
    /// Size of the stored data below which a file is compacted, in bytes.
    pub(crate) trigger_bytes: u64,
    /// Interval at which the sizes are checked.
    pub(crate) every: Duration,
}

impl Rebound {
    /// Returns the rule, if compaction is enabled.
    pub(crate) fn of(config: &CompactionConfig) -> Option<Self> {
        let bytes = |mib: i64| u64::try_from(mib).unwrap_or(0).saturating_mul(1 << 20);
        config.on_rebound.then(|| Rebound {
            needed_bytes: bytes(config.rebound_needed_threshold_mib),
            trigger_bytes: bytes(config.rebound_trigger_threshold_mib),
            every: *config.check_interval,
        })
    }

    /// Returns whether a file of these sizes is compacted.
    pub(crate) fn applies(&self, file_bytes: u64, stored_bytes: u64) -> bool {
        file_bytes > self.needed_bytes && stored_bytes < self.trigger_bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_and_mostly_free_files_are_compacted() {
        let config = CompactionConfig { on_rebound: true, ..CompactionConfig::default() };
        let rule = Rebound::of(&config).unwrap();
        for (file_mib, stored_mib, want) in [(101, 9, true), (100, 9, false), (101, 10, false)] {
            assert_eq!(rule.applies(file_mib << 20, stored_mib << 20), want, "{file_mib} {stored_mib}");
        }
        assert!(Rebound::of(&CompactionConfig::default()).is_none(), "off unless asked for");
    }
}
