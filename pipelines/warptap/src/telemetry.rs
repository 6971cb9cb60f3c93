//! Internal telemetry of the collector: its log, its metrics and the spans of its own work.
//!
//! Only this module knows the destinations. Components measure with [`Host::meter`], log with `tracing` and record
//! spans, independent of the destinations. A reload changes destinations and leaves the meter provider, since
//! components that keep running keep their instruments.

mod console;
mod meters;
mod otlp;
mod prometheus;
mod push;
mod resource;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use component::Host;
use component::status::State;
use opentelemetry::KeyValue;
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::logs::SdkLoggerProvider;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::config::telemetry::{Logs, Metrics, ProcessorConfig, ReaderConfig, TelemetryConfig as Config};
use crate::logging;
use meters::Meters;
pub use otlp::OtlpError;
use push::{MetricsPush, SpansPush};
pub(crate) use resource::instance_id as random_id;

/// The reason why internal telemetry could not be set up. Each message is complete; `source()` is none.
#[derive(Debug, thiserror::Error)]
pub enum TelemetryError {
    /// The log could not be opened.
    #[error("failed to create logger: {0}")]
    Log(logging::OpenError),
    /// The address of the Prometheus exporter could not be bound.
    #[error("failed to create meter provider: binding address {endpoint} for Prometheus exporter: {reason}")]
    Listen {
        /// The configured address.
        endpoint: String,
        /// The reason why it could not be bound.
        reason: transport::listen::ListenError,
    },
    /// An exporter could not be created.
    #[error("failed to create exporter of {signal}: {reason}")]
    Exporter {
        /// The signal it exports.
        signal: &'static str,
        /// The reason why it could not be created.
        reason: OtlpError,
    },
    /// A reader of another temporality than cumulative can only be added at the start.
    #[error(
        "service::telemetry::metrics: a reader with another temporality_preference takes effect only at the next start"
    )]
    Temporality,
}

impl TelemetryError {
    fn of(signal: &'static str) -> impl Fn(OtlpError) -> Self {
        move |reason| TelemetryError::Exporter { signal, reason }
    }
}

/// The running internal telemetry of the collector.
pub struct InternalTelemetry {
    config: Config,
    /// The resource attributes, fixed at the start.
    attributes: Vec<KeyValue>,
    resource: Resource,
    host: Host,
    meters: Option<Meters>,
    records: Option<SdkLoggerProvider>,
    readers: Vec<(ReaderConfig, Task)>,
    spans: Vec<Task>,
}

/// A running telemetry destination.
struct Task {
    address: Option<SocketAddr>,
    stop: CancellationToken,
    ended: JoinHandle<()>,
}

impl Task {
    fn run<F: Future<Output = ()> + Send + 'static>(
        address: Option<SocketAddr>,
        work: impl FnOnce(CancellationToken) -> F,
    ) -> Self {
        let stop = CancellationToken::new();
        Task { address, ended: tokio::spawn(work(stop.clone())), stop }
    }

    async fn end(self) {
        self.stop.cancel();
        // A task that panicked has no data left to send.
        _ = self.ended.await;
    }
}

impl InternalTelemetry {
    /// Starts the log first, so that later errors are logged, then spans and metrics.
    pub async fn start(config: &Config) -> Result<Self, TelemetryError> {
        let attributes = resource::attributes(&config.resource, &resource::instance_id());
        let resource = resource::sdk(&attributes);
        let records = begin_log(&config.logs, &attributes, &resource)?;
        let state: Arc<State> = Arc::default();
        let meters = Meters::new(&config.metrics, resource.clone());
        let meter = meters.as_ref().map_or_else(meters::silent, |meters| meters.meter(&state));
        if meters.is_none() {
            tracing::info!("Internal metrics telemetry disabled");
        }
        let mut telemetry = InternalTelemetry {
            config: Config {
                metrics: Metrics { readers: Vec::new(), ..config.metrics.clone() },
                ..config.clone()
            },
            attributes,
            resource,
            host: Host::new(meter, state),
            meters,
            records,
            readers: Vec::new(),
            spans: Vec::new(),
        };
        telemetry.spans = telemetry.push_spans(&config.traces)?;
        telemetry.read(&config.metrics.readers).await?;
        telemetry.config = config.clone();
        Ok(telemetry)
    }

    /// Returns the host of the components.
    pub fn host(&self) -> Host {
        self.host.clone()
    }

    /// Returns the addresses of the Prometheus exporters, in the order of the readers.
    pub fn addresses(&self) -> Vec<SocketAddr> {
        self.readers.iter().filter_map(|(_, task)| task.address).collect()
    }

    /// Applies another configuration. Unchanged destinations keep running; on an error the previous configuration is
    /// restored.
    pub async fn reconfigure(&mut self, config: &Config) -> Result<(), TelemetryError> {
        let old = self.config.clone();
        self.warn_of_unapplied_changes(config);
        let outcome = self.change(&old, config).await;
        match &outcome {
            Ok(()) => self.config = config.clone(),
            Err(_) => {
                if let Err(error) = self.change(config, &old).await {
                    tracing::error!(%error, "failed to restore internal telemetry");
                }
            }
        }
        outcome
    }

    /// Sends the remaining telemetry and stops; waits `deadline` at most for each of destinations and log records.
    pub async fn stop(mut self, deadline: Duration) {
        let tasks: Vec<Task> =
            self.spans.drain(..).chain(self.readers.drain(..).map(|(_, task)| task)).collect();
        tasks.iter().for_each(|task| task.stop.cancel());
        let all = async {
            for task in tasks {
                task.end().await;
            }
        };
        if tokio::time::timeout(deadline, all).await.is_err() {
            tracing::warn!(after = ?deadline, "internal telemetry was not sent completely");
        }
        end_records(self.records.take(), deadline).await;
    }

    async fn change(&mut self, from: &Config, to: &Config) -> Result<(), TelemetryError> {
        if from.logs != to.logs {
            let records = begin_log(&to.logs, &self.attributes, &self.resource)?;
            end_records(std::mem::replace(&mut self.records, records), REPLACE_MAX).await;
        }
        if from.traces != to.traces {
            let spans = self.push_spans(&to.traces)?;
            for task in std::mem::replace(&mut self.spans, spans) {
                task.end().await;
            }
        }
        self.read(&to.metrics.readers).await
    }

    /// Stops readers that are not wanted, and starts those that are missing.
    async fn read(&mut self, wanted: &[ReaderConfig]) -> Result<(), TelemetryError> {
        let (unchanged, removed): (Vec<_>, Vec<_>) =
            self.readers.drain(..).partition(|(reader, _)| wanted.contains(reader));
        self.readers = unchanged;
        // Removed readers stop first, so that new ones can bind their ports.
        for (_, task) in removed {
            task.end().await;
        }
        for reader in wanted {
            if self.readers.iter().all(|(running, _)| running != reader) {
                let task = self.begin(reader).await?;
                self.readers.extend(task.map(|task| (reader.clone(), task)));
            }
        }
        Ok(())
    }

    /// Starts a reader; returns none if metrics are disabled.
    async fn begin(&mut self, reader: &ReaderConfig) -> Result<Option<Task>, TelemetryError> {
        let Some(meters) = &mut self.meters else { return Ok(None) };
        let source = meters.source(reader).ok_or(TelemetryError::Temporality)?;
        Ok(Some(match reader {
            ReaderConfig::Pull(settings) => {
                let state = self.host.state().clone();
                let server = prometheus::Server::bind(settings, source, state).await?;
                Task::run(server.address(), |stop| server.run(stop))
            }
            ReaderConfig::Periodic { interval, timeout, exporter } => {
                let push = MetricsPush::new(source, *interval, *timeout, exporter);
                let push = push.map_err(TelemetryError::of("metrics"))?;
                Task::run(None, |stop| push.run(stop))
            }
        }))
    }

    fn push_spans(&self, processors: &[ProcessorConfig]) -> Result<Vec<Task>, TelemetryError> {
        let mut pushes = Vec::new();
        for processor in processors {
            pushes.push(SpansPush::new(processor, &self.resource).map_err(TelemetryError::of("traces"))?);
        }
        let run = |push: SpansPush| {
            let spans = self.host.spans().subscribe(push.capacity());
            Task::run(None, |stop| push.run(spans, stop))
        };
        Ok(pushes.into_iter().map(run).collect())
    }

    /// Warns of changes to instruments and to the resource, which take effect only at the next start.
    fn warn_of_unapplied_changes(&self, config: &Config) {
        let old = &self.config;
        for (key, is_changed) in [
            ("metrics::level", old.metrics.level != config.metrics.level),
            ("metrics::views", old.metrics.views != config.metrics.views),
            ("resource", old.resource != config.resource),
        ] {
            if is_changed {
                tracing::warn!("service::telemetry::{key}: the change takes effect at the next start");
            }
        }
    }
}

/// Maximum time a reload waits until pending log records are sent.
const REPLACE_MAX: Duration = Duration::from_secs(5);

fn begin_log(
    logs: &Logs,
    attributes: &[KeyValue],
    resource: &Resource,
) -> Result<Option<SdkLoggerProvider>, TelemetryError> {
    let records = push::records(&logs.processors, resource).map_err(TelemetryError::of("logs"))?;
    logging::begin(logs, &resource::texts(attributes), records.as_ref()).map_err(TelemetryError::Log)?;
    Ok(records)
}

/// Sends pending log records, on a blocking thread.
async fn end_records(records: Option<SdkLoggerProvider>, deadline: Duration) {
    let Some(records) = records else { return };
    let ending = tokio::task::spawn_blocking(move || records.shutdown_with_timeout(deadline));
    match tokio::time::timeout(deadline, ending).await {
        Ok(Ok(Ok(()))) => {}
        _ => tracing::warn!("internal log records were not sent completely"),
    }
}

#[cfg(test)]
#[path = "telemetry/tests.rs"]
mod tests;
