//! Sources of events of a running receiver.
//!
//! A source is opened on the thread that reads it, so it need not be `Send`. On a machine without eBPF the source
//! is [`Idle`], which only advances time.

use std::error::Error;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use event::{ClockOffsets, Event, EventSource, ProcessId};
use hardware::{ClockPoller, Driver, FirstDriver};
use instrumentation::Backpressure;
use probe_abi::detail::Detail;
use trace::Limits;
use trace::replay::Replay;

/// The reason why a source cannot be opened or read.
pub type SourceError = Box<dyn Error + Send + Sync>;

/// An object-safe [`EventSource`].
pub trait AnySource {
    /// Reads events as [`EventSource::read`] does.
    fn read(&mut self, into: &mut Vec<Event>) -> Result<bool, SourceError>;

    /// Waits as [`EventSource::wait`] does.
    fn wait(&mut self) -> bool {
        false
    }

    /// Sets the detail as [`EventSource::set_detail`] does.
    fn set_detail(&mut self, _process: ProcessId, _detail: Option<Detail>) -> bool {
        false
    }
}

impl<S: EventSource> AnySource for S {
    fn read(&mut self, into: &mut Vec<Event>) -> Result<bool, SourceError> {
        EventSource::read(self, into).map_err(Into::into)
    }

    fn wait(&mut self) -> bool {
        EventSource::wait(self)
    }

    fn set_detail(&mut self, process: ProcessId, detail: Option<Detail>) -> bool {
        EventSource::set_detail(self, process, detail)
    }
}

/// Opens a source on the thread that reads it.
pub type Open = Box<dyn FnOnce() -> Result<Box<dyn AnySource>, SourceError> + Send>;

/// The interval at which GPU clocks are polled, and the drivers, of which the first that opens is polled.
pub(crate) struct ClockSettings {
    pub(crate) interval: Duration,
    pub(crate) drivers: Vec<Box<dyn Driver>>,
}

/// The origin of a receiver's events.
pub(crate) enum Origin {
    /// The kernel of this machine, and optionally the clocks of its GPUs.
    Kernel(Box<capture::Settings>, Option<ClockSettings>),
    /// A recording or a profiler trace.
    File(PathBuf),
    /// A given source.
    Given(Backpressure, Open),
}

impl Origin {
    /// Opens the source. If eBPF is unavailable, returns an idle source, so that the rest of the program runs.
    pub(crate) fn open(self) -> Result<Box<dyn AnySource>, SourceError> {
        match self {
            Origin::Kernel(settings, hardware) => Ok(with_clocks(kernel(&settings), hardware)),
            Origin::File(path) => file(&path),
            Origin::Given(_, open) => open(),
        }
    }

    /// Returns whether the source waits for slow pipelines.
    pub(crate) fn backpressure(&self) -> Backpressure {
        match self {
            Origin::Kernel(..) => Backpressure::DropOldest,
            Origin::File(_) => Backpressure::Wait,
            Origin::Given(backpressure, _) => *backpressure,
        }
    }
}

fn kernel(settings: &capture::Settings) -> Box<dyn AnySource> {
    match capture::Capture::start(settings) {
        Ok(capture) => Box::new(capture),
        Err(error) => {
            tracing::warn!(%error, "GPU processes are not watched");
            Box::new(Idle)
        }
    }
}

/// Returns a source of calls and GPU clocks; of calls only if clocks are not polled.
fn with_clocks(calls: Box<dyn AnySource>, clocks: Option<ClockSettings>) -> Box<dyn AnySource> {
    let Some(ClockSettings { interval, drivers }) = clocks else { return calls };
    let clocks = ClockPoller::start(interval, Box::new(FirstDriver(drivers)), capture::now_ns);
    Box::new(HardwarePoller { calls, clocks })
}

/// A source that combines calls and GPU clocks.
struct HardwarePoller {
    calls: Box<dyn AnySource>,
    clocks: ClockPoller,
}

impl AnySource for HardwarePoller {
    fn read(&mut self, into: &mut Vec<Event>) -> Result<bool, SourceError> {
        let before = into.len();
        let is_more = self.calls.read(into)?;
        self.clocks.read(before, into);
        Ok(is_more)
    }

    fn wait(&mut self) -> bool {
        self.calls.wait()
    }

    fn set_detail(&mut self, process: ProcessId, detail: Option<Detail>) -> bool {
        self.calls.set_detail(process, detail)
    }
}

fn file(path: &Path) -> Result<Box<dyn AnySource>, SourceError> {
    let problem = |e: &dyn Error| format!("cannot replay {}: {e}", path.display());
    let file = File::open(path).map_err(|e| problem(&e))?;
    let replay = Replay::open(file, &Limits::default()).map_err(|e| problem(&e))?;
    Ok(Box::new(replay))
}

/// A source without events, except for the time of the wall clock.
pub(crate) struct Idle;

impl AnySource for Idle {
    fn read(&mut self, into: &mut Vec<Event>) -> Result<bool, SourceError> {
        let at_ns = instrumentation::unix_ns(SystemTime::now());
        into.push(Event::Clock(ClockOffsets { at_ns, ..ClockOffsets::default() }));
        into.push(Event::Tick { at_ns });
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use recording::{Info, Writer};

    use super::*;

    #[test]
    fn missing_file_is_named() {
        let error = Origin::File(PathBuf::from("/no/such/file")).open().err().unwrap().to_string();
        assert!(error.contains("/no/such/file"), "{error}");
    }

    #[test]
    fn a_recording_is_read_to_its_end() {
        let path = std::env::temp_dir().join(format!("warptap-source-{}.rec", std::process::id()));
        let info = Info::here("test", ClockOffsets::default());
        let mut writer = Writer::begin(File::create(&path).unwrap(), &info).unwrap();
        (1..=3).for_each(|at_ns| writer.write(&Event::Tick { at_ns }).unwrap());
        writer.finish().unwrap();
        let mut source = Origin::File(path.clone()).open().unwrap();
        let mut events = Vec::new();
        while source.read(&mut events).unwrap() {}
        assert_eq!(events.iter().filter(|e| matches!(e, Event::Tick { .. })).count(), 3);
        std::fs::remove_file(path).unwrap();
    }

    #[test]
    fn idle_time_passes() {
        let mut events = Vec::new();
        assert!(Idle.read(&mut events).unwrap());
        assert!(matches!(events[..], [Event::Clock(_), Event::Tick { .. }]));
    }
}
