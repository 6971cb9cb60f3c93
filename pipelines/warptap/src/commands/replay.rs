//! `warptap replay`: recordings and PyTorch profiler traces, through the same analysis as live events.
//!
//! Prints a summary; with `--out` writes the telemetry as the file exporter does; with `--config` sends it through the
//! pipelines of a configuration, whose receivers stay out; with `--steps` lists every step. The same file gives the same
//! telemetry every time.

use std::fs::File;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, bail};
use gpu::{Found, Look, Settings};
use pdata::Data;
use steps::Finding;
use trace::Limits;
use trace::replay::{Replay, ReplayError};

use crate::cli::ReplayArgs;
use crate::commands::lines::Lines;
use crate::commands::refused;
use crate::commands::summary::Summary;
use crate::commands::terminal::Terminal;
use crate::components::FACTORIES;
use crate::config::Process;
use crate::graph::Graph;
use crate::prepare::prepare;

const STOP_MAX: Duration = Duration::from_secs(30);

/// Does the work of the command.
pub fn run(args: &ReplayArgs) -> anyhow::Result<()> {
    let mut steps = Lines::create(args.steps.as_deref())?;
    if args.config.locations.is_empty() && args.config.sets.is_empty() {
        replay_to_file(args, &mut steps)?;
    } else if args.out.is_some() {
        bail!("--out and --config both say where telemetry goes: expected one of them");
    } else {
        replay_to_pipelines(args, &mut steps)?;
    }
    steps.finish()
}

fn replay_to_file(args: &ReplayArgs, steps: &mut Lines) -> anyhow::Result<()> {
    let mut out = Lines::create(args.out.as_deref())?;
    each(&args.files, &mut |data| out.telemetry(&data), steps)?;
    out.finish()
}

/// Replays files in turn and prints what came of each.
fn each(files: &[impl AsRef<Path>], take: &mut dyn FnMut(Data), steps: &mut Lines) -> anyhow::Result<()> {
    let mut terminal = Terminal::new();
    for path in files.iter().map(AsRef::as_ref) {
        terminal.status(&[format!("{}: reading", path.display())]);
        let mut summary = Summary::default();
        let cut = one(path, take, &mut |found| {
            summary.see(found);
            if let Found::Step(Finding::Step(step)) = found {
                steps.step(step);
            }
        })?;
        terminal.line(&format!(
            "{}: {} steps, {} outliers",
            path.display(),
            summary.steps(),
            summary.outliers()
        ));
        summary.table().iter().for_each(|row| terminal.line(row));
        if let Some(reason) = cut {
            terminal.line(&format!("      cut short: {reason}; everything before it was read"));
        }
    }
    Ok(())
}

/// Replays one file. A recording that stops too early, as one does whose writer was killed, is read as far as it
/// goes; the reason is returned.
fn one(path: &Path, take: &mut dyn FnMut(Data), look: Look<'_>) -> anyhow::Result<Option<ReplayError>> {
    let named = || format!("cannot replay {}", path.display());
    let file = File::open(path).with_context(named)?;
    let mut source = Replay::open(file, &Limits::default()).with_context(named)?;
    let done = gpu::replay(&mut source, Settings::default(), &mut |batch| take(batch.data), look);
    match done {
        Ok(()) => Ok(None),
        Err(cut) if cut.is_cut() => Ok(Some(cut)),
        Err(error) => Err(error).with_context(named),
    }
}

fn replay_to_pipelines(args: &ReplayArgs, steps: &mut Lines) -> anyhow::Result<()> {
    let prepared = prepare(&args.config.all()?, &Process, FACTORIES).map_err(refused)?;
    crate::logging::init(prepared.telemetry.logs.level);
    let plan = prepared.plan.without_receivers();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .context("cannot start the runtime")?;
    let graph = runtime.block_on(Graph::start(plan, &component::Host::detached(), STOP_MAX))?;
    let mut refusals = Vec::new();
    let mut send = |data: Data| {
        let Some(front) = graph.front(data.signal()) else { return };
        if let Err(refused) = runtime.block_on(front.consume(data)) {
            refusals.push(refused.to_string());
        }
    };
    let read = each(&args.files, &mut send, steps);
    let stopped = runtime.block_on(graph.stop(STOP_MAX));
    runtime.shutdown_background();
    read?;
    if let Some(first) = refusals.first() {
        bail!("{} batches were refused, the first because {first}", refusals.len());
    }
    if !stopped.abandoned.is_empty() {
        bail!("not sent within {} s: {}", STOP_MAX.as_secs(), stopped.abandoned.join(", "));
    }
    Ok(())
}
