//! `warptap demo`: the whole path, on any machine, in twenty seconds.
//!
//! The one idea: nothing in it is staged but the workload. A stub inference server makes real calls; as root with
//! eBPF the real probes watch it, elsewhere a recording of just that is replayed at its own pace; analysis, telemetry
//! and figures are those of the product.

mod live;
mod recorded;
mod screen;

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use event::Event;
use gpu::{Analyzer, Settings};

use crate::cli::{DemoArgs, Scenario};
use crate::commands::lines::Lines;
use live::Live;
use recorded::Recorded;
use screen::Screen;

/// How often events are read: the receiver's own rhythm.
const POLL: Duration = Duration::from_millis(5);
const STATUS: Duration = Duration::from_millis(500);
const COLLECT_EVERY_NS: u64 = 5_000_000_000;

/// Becomes the player. Its own exit code is lost, its message is not: it prints it itself.
pub fn player(arguments: Vec<OsString>) -> anyhow::Result<()> {
    match simulator::player::main(arguments) {
        std::process::ExitCode::SUCCESS => Ok(()),
        _ => anyhow::bail!("the player could not play"),
    }
}

/// What the demo watches.
trait Stage {
    /// Appends what happened since the last call; false when the show is over.
    fn read(&mut self, into: &mut Vec<Event>) -> anyhow::Result<bool>;
}

/// Does the work of the command.
pub fn run(args: &DemoArgs) -> anyhow::Result<()> {
    let name = args.scenario.name();
    let mut screen = Screen::new(name, args.scenario.story());
    let mut stage: Box<dyn Stage> = match Live::start(name, args.seconds) {
        Ok(live) => {
            screen.live(live.attach_name());
            Box::new(live)
        }
        Err(reason) => {
            screen.recorded(&format!("{reason:#}"));
            Box::new(Recorded::open(name, args.seconds)?)
        }
    };
    let (path, out) = output(args)?;
    let lines = show(stage.as_mut(), &mut screen, out)?;
    screen.end(&path, lines);
    Ok(())
}

/// Where the telemetry goes: the file asked for, or one in the directory for temporary files.
fn output(args: &DemoArgs) -> anyhow::Result<(PathBuf, Lines)> {
    let own = || std::env::temp_dir().join(format!("warptap-demo-{}.otlp.jsonl", std::process::id()));
    let path = args.out.clone().unwrap_or_else(own);
    let out = Lines::create(Some(&path))?;
    Ok((path, out))
}

/// Watches until the stage is over; returns how many OTLP requests were written.
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
        let goes_on = stage.read(&mut events)?;
        for event in events.drain(..) {
            screen.account(&event);
            analyzer.observe_with(&event, &mut sink, &mut |finding| screen.see(finding));
        }
        if !goes_on {
            break;
        }
        if drawn.elapsed() >= STATUS {
            drawn = Instant::now();
            screen.draw();
        }
        std::thread::sleep(POLL);
    }
    analyzer.finish_with(&mut sink, &mut |finding| screen.see(finding));
    out.finish()?;
    Ok(lines)
}

impl Scenario {
    /// Its name on the command line, of its script and of its recording.
    fn name(self) -> &'static str {
        match self {
            Scenario::ColdStart => "cold-start",
            Scenario::CpuContention => "cpu-contention",
            Scenario::GpuSteal => "gpu-steal",
            Scenario::Incident => "incident",
            Scenario::LateRank => "late-rank",
            Scenario::MemcpyBottleneck => "memcpy-bottleneck",
            Scenario::PeriodicSpike => "periodic-spike",
            Scenario::SlowDecode => "slow-decode",
        }
    }

    /// What is about to be seen.
    fn story(self) -> &'static str {
        match self {
            Scenario::ColdStart => {
                "a server that has just started: its first steps are slow, then it is warm"
            }
            Scenario::CpuContention => "a server that shares its core with other work all the time",
            Scenario::GpuSteal => "another process takes turns on the same GPU",
            Scenario::Incident => "all is well, until other work lands on the server's core for a while",
            Scenario::LateRank => "four ranks of a job; one of them comes late, and the others wait for it",
            Scenario::MemcpyBottleneck => "now and then a step waits for a large copy",
            Scenario::PeriodicSpike => "one step is slow, again and again, at regular intervals",
            Scenario::SlowDecode => "single decodes are slow among prefills that take longer anyway",
        }
    }
}
