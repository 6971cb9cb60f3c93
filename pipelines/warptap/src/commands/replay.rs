//! `warptap replay`: analyses recordings and PyTorch profiler traces like live events.
//!
//! Prints a summary. With `--out` it writes telemetry in the format of the file exporter; with `--config` it sends
//! telemetry through the pipelines of a configuration, without starting its receivers; with `--steps` it lists every
//! step. The result is deterministic.

use std::fs::File;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, bail};
use gpu::{Found, Look, Settings};
use pdata::Data;
use steps::Finding;
use trace::Limits;
use trace::replay::Replay;

use crate::cli::ReplayArgs;
use crate::commands::lines::Lines;
use crate::commands::refused;
use crate::commands::summary::Summary;
use crate::commands::terminal::{Terminal, count};
use crate::components::FACTORIES;
use crate::config::Process;
use crate::graph::Graph;
use crate::prepare::prepare;

const STOP_MAX: Duration = Duration::from_secs(30);

/// Replays the files of the arguments.
pub fn run(args: &ReplayArgs) -> anyhow::Result<()> {
    let mut steps = Lines::create(args.steps.as_deref())?;
    if args.config.locations.is_empty() && args.config.sets.is_empty() {
        replay_to_file(args, &mut steps)?;
    } else if args.out.is_some() {
        bail!("--out and --config exclude each other: both are destinations of telemetry");
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

/// Replays files one after another, and prints a summary of each.
fn each(files: &[impl AsRef<Path>], take: &mut dyn FnMut(Data), steps: &mut Lines) -> anyhow::Result<()> {
    let mut terminal = Terminal::new();
    for path in files.iter().map(AsRef::as_ref) {
        terminal.status(&[format!("{}: reading", path.display())]);
        let mut summary = Summary::default();
        let notes = one(path, take, &mut |found| {
            summary.add(found);
            if let Found::Step(Finding::Step(step)) = found {
                steps.step(step);
            }
        })?;
        terminal.line(&format!(
            "{}: {}, {}",
            path.display(),
            count(summary.steps(), "step"),
            count(summary.outliers(), "outlier")
        ));
        summary.table().iter().for_each(|row| terminal.line(row));
        notes.iter().for_each(|note| terminal.line(&format!("      {note}")));
    }
    Ok(())
}

/// Replays one file. Returns notes: a truncated recording, for example of a killed process, is replayed up to its end,
/// and a trace may contain no known call.
fn one(path: &Path, take: &mut dyn FnMut(Data), look: Look<'_>) -> anyhow::Result<Vec<String>> {
    let named = || format!("cannot replay {}", path.display());
    let file = File::open(path).with_context(named)?;
    let mut source = Replay::open(file, &Limits::default()).with_context(named)?;
    let unrecognised = source.unrecognised();
    let done = gpu::replay(&mut source, Settings::default(), &mut |batch| take(batch.data), look);
    match done {
        Ok(()) => Ok(unrecognised.into_iter().collect()),
        Err(error) if error.is_cut() => {
            Ok(vec![format!("incomplete file: {error}; events before that were replayed")])
        }
        Err(error) => Err(error).with_context(named),
    }
}

fn replay_to_pipelines(args: &ReplayArgs, steps: &mut Lines) -> anyhow::Result<()> {
    let prepared = prepare(&args.config.all()?, &Process, FACTORIES).map_err(refused)?;
    if prepared.loaded.bridge.is_some() {
        bail!(
            "replay runs no other Collector: remove the components that it would run from the configuration"
        );
    }
    crate::logging::init(prepared.telemetry.logs.level);
    let plan = prepared.plan.without_receivers();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .context("cannot start the runtime")?;
    let graph = runtime.block_on(Graph::start(plan, &component::Host::detached(), STOP_MAX))?;
    let mut refusals = Vec::new();
    let mut send = |data: Data| {
        let Some(consumer) = graph.consumer(data.signal()) else { return };
        if let Err(refused) = runtime.block_on(consumer.consume(data)) {
            refusals.push(refused.to_string());
        }
    };
    let read = each(&args.files, &mut send, steps);
    let stopped = runtime.block_on(graph.stop(STOP_MAX));
    runtime.shutdown_background();
    read?;
    if let Some(first) = refusals.first() {
        bail!("{} refused by the pipelines; first error: {first}", count(refusals.len() as u64, "batch"));
    }
    if !stopped.abandoned.is_empty() {
        bail!("not sent within {} s: {}", STOP_MAX.as_secs(), stopped.abandoned.join(", "));
    }
    Ok(())
}
