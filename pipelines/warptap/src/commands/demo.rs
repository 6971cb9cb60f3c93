//! `warptap demo`: probes, analysis and telemetry on any machine, in twenty seconds.
//!
//! Only the workload is simulated: the simulator's player calls stub GPU libraries. As root on a kernel with eBPF, real
//! probes are attached to it; elsewhere a recording of such a run is replayed at its original pace. Analysis, telemetry
//! and the figures shown are those of the product.

mod live;
mod recorded;
pub mod scenario;
mod screen;

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use event::{Account, Event};
use gpu::{Analyzer, Settings};

use crate::cli::DemoArgs;
use crate::commands::lines::Lines;
use live::Live;
use recorded::Recorded;
use screen::Screen;

/// How often events are read; the receiver uses the same interval.
const POLL: Duration = Duration::from_millis(5);
const STATUS: Duration = Duration::from_millis(500);
const COLLECT_EVERY_NS: u64 = 5_000_000_000;

/// Runs the simulator's player in this process. The player prints its own error message.
pub fn player(arguments: Vec<OsString>) -> anyhow::Result<()> {
    match simulator::player::main(arguments) {
        std::process::ExitCode::SUCCESS => Ok(()),
        _ => anyhow::bail!("the player failed"),
    }
}

/// A source of events: live probes or a recording.
trait Stage {
    /// Appends the events since the last call; returns false at the end.
    fn read(&mut self, into: &mut Vec<Event>) -> anyhow::Result<bool>;

    /// Returns the counters of the probes at the end, if they are not among the events.
    fn last_account(&self) -> Option<Account> {
        None
    }
}

/// Runs the command.
pub fn run(args: &DemoArgs) -> anyhow::Result<()> {
    let scenario = args.scenario;
    let mut screen = Screen::new(scenario.name, scenario.story);
    let mut stage: Box<dyn Stage> = match Live::start(scenario.name, args.seconds) {
        Ok(live) => {
            screen.live(live.attach_name());
            Box::new(live)
        }
        Err(reason) => {
            screen.recorded(&format!("{reason:#}"));
            Box::new(Recorded::open(scenario.recording, args.seconds)?)
        }
    };
    let (path, out) = output(args)?;
    let lines = show(stage.as_mut(), &mut screen, out)?;
    screen.end(&path, lines);
    Ok(())
}

/// Opens the output file: `--out`, or a file in the directory for temporary files.
fn output(args: &DemoArgs) -> anyhow::Result<(PathBuf, Lines)> {
    let Some(path) = args.out.clone() else {
        let (out, path) = Lines::create_temporary("warptap-demo-", ".otlp.jsonl")?;
        return Ok((path, out));
    };
    let out = Lines::create(Some(&path))?;
    Ok((path, out))
}

/// Analyses events until the stage ends; returns the number of OTLP requests written.
fn show(stage: &mut dyn Stage, screen: &mut Screen, mut out: Lines) -> anyhow::Result<u64> {
    let mut analyzer =
        Analyzer::new(Settings { collection_interval_ns: COLLECT_EVERY_NS, ..Settings::default() });
    let mut lines = 0;
    let mut sink = |batch: gpu::Batch| {
        lines += 1;
        out.telemetry(&batch.data);
    };
    let (mut events, mut drawn) = (Vec::new(), Instant::now());
    loop {
        let has_more = stage.read(&mut events)?;
        for event in events.drain(..) {
            screen.observe(&event);
            analyzer.observe_with(&event, &mut sink, &mut |finding| screen.see(finding));
        }
        if !has_more {
            break;
        }
        if drawn.elapsed() >= STATUS {
            drawn = Instant::now();
            screen.draw();
        }
        std::thread::sleep(POLL);
    }
    if let Some(account) = stage.last_account() {
        screen.set_account(account);
    }
    analyzer.finish_with(&mut sink, &mut |finding| screen.see(finding));
    out.finish()?;
    Ok(lines)
}
