//! `debug`: writes data to the console in the Collector's layout.
//!
//! `normal` and `detailed` format the text, `output` writes it. Writing blocks the calling thread: this exporter
//! is for debugging and not for load.

mod detailed;
mod go;
mod normal;
mod output;

use std::sync::Arc;

use component::{
    BoxFuture, BuildContext, ComponentId, Consumer, Exporter, ExporterFactory, Host, Refused, Running,
    Stability, StartResult,
};
use config::{ConfigError, Optional, Section};
use pdata::{Data, Signal};
use tokio_util::sync::CancellationToken;

use output::Output;
use queue::{ExporterMetrics, QueueConfig, Stages};

/// The row of this exporter.
pub const FACTORY: ExporterFactory = ExporterFactory {
    kind: "debug",
    aliases: &[],
    signals: &Signal::ALL,
    stability: Stability::Alpha,
    about: "Prints what comes, in three degrees of detail.",
    example: "\
verbosity: normal
",
    keys: config::keys::<DebugConfig>,
    build,
};

config::section! {
    /// The section of the exporter.
    #[derive(Clone, Debug)]
    pub struct DebugConfig {
        /// Amount of detail that is written of a batch.
        pub verbosity: Verbosity = Verbosity::Basic,
        /// Number of batches per second and signal that are written before sampling begins.
        pub sampling_initial: u64 = 2,
        /// Of the further batches of the same second, one in this many is written. 0 writes none.
        pub sampling_thereafter: u64 = 1,
        /// Whether batches are written to the log of the collector instead of `output_paths`.
        pub use_internal_logger: bool = true,
        /// Destinations without the internal logger: `stdout`, `stderr` or files.
        pub output_paths: Option<Vec<String>>,
        /// Queue of requests.
        pub sending_queue: Optional<QueueConfig>,
    }
}

config::choice! {
    /// How much is written of a batch.
    pub enum Verbosity {
        /// One line with counts.
        Basic = "basic" | "Basic",
        /// And a line per span, point or record.
        Normal = "normal" | "Normal",
        /// And every field.
        Detailed = "detailed" | "Detailed",
    }
}

struct Debug {
    id: ComponentId,
    config: DebugConfig,
}

fn build(context: &BuildContext, section: Section<'_>) -> Result<Box<dyn Exporter>, ConfigError> {
    let (config, mut problems) = section.read::<DebugConfig>();
    QueueConfig::check(&config.sending_queue, &mut problems);
    match (&config.output_paths, config.use_internal_logger) {
        (Some(_), true) => {
            problems.add("output_paths", "output_paths is not supported when use_internal_logger is true");
        }
        (Some(paths), false) if paths.is_empty() => {
            problems.add("output_paths", "output_paths must not be empty when use_internal_logger is false");
        }
        _ => {}
    }
    problems.finish()?;
    Ok(Box::new(Debug { id: context.id.clone(), config }))
}

impl Exporter for Debug {
    fn start(
        self: Box<Self>,
        host: &Host,
        stop: CancellationToken,
    ) -> BoxFuture<'static, StartResult<(Arc<dyn Consumer>, Running)>> {
        let host = host.clone();
        Box::pin(async move {
            let output = Output::open(&self.id, &self.config)?;
            let printer = Printer { verbosity: self.config.verbosity, output };
            let stages = Stages { queue: self.config.sending_queue.into_inner(), retry: None };
            let metrics = ExporterMetrics::new(&host, &self.id);
            queue::stack(&host, &self.id, FACTORY.signals, &stages, Arc::new(printer), &metrics, &stop).await
        })
    }
}

struct Printer {
    verbosity: Verbosity,
    output: Output,
}

impl Consumer for Printer {
    fn consume(&self, data: Data) -> BoxFuture<'_, Result<(), Refused>> {
        let written = self.print(&data);
        Box::pin(async move { written.map_err(|e| Refused::permanent(format!("cannot write: {e}"))) })
    }
}

impl Printer {
    fn print(&self, data: &Data) -> std::io::Result<()> {
        let text = match self.verbosity {
            Verbosity::Basic => None,
            Verbosity::Normal => Some(normal::text(data)),
            Verbosity::Detailed => Some(detailed::text(data)),
        };
        let (title, counts) = summary(data);
        self.output.write(data.signal(), title, &counts, text.as_deref())
    }
}

/// Returns the title and the counts of the summary line.
fn summary(data: &Data) -> (&'static str, Vec<(&'static str, usize)>) {
    match data {
        Data::Logs(d) => {
            ("Logs", vec![("resource logs", d.resource_logs.len()), ("log records", data.items())])
        }
        Data::Metrics(d) => {
            let scopes = d.resource_metrics.iter().flat_map(|r| &r.scope_metrics);
            let metrics = scopes.map(|s| s.metrics.len()).sum();
            let resources = d.resource_metrics.len();
            let counts =
                vec![("resource metrics", resources), ("metrics", metrics), ("data points", data.items())];
            ("Metrics", counts)
        }
        Data::Traces(d) => {
            ("Traces", vec![("resource spans", d.resource_spans.len()), ("spans", data.items())])
        }
        Data::Profiles(d) => {
            ("Profiles", vec![("resource profiles", d.resource_profiles.len()), ("samples", data.items())])
        }
    }
}

#[cfg(test)]
mod tests;
