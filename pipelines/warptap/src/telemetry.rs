//! What the collector tells of itself while it runs: its log, its metrics, the spans of its own work.
//!
//! The one idea: this is the only place that knows who is told; components measure by [`Host::meter`], log by
//! `tracing` and record spans, whoever asks for them. A reload changes who is told and leaves alone what
//! measures, since components that keep running keep their instruments.

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

use crate::config::telemetry::{Logs, Metrics, Processor, Reader, Telemetry as Config};
use crate::logging;
use meters::Meters;
pub use otlp::OtlpError;
use push::{MetricsPush, SpansPush};

/// Telemetry that cannot be had. Each says what went wrong in its own text, and has no source to be told again.
#[derive(Debug, thiserror::Error)]
pub enum TelemetryError {
    /// The log.
    #[error("failed to create logger: {0}")]
    Log(logging::OpenError),
    /// Nobody can ask for metrics where they should.
    #[error("failed to create meter provider: binding address {endpoint} for Prometheus exporter: {reason}")]
    Listen {
        /// Where they should.
        endpoint: String,
        /// Why not.
        reason: transport::listen::ListenError,
    },
    /// Something that pushes.
    #[error("failed to create exporter of {signal}: {reason}")]
    Exporter {
        /// Of what.
        signal: &'static str,
        /// Why not.
        reason: OtlpError,
    },
    /// A reader that counts from the last time has to be there from the start.
    #[error(
        "service::telemetry::metrics: a reader with another temporality_preference takes effect at the next start only"
    )]
    Temporality,
}

impl TelemetryError {
    fn of(signal: &'static str) -> impl Fn(OtlpError) -> Self {
        move |reason| TelemetryError::Exporter { signal, reason }
    }
}

/// What the collector tells of itself.
pub struct Telemetry {
    config: Config,
    /// Who the collector is, for as long as it runs.
    attributes: Vec<KeyValue>,
    resource: Resource,
    host: Host,
    meters: Option<Meters>,
    records: Option<SdkLoggerProvider>,
    readers: Vec<(Reader, Task)>,
    spans: Vec<Task>,
}

/// Somebody who is told.
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
        // One that panicked has nothing left to send.
        _ = self.ended.await;
    }
}

impl Telemetry {
    /// Begins with the log, so that what comes is told, then everything else the section says.
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
        let mut telemetry = Telemetry {
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

    /// What components find around them.
    pub fn host(&self) -> Host {
        self.host.clone()
    }

    /// Where metrics can be asked for, in the order of the readers.
    pub fn addresses(&self) -> Vec<SocketAddr> {
        self.readers.iter().filter_map(|(_, task)| task.address).collect()
    }

    /// Makes of it what another configuration says. What has not changed goes on; where something cannot be
    /// had, what was there before is there again.
    pub async fn reconfigure(&mut self, config: &Config) -> Result<(), TelemetryError> {
        let old = self.config.clone();
        self.tell_what_stays(config);
        let outcome = self.change(&old, config).await;
        match &outcome {
            Ok(()) => self.config = config.clone(),
            Err(_) => {
                if let Err(error) = self.change(config, &old).await {
                    tracing::error!(%error, "the collector's own telemetry could not be had back");
                }
            }
        }
        outcome
    }

    /// Ends it: what is left is sent, which may take `deadline`.
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
            tracing::warn!(after = ?deadline, "the collector's own telemetry is not all sent");
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

    /// Lets exactly these readers run.
    async fn read(&mut self, wanted: &[Reader]) -> Result<(), TelemetryError> {
        let (kept, gone): (Vec<_>, Vec<_>) =
            self.readers.drain(..).partition(|(reader, _)| wanted.contains(reader));
        self.readers = kept;
        // Those that end leave their ports to those that begin.
        for (_, task) in gone {
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

    /// None where nothing is measured.
    async fn begin(&mut self, reader: &Reader) -> Result<Option<Task>, TelemetryError> {
        let Some(meters) = &mut self.meters else { return Ok(None) };
        let source = meters.source(reader).ok_or(TelemetryError::Temporality)?;
        Ok(Some(match reader {
            Reader::Pull(settings) => {
                let server = prometheus::Server::bind(settings, source).await?;
                Task::run(server.address(), |stop| server.run(stop))
            }
            Reader::Periodic { interval, timeout, exporter } => {
                let push = MetricsPush::new(source, *interval, *timeout, exporter);
                let push = push.map_err(TelemetryError::of("metrics"))?;
                Task::run(None, |stop| push.run(stop))
            }
        }))
    }

    fn push_spans(&self, processors: &[Processor]) -> Result<Vec<Task>, TelemetryError> {
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

    /// What components measure, and who they say the collector is, was settled when they started.
    fn tell_what_stays(&self, config: &Config) {
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

/// How long a reload waits for the log records that are left.
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

/// Sends the log records that are left. It blocks a thread, so it has one of its own.
async fn end_records(records: Option<SdkLoggerProvider>, deadline: Duration) {
    let Some(records) = records else { return };
    let ending = tokio::task::spawn_blocking(move || records.shutdown_with_timeout(deadline));
    match tokio::time::timeout(deadline, ending).await {
        Ok(Ok(Ok(()))) => {}
        _ => tracing::warn!("the collector's own log records are not all sent"),
    }
}

#[cfg(test)]
#[path = "telemetry/tests.rs"]
mod tests;
