//! `file`: appends every batch to a file, as the Collector's file exporter does.
//!
//! In JSON a batch is one line, an export request; in protobuf it is preceded by its length, four bytes, big
//! end first. This file is the configuration and the start; what is buffered and when it is written stands in
//! `buffered`. Rotation, compression and grouping are not there yet: their keys are errors.

mod buffered;

use std::fs::{File, OpenOptions};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use component::config::{ConfigError, GoDuration, Section};
use component::{
    BoxFuture, BuildContext, ComponentId, Consumer, Data, Exporter, ExporterFactory, Host, Refused, Running,
    Signal, Stability, StartResult,
};
use serde::Deserialize;
use tokio_util::sync::CancellationToken;

use crate::wire;
use buffered::Buffered;
use queue::{Stages, Tallies};

/// The row of this exporter.
pub const FACTORY: ExporterFactory = ExporterFactory {
    kind: "file",
    aliases: &[],
    signals: &Signal::STABLE,
    stability: Stability::Alpha,
    build,
};

/// What the user writes.
#[derive(Clone, Debug, Deserialize)]
#[serde(default)]
pub struct FileConfig {
    /// The file. It is created where it is missing, its folder is not.
    pub path: PathBuf,
    /// True: begin after what the file holds. False: begin an empty file.
    pub append: bool,
    /// How a batch is written.
    pub format: Format,
    /// How long data may wait in memory before it is written.
    pub flush_interval: GoDuration,
}

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
            path: PathBuf::new(),
            append: false,
            format: Format::Json,
            flush_interval: GoDuration::from_secs(1),
        }
    }
}

struct FileExporter {
    id: ComponentId,
    config: FileConfig,
}

fn build(context: &BuildContext, section: Section<'_>) -> Result<Box<dyn Exporter>, ConfigError> {
    let config: FileConfig = section.decode()?;
    let mut problems = section.problems();
    problems.require(!config.path.as_os_str().is_empty(), "path", "path must be non-empty");
    let interval = *config.flush_interval;
    problems.require(!interval.is_zero(), "flush_interval", "flush_interval must be larger than zero");
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
            let file = Shared(Arc::new(Mutex::new(Buffered::over(self.open()?))));
            let writer = Arc::new(Writer { format: self.config.format, file: file.clone() });
            let tallies = Arc::new(Tallies::default());
            let stages = Stages::default();
            let (front, _) =
                queue::stack(&host, &self.id, FACTORY.signals, &stages, writer, &tallies, &stop).await?;
            let flushing = tokio::spawn(file.flush_each(*self.config.flush_interval, self.id.clone(), stop));
            let running: Running = Box::pin(async move { drop(flushing.await) });
            Ok((front, running))
        })
    }
}

impl FileExporter {
    fn open(&self) -> StartResult<File> {
        let FileConfig { path, append, .. } = &self.config;
        let file = OpenOptions::new().create(true).write(true).append(*append).truncate(!append).open(path);
        file.map_err(|e| format!("path {path:?}: {e}").into())
    }
}

/// Writes one batch after the other.
struct Writer {
    format: Format,
    file: Shared,
}

impl Consumer for Writer {
    fn consume(&self, data: Data) -> BoxFuture<'_, Result<(), Refused>> {
        Box::pin(async move {
            let bytes = encode(self.format, &data);
            let written = self.file.blocking(move |file| file.append(&bytes)).await;
            written.map_err(|e| Refused::retryable(format!("cannot write: {e}")))
        })
    }
}

fn encode(format: Format, data: &Data) -> Vec<u8> {
    match format {
        Format::Json => {
            let mut bytes = otlp_json::encode(data);
            bytes.push(b'\n');
            bytes
        }
        Format::Proto => {
            let length = wire::encoded_len(data);
            let mut bytes = Vec::with_capacity(4 + length);
            bytes.extend(u32::try_from(length).unwrap_or(u32::MAX).to_be_bytes());
            wire::encode(data, &mut bytes);
            bytes
        }
    }
}

/// The file, for whoever writes and for the one that flushes.
#[derive(Clone)]
struct Shared(Arc<Mutex<Buffered<File>>>);

impl Shared {
    /// Does what may wait for a disk where it keeps nobody from working.
    async fn blocking<R: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Buffered<File>) -> std::io::Result<R> + Send + 'static,
    ) -> std::io::Result<R> {
        let file = self.0.clone();
        let work = move || work(&mut file.lock().unwrap_or_else(PoisonError::into_inner));
        tokio::task::spawn_blocking(work).await.unwrap_or_else(|e| Err(std::io::Error::other(e)))
    }

    /// Flushes at every interval, and once more at the end.
    async fn flush_each(self, interval: Duration, id: ComponentId, stop: CancellationToken) {
        let mut is_failing = false;
        loop {
            let stopped = tokio::time::timeout(interval, stop.cancelled()).await.is_ok();
            let flushed = self.blocking(Buffered::flush).await;
            if let Err(error) = &flushed
                && (stopped || !is_failing)
            {
                tracing::error!(exporter = %id, %error, is_lost = stopped, "cannot write to the file");
            }
            is_failing = flushed.is_err();
            if stopped {
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests;
