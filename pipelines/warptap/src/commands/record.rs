//! `warptap record`: writes the events of the probes to a file for `warptap replay`.

use std::fs::File;
use std::io::BufWriter;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use capture::{Capture, Settings};
use event::{Event, EventSource as _};
use hardware::{ClockPoller, FirstDriver};
use recording::{Info, Writer};

use crate::cli::RecordArgs;
use crate::commands::output;
use crate::commands::terminal::{Terminal, count};
use crate::components::DRIVERS;
use crate::prepare::VERSION;

/// Interval between polls of GPU clocks.
const CLOCKS_EVERY: Duration = Duration::from_millis(100);
/// Interval between reads of the ring.
const POLL: Duration = Duration::from_millis(5);
/// Interval between updates of the progress line.
const PROGRESS: Duration = Duration::from_secs(1);

/// Records until the time limit or a signal, and prints the number of events and steps.
pub fn run(args: &RecordArgs) -> anyhow::Result<()> {
    args.pids.iter().try_for_each(|pid| check_pid(*pid))?;
    let path = args.out.display();
    let file = output::create_new(&args.out).with_context(|| format!("cannot create {path}"))?;
    let recorded = record(args, file);
    if recorded.is_err() {
        // A partial file would not be a valid recording.
        _ = std::fs::remove_file(&args.out);
    }
    let (events, steps) = recorded?;
    Terminal::new().line(&format!(
        "{path}: {}, {}; to analyse it, run: warptap replay {path}",
        count(events, "event"),
        count(steps, "step")
    ));
    Ok(())
}

/// Checks that a pid is that of a process; a recording of any other id would be empty.
fn check_pid(pid: u32) -> anyhow::Result<()> {
    match capture::process_of(pid) {
        Some(process) if process == pid => Ok(()),
        Some(process) => bail!("--pid {pid} is a thread of process {process}: expected the pid of a process"),
        None => bail!("--pid {pid}: there is no such process"),
    }
}

fn record(args: &RecordArgs, file: File) -> anyhow::Result<(u64, u64)> {
    let mut capture = Capture::start(&settings(args))?;
    let drivers = DRIVERS.map(|driver| driver(None)).into();
    let mut clocks = ClockPoller::start(CLOCKS_EVERY, Box::new(FirstDriver(drivers)), capture::now_ns);
    let interrupted = interrupts()?;
    let mut writer = Writer::begin(BufWriter::new(file), &Info::here(VERSION, capture::offsets()))?;
    let mut terminal = Terminal::new();
    let libraries = count(capture.account().libraries, "library");
    terminal.line(&format!("{}: recording, {libraries} found", args.out.display()));
    let (began, mut updated) = (Instant::now(), Instant::now());
    let (mut events, mut steps) = (Vec::new(), 0);
    while !interrupted.load(Ordering::Relaxed) && args.seconds.is_none_or(|limit| began.elapsed() < limit) {
        capture.read(&mut events)?;
        clocks.read(0, &mut events);
        write(&mut writer, &mut events, &mut steps)?;
        if updated.elapsed() >= PROGRESS {
            updated = Instant::now();
            terminal.status(&[progress(began.elapsed(), writer.events(), steps, &capture)]);
        }
        std::thread::sleep(POLL);
    }
    capture.read(&mut events)?;
    capture.read_totals(&mut events);
    clocks.read(0, &mut events);
    write(&mut writer, &mut events, &mut steps)?;
    let written = writer.events();
    writer.finish()?;
    Ok((written, steps))
}

fn settings(args: &RecordArgs) -> Settings {
    Settings { trace_all: args.pids.is_empty(), pids: args.pids.clone(), ..Settings::default() }
}

fn write(
    writer: &mut Writer<BufWriter<File>>,
    events: &mut Vec<Event>,
    steps: &mut u64,
) -> anyhow::Result<()> {
    for event in events.drain(..) {
        *steps += u64::from(matches!(event, Event::Step(_)));
        writer.write(&event).context("cannot write the recording")?;
    }
    Ok(())
}

fn progress(elapsed: Duration, events: u64, steps: u64, capture: &Capture) -> String {
    let account = capture.account();
    format!(
        "{:.0} s: {}, {}, {}, {} lost, {}",
        elapsed.as_secs_f64(),
        count(events, "event"),
        count(steps, "step"),
        count(account.hits, "call"),
        account.lost(),
        count(account.libraries, "library")
    )
}

/// Returns a flag that SIGINT and SIGTERM set.
pub(crate) fn interrupts() -> anyhow::Result<Arc<AtomicBool>> {
    let flag = Arc::new(AtomicBool::new(false));
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
        if let Err(e) = signal_hook::flag::register(signal, Arc::clone(&flag)) {
            bail!("cannot register signal handlers: {e}");
        }
    }
    Ok(flag)
}
