//! `file`: appends every batch to a file, as the Collector's file exporter does.
//!
//! `encoding` encodes a batch. With `group_by`, an attribute of the resource selects the file (`groups`). Each
//! file is a `target`, which is rotated when it is full (`rotation`) and has a buffer that never splits a record
//! (`buffered`).

mod buffered;
mod config;
mod encoding;
mod groups;
mod rotation;
mod target;

use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use ::config::{ConfigError, Section};
use component::health::{Change, Health};
use component::{
    BoxFuture, BuildContext, ComponentId, Consumer, Exporter, ExporterFactory, Host, Refused, Running,
    Stability, StartResult,
};
use pdata::{Data, Signal};
use queue::{ExporterMetrics, Stages};
use tokio_util::sync::CancellationToken;

pub use self::config::{FileConfig, Format, GroupByConfig, RotationConfig};
use encoding::Encoding;
use groups::Groups;
use target::{Opener, Target};

/// The row of this exporter.
pub const FACTORY: ExporterFactory = ExporterFactory {
    kind: "file",
    aliases: &[],
    signals: &Signal::ALL,
    stability: Stability::Alpha,
    about: "Writes OTLP to a file, which it can rotate and compress.",
    example: "\
path: warptap.jsonl
rotation:
  max_megabytes: 100
  max_backups: 3
",
    keys: ::config::keys::<FileConfig>,
    build,
};

struct FileExporter {
    id: ComponentId,
    config: FileConfig,
}

fn build(context: &BuildContext, section: Section<'_>) -> Result<Box<dyn Exporter>, ConfigError> {
    let (config, mut problems) = section.read::<FileConfig>();
    config.check(&mut problems);
    problems.finish()?;
    Ok(Box::new(FileExporter { id: context.id.clone(), config }))
}

impl Exporter for FileExporter {
    fn start(
        self: Box<Self>,
        host: &Host,
        stop: CancellationToken,
    ) -> BoxFuture<'static, StartResult<(Arc<dyn Consumer>, Running)>> {
        let host = host.clone();
        Box::pin(async move {
            let files = Shared(Arc::new(Mutex::new(Files::open(&self.id, &self.config, &host)?)));
            let writer = Arc::new(Writer { encoding: Encoding::of(&self.config), files: files.clone() });
            let metrics = ExporterMetrics::new(&host, &self.id);
            let stages = Stages::default();
            let (input, _) =
                queue::stack(&host, &self.id, FACTORY.signals, &stages, writer, &metrics, &stop).await?;
            let flushing =
                tokio::spawn(files.flush_each(self.config.flush_interval(), self.id.clone(), stop));
            let running: Running = Box::pin(async move { drop(flushing.await) });
            Ok((input, running))
        })
    }
}

/// The open files.
enum Files {
    One(Target),
    Grouped(Groups),
}

impl Files {
    fn open(id: &ComponentId, config: &FileConfig, host: &Host) -> StartResult<Self> {
        let opener = Opener::new(id, config);
        if let Some(group_by) = config.group_by() {
            return Ok(Files::Grouped(Groups::new(id, &config.path, group_by, opener, host)));
        }
        let opened = opener.open(config.path.as_ref(), config.create_directory);
        opened.map(Files::One).map_err(|e| format!("path {:?}: {e}", config.path).into())
    }

    /// Writes a batch, each resource to its file.
    fn append(&mut self, data: &Data, encoding: Encoding) -> io::Result<()> {
        match self {
            Files::One(target) => target.append(&encoding.record(data)),
            Files::Grouped(groups) => groups.append(data, encoding),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Files::One(target) => target.flush(),
            Files::Grouped(groups) => groups.flush(),
        }
    }
}

/// Writes batches one after the other.
struct Writer {
    encoding: Encoding,
    files: Shared,
}

impl Consumer for Writer {
    fn consume(&self, data: Data) -> BoxFuture<'_, Result<(), Refused>> {
        Box::pin(async move {
            let encoding = self.encoding;
            let written = self.files.blocking(move |files| files.append(&data, encoding)).await;
            written.map_err(|e| Refused::retryable(format!("cannot write: {e}")))
        })
    }
}

/// The files, shared by the writer and the periodic flush.
#[derive(Clone)]
struct Shared(Arc<Mutex<Files>>);

impl Shared {
    /// Runs work that may block on a disk outside the asynchronous threads.
    async fn blocking<R: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Files) -> io::Result<R> + Send + 'static,
    ) -> io::Result<R> {
        let files = self.0.clone();
        let work = move || work(&mut files.lock().unwrap_or_else(PoisonError::into_inner));
        tokio::task::spawn_blocking(work).await.unwrap_or_else(|e| Err(io::Error::other(e)))
    }

    /// Flushes at every interval and once more on stop. Logs when flushing starts to fail or works again.
    async fn flush_each(self, interval: Duration, id: ComponentId, stop: CancellationToken) {
        let health = Health::default();
        loop {
            let stopped = tokio::time::timeout(interval, stop.cancelled()).await.is_ok();
            let flushed = self.blocking(Files::flush).await;
            match (health.record(flushed.is_ok()), flushed) {
                (change, Err(error)) if stopped || change.is_some() => {
                    tracing::error!(exporter = %id, %error, is_lost = stopped, "cannot write to the file");
                }
                (Some(Change::Recovered), _) => {
                    tracing::info!(exporter = %id, "writing to the file works again")
                }
                _ => {}
            }
            if stopped {
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests;
