//! Running a configuration until a signal, or until a component breaks.

use std::time::Duration;

use anyhow::{Context as _, bail};
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::cli::ConfigArgs;
use crate::commands::refused;
use crate::components::FACTORIES;
use crate::config::Process;
use crate::graph::{Graph, Plan, Stopped};
use crate::logging;
use crate::prepare::prepare;

/// How long a stop may take in all. A second signal cuts it short.
const STOP_MAX: Duration = Duration::from_secs(30);

/// Runs the configuration of the arguments.
pub fn run(args: &ConfigArgs) -> anyhow::Result<()> {
    let prepared = prepare(&args.all()?, &Process, FACTORIES).map_err(refused)?;
    logging::init(prepared.log_level);
    for warning in &prepared.warnings {
        tracing::warn!("{warning}");
    }
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .context("cannot start the runtime")?;
    let outcome = runtime.block_on(serve(prepared.plan));
    // What was abandoned is not waited for again.
    runtime.shutdown_background();
    outcome
}

async fn serve(plan: Plan) -> anyhow::Result<()> {
    let mut stops = Stops::listen()?;
    let host = component::Host::detached();
    let mut graph = tokio::select! {
        started = Graph::start(plan, &host, STOP_MAX) => started?,
        name = stops.next() => bail!("{name} while starting"),
    };
    // The Collector's own sentence: what waits for one to be ready looks for it.
    tracing::info!("Everything is ready. Begin running and processing data.");
    let broken = tokio::select! {
        name = stops.next() => {
            tracing::info!(signal = name, "Received signal from OS");
            None
        }
        name = graph.failed() => Some(name),
    };
    tracing::info!("Starting shutdown...");
    let Stopped { abandoned } = tokio::select! {
        stopped = graph.stop(STOP_MAX) => stopped,
        name = stops.next() => bail!("{name} while stopping: what was in flight is lost"),
    };
    tracing::info!("Shutdown complete.");
    match (broken, abandoned.as_slice()) {
        (None, []) => Ok(()),
        (Some(name), _) => bail!("{name} panicked"),
        (None, names) => bail!("not stopped within {} s: {}", STOP_MAX.as_secs(), names.join(", ")),
    }
}

/// The signals that ask for a stop.
struct Stops {
    interrupt: Signal,
    terminate: Signal,
}

impl Stops {
    fn listen() -> anyhow::Result<Self> {
        let listen = |kind| signal(kind).context("cannot listen for signals");
        Ok(Stops { interrupt: listen(SignalKind::interrupt())?, terminate: listen(SignalKind::terminate())? })
    }

    /// The name of the next one.
    async fn next(&mut self) -> &'static str {
        tokio::select! {
            _ = self.interrupt.recv() => "SIGINT",
            _ = self.terminate.recv() => "SIGTERM",
        }
    }
}
