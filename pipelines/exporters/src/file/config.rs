//! What the user writes for `file`, and all that can be wrong with it.

use std::time::Duration;

use config::{GoDuration, Optional, Problems};
use serde::Deserialize;

/// What the user writes.
#[derive(Clone, Debug, Deserialize)]
#[serde(default)]
pub struct FileConfig {
    /// The file. It is created where it is missing; its folder is, with `create_directory`. With `group_by` one
    /// `*` stands for what the attribute says.
    pub path: String,
    /// True: begin after what the file holds. False: begin an empty file.
    pub append: bool,
    /// When to begin another file and keep the full one under another name; never where it is missing.
    pub rotation: Optional<RotationConfig>,
    /// How a batch is written.
    pub format: Format,
    /// An extension that encodes batches. There is none here.
    pub encoding: Option<String>,
    /// `zstd`, of each batch by itself; none where it is empty.
    pub compression: String,
    /// How to compress.
    pub compression_params: CompressionParams,
    /// How long data may wait in memory before it is written; a second where it is 0.
    pub flush_interval: GoDuration,
    /// Files by an attribute of the resource.
    pub group_by: GroupByConfig,
    /// Whether to create the file's folder.
    pub create_directory: bool,
    /// The permissions of folders that are created, in octal.
    pub directory_permissions: String,
}

/// The section `rotation`.
#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(default)]
pub struct RotationConfig {
    /// The size of a full file, in MiB; 100 where it is 0.
    pub max_megabytes: u32,
    /// How many days to keep full files; 0 is for ever.
    pub max_days: u32,
    /// How many full files to keep; 0 is all.
    pub max_backups: u32,
    /// Whether their names have local time in place of UTC.
    pub localtime: bool,
}

impl Default for RotationConfig {
    fn default() -> Self {
        RotationConfig { max_megabytes: 0, max_days: 0, max_backups: 100, localtime: false }
    }
}

/// The section `group_by`.
#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(default)]
pub struct GroupByConfig {
    /// Whether to group.
    pub enabled: bool,
    /// The attribute of the resource that stands in the file's path.
    pub resource_attribute: String,
    /// The most files to hold open; the one that was not written to for longest is closed for another.
    pub max_open_files: u32,
}

impl Default for GroupByConfig {
    fn default() -> Self {
        GroupByConfig {
            enabled: false,
            resource_attribute: "fileexporter.path_segment".to_owned(),
            max_open_files: 100,
        }
    }
}

/// The section `compression_params`.
#[derive(Clone, Debug, Default, Deserialize, PartialEq)]
#[serde(default)]
pub struct CompressionParams {
    /// Checked as in the Collector, and of no effect: there is one level, about as zstd's 1.
    pub level: i32,
}

/// The levels of zstd in the Collector; 0 is its default.
const LEVELS: [i32; 5] = [0, 1, 3, 6, 11];

/// The key `format`.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq)]
#[serde(rename_all = "lowercase")]
pub enum Format {
    /// OTLP's JSON, a line per batch.
    Json,
    /// Protobuf, each batch after its length.
    Proto,
}

impl Default for FileConfig {
    fn default() -> Self {
        FileConfig {
            path: String::new(),
            append: false,
            rotation: Optional::none(),
            format: Format::Json,
            encoding: None,
            compression: String::new(),
            compression_params: CompressionParams::default(),
            flush_interval: GoDuration::from_secs(1),
            group_by: GroupByConfig::default(),
            create_directory: false,
            directory_permissions: String::new(),
        }
    }
}

impl FileConfig {
    /// How long data may wait in memory.
    pub(super) fn flush_interval(&self) -> Duration {
        if self.flush_interval.is_zero() { Duration::from_secs(1) } else { *self.flush_interval }
    }

    /// The section `group_by`, where it is enabled.
    pub(super) fn group_by(&self) -> Option<&GroupByConfig> {
        Some(&self.group_by).filter(|group_by| group_by.enabled)
    }

    /// The permissions of folders that are created.
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
            format!("directory_permissions {permissions:?} is no mode: expected octal digits up to 0777")
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
