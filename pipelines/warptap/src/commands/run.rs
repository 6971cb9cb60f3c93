//! Runs a configuration until a signal arrives or a component panics.

use anyhow::{Context as _, bail};
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::cli::ConfigArgs;
use crate::collector::{Collector, ReloadError, STOP_MAX};
use crate::commands::refused;
use crate::components::FACTORIES;
use crate::config::{Process, Sources};
use crate::delegation::Directory;
use crate::graph::{Reloaded, Stopped};
use crate::prepare::{Prepared, prepare};
use crate::telemetry::InternalTelemetry;

/// Runs the configuration of the arguments.
pub fn run(args: &ConfigArgs) -> anyhow::Result<()> {
    let sources: Sources = args.all()?;
    let _directory = Directory::removed_at_the_end(sources.delegation.directory.clone());
    let prepared = prepare(&sources, &Process, FACTORIES).map_err(refused)?;
    // Before there are other threads.
    let privileges = prepared.privileges.apply();
    capture::return_large_blocks();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .context("cannot start the runtime")?;
    let outcome = runtime.block_on(serve(prepared, sources, privileges));
    // Abandoned components are not waited for again.
    runtime.shutdown_background();
    outcome
}

async fn serve(prepared: Prepared, sources: Sources, privileges: String) -> anyhow::Result<()> {
    let mut signals = Signals::listen()?;
    let telemetry = InternalTelemetry::start(&prepared.telemetry).await?;
    tracing::info!("{privileges}");
    for warning in &prepared.warnings {
        tracing::warn!("{warning}");
    }
    let mut collector = tokio::select! {
        started = Collector::start(prepared, sources, telemetry) => started?,
        name = signals.stop() => bail!("{name} while starting"),
    };
    // The Collector's message, which scripts wait for.
    tracing::info!("Everything is ready. Begin running and processing data.");
    let panicked = run_until_stop(&mut collector, &mut signals).await?;
    tracing::info!("Starting shutdown...");
    let Stopped { abandoned } = tokio::select! {
        stopped = collector.stop() => stopped,
        name = signals.stop() => bail!("{name} while stopping: data in flight was dropped"),
    };
    match (panicked, abandoned.as_slice()) {
        (None, []) => Ok(()),
        (Some(name), _) => bail!("{name} panicked"),
        (None, names) => bail!("not stopped within {} s: {}", STOP_MAX.as_secs(), names.join(", ")),
    }
}

/// Runs and reloads until a signal requests a stop or a component panics; returns the name of that component.
async fn run_until_stop(collector: &mut Collector, signals: &mut Signals) -> anyhow::Result<Option<String>> {
    loop {
        tokio::select! {
            name = collector.failed() => return Ok(Some(name)),
            name = signals.next() => {
                tracing::info!(signal = name, "Received signal from OS");
                if name != RELOAD {
                    return Ok(None);
                }
            }
        }
        match collector.reload().await {
            Ok(Reloaded { unchanged, started, stopped, abandoned }) => {
                tracing::info!(unchanged, ?started, ?stopped, ?abandoned, "Configuration reloaded.");
            }
            Err(error @ ReloadError::RollBack { .. }) => return Err(error.into()),
            Err(error) => {
                tracing::error!("configuration not reloaded, the previous one is still in use: {error}")
            }
        }
    }
}

/// The signal that requests a reload.
const RELOAD: &str = "SIGHUP";

/// The handled signals.
struct Signals {
    interrupt: Signal,
    terminate: Signal,
    hangup: Signal,
}

impl Signals {
    fn listen() -> anyhow::Result<Self> {
        let listen = |kind| signal(kind).context("cannot register signal handlers");
        Ok(Signals {
            interrupt: listen(SignalKind::interrupt())?,
            terminate: listen(SignalKind::terminate())?,
            hangup: listen(SignalKind::hangup())?,
        })
    }

    /// Waits for the next signal, and returns its name.
    async fn next(&mut self) -> &'static str {
        tokio::select! {
            _ = self.interrupt.recv() => "SIGINT",
            _ = self.terminate.recv() => "SIGTERM",
            _ = self.hangup.recv() => RELOAD,
        }
    }

    /// Waits for the next signal that requests a stop, and returns its name.
    async fn stop(&mut self) -> &'static str {
        loop {
            match self.next().await {
                RELOAD => {}
                name => return name,
            }
        }
    }
}
