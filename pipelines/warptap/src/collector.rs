//! A running collector: its graph, the configuration it was built from, and reloads.
//!
//! The command handles signals and exit codes; [`crate::prepare`] builds configurations.

use std::time::Duration;

use config::ConfigError;

use crate::components::FACTORIES;
use crate::config::{Loaded, Process, Sources};
use crate::delegation;
use crate::graph::{Graph, Reloaded, StartError, Stopped};
use crate::prepare::{self, Built, Prepared, prepare};
use crate::telemetry::{InternalTelemetry, TelemetryError};

/// Maximum duration of a stop.
pub const STOP_MAX: Duration = Duration::from_secs(30);

/// Running pipelines, and the configuration they were built from.
pub struct Collector {
    graph: Graph,
    sources: Sources,
    loaded: Loaded,
    telemetry: InternalTelemetry,
}

/// Maximum time to send the remaining internal telemetry, after all components have stopped.
const TELEMETRY_STOP_MAX: Duration = Duration::from_secs(5);

/// The reason why a reload failed.
#[derive(Debug, thiserror::Error)]
pub enum ReloadError {
    /// The new configuration is invalid. The collector is unchanged.
    #[error("{0}")]
    Config(#[from] ConfigError),
    /// Internal telemetry could not be changed. The previous configuration is still in use.
    #[error("{0}")]
    Telemetry(#[from] TelemetryError),
    /// A component failed to start with the new configuration. The previous configuration was restored.
    #[error("{0}")]
    Start(StartError),
    /// A component failed to start with the new configuration, and the previous one could not be restored.
    #[error("{new}; failed to restore the previous configuration: {old}")]
    RollBack {
        /// The error of the new configuration.
        new: StartError,
        /// The error of the previous configuration.
        old: StartError,
    },
}

impl Collector {
    /// Starts a configuration that was prepared from `sources`.
    pub async fn start(
        prepared: Prepared,
        sources: Sources,
        telemetry: InternalTelemetry,
    ) -> Result<Self, StartError> {
        let Prepared { plan, loaded, .. } = prepared;
        let host = telemetry.host();
        host.state().set_gates(sources.gates.shown());
        delegation::make_directory(&loaded)?;
        match Graph::start(plan, &host, STOP_MAX).await {
            Ok(graph) => Ok(Collector { graph, sources, loaded, telemetry }),
            Err(error) => {
                telemetry.stop(TELEMETRY_STOP_MAX).await;
                Err(error)
            }
        }
    }

    /// Reads the sources again and applies the configuration. An invalid configuration changes nothing; one that
    /// fails to start is rolled back.
    pub async fn reload(&mut self) -> Result<Reloaded, ReloadError> {
        let sources = self.sources.clone();
        // Sources may be files and servers: reading them may block.
        let prepared = tokio::task::spawn_blocking(move || prepare(&sources, &Process, FACTORIES)).await;
        let Prepared { plan, loaded, warnings, telemetry, .. } =
            prepared.expect("reading a configuration does not panic")?;
        for warning in &warnings {
            tracing::warn!("{warning}");
        }
        delegation::make_directory(&loaded).map_err(ReloadError::Start)?;
        self.telemetry.reconfigure(&telemetry).await?;
        match self.graph.reload(plan, STOP_MAX).await {
            Ok(reloaded) => {
                self.loaded = loaded;
                Ok(reloaded)
            }
            Err(new) => self.roll_back(new).await,
        }
    }

    async fn roll_back(&mut self, new: StartError) -> Result<Reloaded, ReloadError> {
        let Built { plan, telemetry, .. } = prepare::plan(&self.loaded, FACTORIES)?;
        if let Err(error) = self.telemetry.reconfigure(&telemetry).await {
            tracing::error!(%error, "failed to restore internal telemetry");
        }
        match self.graph.reload(plan, STOP_MAX).await {
            Ok(_) => Err(ReloadError::Start(new)),
            Err(old) => Err(ReloadError::RollBack { new, old }),
        }
    }

    /// Waits until a component panics, and returns its name.
    pub async fn failed(&mut self) -> String {
        self.graph.failed().await
    }

    /// Stops all components within [`STOP_MAX`], then internal telemetry.
    pub async fn stop(self) -> Stopped {
        let stopped = self.graph.stop(STOP_MAX).await;
        tracing::info!("Shutdown complete.");
        self.telemetry.stop(TELEMETRY_STOP_MAX).await;
        stopped
    }
}
