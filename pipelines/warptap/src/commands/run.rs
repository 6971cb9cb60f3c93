//! Running a configuration until a signal, or until a component breaks.

use anyhow::{Context as _, bail};
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::cli::ConfigArgs;
use crate::collector::{Collector, ReloadError, STOP_MAX};
use crate::commands::refused;
use crate::components::FACTORIES;
use crate::config::{Process, Sources};
use crate::graph::{Reloaded, Stopped};
use crate::prepare::{Prepared, prepare};
use crate::telemetry::Telemetry;

/// Runs the configuration of the arguments.
pub fn run(args: &ConfigArgs) -> anyhow::Result<()> {
    let sources: Sources = args.all()?;
    let prepared = prepare(&sources, &Process, FACTORIES).map_err(refused)?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .context("cannot start the runtime")?;
    let outcome = runtime.block_on(serve(prepared, sources));
    // What was abandoned is not waited for again.
    runtime.shutdown_background();
    outcome
}

async fn serve(prepared: Prepared, sources: Sources) -> anyhow::Result<()> {
    let mut signals = Signals::listen()?;
    let telemetry = Telemetry::start(&prepared.telemetry).await?;
    for warning in &prepared.warnings {
        tracing::warn!("{warning}");
    }
    let mut collector = tokio::select! {
        started = Collector::start(prepared, sources, telemetry) => started?,
        name = signals.stop() => bail!("{name} while starting"),
    };
    // The Collector's own sentence: what waits for one to be ready looks for it.
    tracing::info!("Everything is ready. Begin running and processing data.");
    let broken = run_until_stop(&mut collector, &mut signals).await?;
    tracing::info!("Starting shutdown...");
    let Stopped { abandoned } = tokio::select! {
        stopped = collector.stop() => stopped,
        name = signals.stop() => bail!("{name} while stopping: what was in flight is lost"),
    };
    match (broken, abandoned.as_slice()) {
        (None, []) => Ok(()),
        (Some(name), _) => bail!("{name} panicked"),
        (None, names) => bail!("not stopped within {} s: {}", STOP_MAX.as_secs(), names.join(", ")),
    }
}

/// Runs and reloads until a signal asks for a stop, or a component panics, whose name it returns.
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
            Ok(Reloaded { kept, started, stopped, abandoned }) => {
                tracing::info!(kept, ?started, ?stopped, ?abandoned, "Configuration reloaded.");
            }
            Err(error @ ReloadError::Lost { .. }) => return Err(error.into()),
            Err(error) => tracing::error!("configuration not reloaded, the old one goes on: {error}"),
        }
    }
}

/// The signal that asks for a reload.
const RELOAD: &str = "SIGHUP";

/// The signals that are heeded.
struct Signals {
    interrupt: Signal,
    terminate: Signal,
    hangup: Signal,
}

impl Signals {
    fn listen() -> anyhow::Result<Self> {
        let listen = |kind| signal(kind).context("cannot listen for signals");
        Ok(Signals {
            interrupt: listen(SignalKind::interrupt())?,
            terminate: listen(SignalKind::terminate())?,
            hangup: listen(SignalKind::hangup())?,
        })
    }

    /// The name of the next one.
    async fn next(&mut self) -> &'static str {
        tokio::select! {
            _ = self.interrupt.recv() => "SIGINT",
            _ = self.terminate.recv() => "SIGTERM",
            _ = self.hangup.recv() => RELOAD,
        }
    }

    /// The name of the next one that asks for a stop.
    async fn stop(&mut self) -> &'static str {
        loop {
            match self.next().await {
                RELOAD => {}
                name => return name,
            }
        }
    }
}
