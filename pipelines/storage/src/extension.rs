//! `file_storage`: the extension that stores the state of components in files of one directory.

use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use component::storage::{Namespace, Storage, StorageClient, StorageError};
use component::{
    BoxFuture, BuildContext, Capabilities, Extension, ExtensionFactory, Host, Running, Stability, StartResult,
};
use config::{ConfigError, GoDuration, Problems, Section};
use opentelemetry::metrics::Meter;
use tokio_util::sync::CancellationToken;

use crate::compaction::{CompactionConfig, Rebound};
use crate::store::{Closer, Settings, Store, unpoisoned};
use crate::{counts, file_name};

/// The row of this extension.
pub const FACTORY: ExtensionFactory = ExtensionFactory {
    kind: "file_storage",
    aliases: &[],
    signals: &[],
    stability: Stability::Beta,
    about: "A small durable place on disk for queues and other state.",
    example: "\
directory: /var/lib/warptap
create_directory: true
compaction:
  on_start: true
",
    keys: config::keys::<FileStorageConfig>,
    build,
};

/// Time limit for closing files on stop. Acknowledged data is safe even if it passes.
const CLOSE_MAX: Duration = Duration::from_secs(5);

config::section! {
    /// The section of the extension.
    #[derive(Clone, Debug, PartialEq)]
    pub struct FileStorageConfig {
        /// Folder of the files. It must exist unless `create_directory` is set.
        pub directory: PathBuf = PathBuf::from("/var/lib/otelcol/file_storage"),
        /// Whether a missing folder is created.
        pub create_directory: bool,
        /// Permissions of a created folder, in octal.
        pub directory_permissions: String = "0750".to_owned(),
        /// Longest wait for a file that another process has locked.
        pub timeout: GoDuration = GoDuration::from_secs(1),
        /// Whether every write is synced to disk, so that it survives a loss of power.
        pub fsync: bool,
        /// Whether a corrupt file is replaced.
        pub recreate: bool => unused "a corrupt file is always moved aside and replaced",
        /// Compaction of files.
        pub compaction: CompactionConfig,
        /// Largest size of one file in MiB. 0 is unlimited. The Collector does not have this key.
        pub max_size_mib: i64 = 10 * 1024 => in 0..,
    }
}

impl FileStorageConfig {
    fn check(&self, problems: &mut Problems<'_>) {
        let compaction = &self.compaction;
        let is_named = !self.directory.as_os_str().is_empty();
        problems.require(is_named, "directory", "directory must not be empty");
        problems.require(
            !compaction.on_rebound || !compaction.check_interval.is_zero(),
            "compaction::check_interval",
            "compaction check interval must be positive when rebound compaction is set",
        );
        if self.create_directory {
            let _ = self.mode().map_err(|e| problems.add("directory_permissions", e));
        } else if is_named && let Err(error) = exists(&self.directory) {
            // As in the Collector: what the start would find is found by `validate`.
            problems.add("directory", error);
        }
    }

    /// Returns the permissions of created directories.
    fn mode(&self) -> Result<u32, &'static str> {
        let octal = u32::from_str_radix(&self.directory_permissions, 8)
            .map_err(|_| "directory_permissions value must be a valid octal representation")?;
        (octal & 0o777 == octal)
            .then_some(octal)
            .ok_or("directory_permissions contain invalid bits for file access")
    }

    fn settings(&self) -> Settings {
        Settings {
            fsync: self.fsync,
            timeout: *self.timeout,
            bytes_max: u64::try_from(self.max_size_mib).unwrap_or(0).saturating_mul(1 << 20),
            compacts_on_start: self.compaction.on_start,
            rebound: Rebound::of(&self.compaction),
        }
    }
}

struct FileStorage {
    config: FileStorageConfig,
}

fn build(_: &BuildContext, section: Section<'_>) -> Result<Box<dyn Extension>, ConfigError> {
    let (config, mut problems) = section.read::<FileStorageConfig>();
    config.check(&mut problems);
    problems.finish()?;
    Ok(Box::new(FileStorage { config }))
}

impl Extension for FileStorage {
    fn start(
        self: Box<Self>,
        host: &Host,
        stop: CancellationToken,
    ) -> BoxFuture<'static, StartResult<(Capabilities, Running)>> {
        let meter = host.meter().clone();
        Box::pin(async move {
            let mode = self.config.mode().unwrap_or(0o750);
            prepare(&self.config.directory, self.config.create_directory.then_some(mode))?;
            let (directory, settings) = (self.config.directory.clone(), self.config.settings());
            let files = Arc::new(Files { directory, settings, meter, open: Mutex::default() });
            let capabilities = Capabilities { storage: Some(files.clone()), ..Capabilities::default() };
            let running: Running = Box::pin(async move {
                stop.cancelled().await;
                files.close().await;
            });
            Ok((capabilities, running))
        })
    }
}

/// Creates the directory with these permissions; returns an error message on failure.
fn prepare(directory: &Path, mode: Option<u32>) -> Result<(), String> {
    let shown = directory.display();
    if let Some(mode) = mode {
        let made = DirBuilder::new().recursive(true).mode(mode).create(directory);
        made.map_err(|e| format!("cannot create the directory {shown}: {e}"))?;
    }
    exists(directory)
}

/// Returns an error message if there is no such directory.
fn exists(directory: &Path) -> Result<(), String> {
    let shown = directory.display();
    match std::fs::metadata(directory) {
        Ok(found) if found.is_dir() => Ok(()),
        Ok(_) => Err(format!("{shown} is not a directory")),
        Err(e) => Err(format!(
            "directory must exist: {shown}: {e}. You can enable the create_directory option to automatically create it"
        )),
    }
}

/// The files of one directory.
struct Files {
    directory: PathBuf,
    settings: Settings,
    meter: Meter,
    open: Mutex<Vec<Closer>>,
}

impl Storage for Files {
    fn open(&self, namespace: Namespace) -> BoxFuture<'_, Result<Arc<dyn StorageClient>, StorageError>> {
        Box::pin(async move {
            let name = file_name(&namespace);
            let path = self.directory.join(&name);
            let (store, closer) = Store::open_with_closer(path, self.settings).await?;
            counts::export(&store.shared_counts(), &self.meter, &name);
            let mut open = unpoisoned(self.open.lock());
            open.retain(|closer| !closer.is_closed());
            open.push(closer);
            Ok(Arc::new(store) as Arc<dyn StorageClient>)
        })
    }
}

impl Files {
    async fn close(&self) {
        let open = std::mem::take(&mut *unpoisoned(self.open.lock()));
        let all = async {
            for closer in open {
                closer.close().await;
            }
        };
        if tokio::time::timeout(CLOSE_MAX, all).await.is_err() {
            tracing::warn!(directory = %self.directory.display(), after = ?CLOSE_MAX, "files are left open");
        }
    }
}
