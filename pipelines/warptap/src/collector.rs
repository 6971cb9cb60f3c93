//! A collector that runs: its graph, the configuration that it was made of, and the way to the next one.
//!
//! Signals and exit codes are the command's; what a configuration is made of is [`crate::prepare`]'s.

use std::time::Duration;

use config::ConfigError;

use crate::components::FACTORIES;
use crate::config::{Loaded, Process, Sources};
use crate::graph::{Graph, Reloaded, StartError, Stopped};
use crate::prepare::{self, Built, Prepared, prepare};
use crate::telemetry::{Telemetry, TelemetryError};

/// How long a stop may take in all.
pub const STOP_MAX: Duration = Duration::from_secs(30);

/// Pipelines at work, and what they were made of.
pub struct Collector {
    graph: Graph,
    sources: Sources,
    loaded: Loaded,
    telemetry: Telemetry,
}

/// How long the collector's own telemetry may take to send what is left, after everything else has stopped.
const TELEMETRY_STOP_MAX: Duration = Duration::from_secs(5);

/// Why a reload did not take place.
#[derive(Debug, thiserror::Error)]
pub enum ReloadError {
    /// The new configuration is wrong. Nothing was touched.
    #[error("{0}")]
    Config(#[from] ConfigError),
    /// The collector's own telemetry cannot be what the new configuration says. The old one goes on.
    #[error("{0}")]
    Telemetry(#[from] TelemetryError),
    /// A component could not start by the new configuration. The old one runs again.
    #[error("{0}")]
    Start(StartError),
    /// A component could not start by the new configuration, and the old one could not be had back.
    #[error("{new}; and back to the old configuration: {old}")]
    Lost {
        /// What went wrong first.
        new: StartError,
        /// What went wrong on the way back.
        old: StartError,
    },
}

impl Collector {
    /// Starts what was prepared from `sources`.
    pub async fn start(
        prepared: Prepared,
        sources: Sources,
        telemetry: Telemetry,
    ) -> Result<Self, StartError> {
        let Prepared { plan, loaded, .. } = prepared;
        let host = telemetry.host();
        host.state().set_gates(sources.gates.shown());
        match Graph::start(plan, &host, STOP_MAX).await {
            Ok(graph) => Ok(Collector { graph, sources, loaded, telemetry }),
            Err(error) => {
                telemetry.stop(TELEMETRY_STOP_MAX).await;
                Err(error)
            }
        }
    }

    /// Reads the sources again and makes the graph what they say now. A configuration that is wrong changes
    /// nothing; one that cannot start is taken back.
    pub async fn reload(&mut self) -> Result<Reloaded, ReloadError> {
        let sources = self.sources.clone();
        // Sources may be files and servers: reading them may block.
        let prepared = tokio::task::spawn_blocking(move || prepare(&sources, &Process, FACTORIES)).await;
        let Prepared { plan, loaded, warnings, telemetry } =
            prepared.expect("reading a configuration does not panic")?;
        for warning in &warnings {
            tracing::warn!("{warning}");
        }
        self.telemetry.reconfigure(&telemetry).await?;
        match self.graph.reload(plan, STOP_MAX).await {
            Ok(reloaded) => {
                self.loaded = loaded;
                Ok(reloaded)
            }
            Err(new) => self.take_back(new).await,
        }
    }

    async fn take_back(&mut self, new: StartError) -> Result<Reloaded, ReloadError> {
        let Built { plan, telemetry } = prepare::plan(&self.loaded, FACTORIES)?;
        if let Err(error) = self.telemetry.reconfigure(&telemetry).await {
            tracing::error!(%error, "the collector's own telemetry could not be had back");
        }
        match self.graph.reload(plan, STOP_MAX).await {
            Ok(_) => Err(ReloadError::Start(new)),
            Err(old) => Err(ReloadError::Lost { new, old }),
        }
    }

    /// Waits until a component panics, and returns which.
    pub async fn failed(&mut self) -> String {
        self.graph.failed().await
    }

    /// Stops everything, within [`STOP_MAX`], and then what tells of it.
    pub async fn stop(self) -> Stopped {
        let stopped = self.graph.stop(STOP_MAX).await;
        tracing::info!("Shutdown complete.");
        self.telemetry.stop(TELEMETRY_STOP_MAX).await;
        stopped
    }
}
