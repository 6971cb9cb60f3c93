//! What the user writes for `file`, and all that can be wrong with it.

use std::time::Duration;

use config::{GoDuration, Optional, Problems};

config::section! {
    /// The section of the exporter.
    #[derive(Clone, Debug)]
    pub struct FileConfig {
        /// Path of the file, which is created if it is missing. With `group_by`, a `*` stands for the value of the
        /// attribute.
        pub path: String,
        /// Whether data is appended to an existing file instead of truncating it.
        pub append: bool,
        /// Rotation of full files. Without this section the file is never rotated.
        pub rotation: Optional<RotationConfig>,
        /// Encoding of a batch.
        pub format: Format = Format::Json,
        /// Id of an encoding extension. None is supported, so any value is refused.
        pub encoding: Option<String>,
        /// Compression of each batch: `zstd`. Empty is none.
        pub compression: String,
        /// Parameters of the compression.
        pub compression_params: ZstdParams,
        /// Longest time that data is buffered before it is written. 0 is 1s.
        pub flush_interval: GoDuration = GoDuration::from_secs(1),
        /// Separate files by a resource attribute.
        pub group_by: GroupByConfig,
        /// Whether the folder of the file is created.
        pub create_directory: bool,
        /// Permissions of created folders, in octal. Empty is 0755.
        pub directory_permissions: String,
    }

    /// The section `rotation`.
    #[derive(Clone, Debug, PartialEq)]
    pub struct RotationConfig {
        /// Size of a full file in MiB. 0 is 100.
        pub max_megabytes: u32,
        /// Number of days that full files are kept. 0 is unlimited.
        pub max_days: u32,
        /// Number of full files that are kept. 0 is unlimited.
        pub max_backups: u32 = 100,
        /// Whether the names of full files contain local time instead of UTC.
        pub localtime: bool,
    }

    /// The section `group_by`.
    #[derive(Clone, Debug, PartialEq)]
    pub struct GroupByConfig {
        /// Whether batches are grouped.
        pub enabled: bool,
        /// Resource attribute whose value is inserted into the path.
        pub resource_attribute: String = "fileexporter.path_segment".to_owned(),
        /// Largest number of open files. At the limit the least recently written one is closed.
        pub max_open_files: u32 = 100,
    }

    /// The section `compression_params`.
    #[derive(Clone, Debug, PartialEq)]
    pub struct ZstdParams {
        /// Level of zstd: 1, 3, 6 or 11.
        pub level: i32 => unused "zstd is always written at its fastest level",
    }
}

/// The levels of zstd in the Collector; 0 is its default.
const LEVELS: [i32; 5] = [0, 1, 3, 6, 11];

config::choice! {
    /// The key `format`.
    pub enum Format {
        /// OTLP's JSON, a line per batch.
        Json = "json",
        /// Protobuf, each batch after its length.
        Proto = "proto",
    }
}

impl FileConfig {
    /// Returns the longest time that data waits in memory.
    pub(super) fn flush_interval(&self) -> Duration {
        if self.flush_interval.is_zero() { Duration::from_secs(1) } else { *self.flush_interval }
    }

    /// Returns the section `group_by`, if it is enabled.
    pub(super) fn group_by(&self) -> Option<&GroupByConfig> {
        Some(&self.group_by).filter(|group_by| group_by.enabled)
    }

    /// Returns the permissions of created folders.
    pub(super) fn directory_mode(&self) -> Option<u32> {
        match self.directory_permissions.as_str() {
            "" => Some(0o755),
            text => u32::from_str_radix(text, 8).ok().filter(|mode| *mode <= 0o777),
        }
    }

    pub(super) fn check(&self, problems: &mut Problems<'_>) {
        problems.require(!self.path.is_empty(), "path", "path must be non-empty");
        let both = self.append && self.rotation.is_some();
        problems.require(!both, "rotation", "append and rotation enabled at the same time is not supported");
        if let Some(encoding) = &self.encoding {
            let expected = "expected none, and format json or proto";
            problems.add("encoding", format!("encoding extension {encoding:?} is not supported: {expected}"));
        }
        let compression = self.compression.as_str();
        problems.require(["", "zstd"].contains(&compression), "compression", {
            format!("compression {compression:?} is not supported: expected \"zstd\"")
        });
        let level = self.compression_params.level;
        problems.require(compression.is_empty() || LEVELS.contains(&level), "compression_params::level", {
            format!("unsupported parameters {{Level:{level}}} for compression type {compression:?}: expected 1, 3, 6 or 11")
        });
        self.check_directory(problems);
        if let Some(group_by) = self.group_by() {
            group_by.check(&self.path, problems);
        }
    }

    fn check_directory(&self, problems: &mut Problems<'_>) {
        let permissions = &self.directory_permissions;
        problems.require(self.directory_mode().is_some(), "directory_permissions", {
            format!("directory_permissions {permissions:?} is not a mode: expected octal digits up to 0777")
        });
        let is_used = permissions.is_empty() || self.create_directory;
        problems.require(is_used, "directory_permissions", {
            "directory_permissions requires create_directory to be true"
        });
    }
}

impl GroupByConfig {
    fn check(&self, path: &str, problems: &mut Problems<'_>) {
        let stars = path.matches('*').count();
        problems.require(stars == 1, "path", "path must contain exactly one * when group_by is enabled");
        let begins = path.starts_with('*');
        problems.require(!begins, "path", "path must not start with * when group_by is enabled");
        problems.require(!self.resource_attribute.is_empty(), "group_by::resource_attribute", {
            "resource_attribute must not be empty when group_by is enabled"
        });
        let files = self.max_open_files;
        problems.require(files > 0, "group_by::max_open_files", "max_open_files must be larger than zero");
    }
}
