//! The `gpu` component: a thread that reads and analyses, a task that hands on, a bounded channel between them.
//!
//! The one idea: a pipeline that is slow or refuses must not hold up the ring; [`sdk::Outlet`] and [`sdk::Delivery`] stand
//! between them. What they could not deliver is told in [`crate::account`].
//!
//! ```text
//!  thread `gpu`: source -> Analyzer -> Outlet --- channel --> task: Delivery -> pipelines
//! ```

use std::sync::Arc;
use std::time::Duration;

use component::config::{ConfigError, Section};
use component::{
    BoxFuture, BuildContext, Consumer, Host, Receiver, ReceiverFactory, Running, Signal, Stability,
    StartResult,
};
use sdk::{Outlet, Pace};
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use crate::analyzer::{Analyzer, Settings};
use crate::config::Config;
use crate::source::{AnySource, Open, Origin, SourceError};

/// How often the source is read.
const POLL: Duration = Duration::from_millis(5);

/// The row of the receivers' table.
pub const FACTORY: ReceiverFactory = ReceiverFactory {
    kind: "gpu",
    aliases: &[],
    signals: &Signal::STABLE,
    stability: Stability::Alpha,
    about: "Watches CUDA and HIP calls of every process from the kernel: steps, phases, baselines, outliers and their causes.",
    example: "\
collection_interval: 10s
",
    build,
};

fn build(_context: &BuildContext, section: Section<'_>) -> Result<Box<dyn Receiver>, ConfigError> {
    let config = Config::read(section)?;
    Ok(Box::new(GpuReceiver { settings: config.settings(), origin: config.origin() }))
}

/// A receiver of the events of a source of one's own.
pub fn receiver(settings: Settings, pace: Pace, open: Open) -> Box<dyn Receiver> {
    Box::new(GpuReceiver { settings, origin: Origin::Given(pace, open) })
}

struct GpuReceiver {
    settings: Settings,
    origin: Origin,
}

impl Receiver for GpuReceiver {
    fn start(
        self: Box<Self>,
        next: Vec<(Signal, Arc<dyn Consumer>)>,
        _: &Host,
        stop: CancellationToken,
    ) -> BoxFuture<'static, StartResult<Running>> {
        Box::pin(async move {
            let GpuReceiver { mut settings, origin } = *self;
            if matches!(origin, Origin::Kernel(_)) {
                settings.host.extend(sdk::host());
            }
            let (outlet, delivery) = sdk::channel(origin.pace(), next);
            let (opened, is_open) = oneshot::channel();
            let pump = Pump { analyzer: Analyzer::new(settings), outlet };
            let thread = std::thread::Builder::new().name("gpu".to_owned());
            let thread = thread.spawn(move || pump.run(origin, opened))?;
            is_open.await??;
            let running: Running = Box::pin(delivery.run(thread.thread().clone(), stop));
            Ok(running)
        })
    }
}

/// The thread's side.
struct Pump {
    analyzer: Analyzer,
    outlet: Outlet,
}

impl Pump {
    fn run(mut self, origin: Origin, opened: oneshot::Sender<Result<(), SourceError>>) {
        let mut source = match origin.open() {
            Ok(source) => source,
            Err(error) => return drop(opened.send(Err(error))),
        };
        // Nobody waits for the answer any more: the program is going down.
        if opened.send(Ok(())).is_ok() {
            self.read_all(source.as_mut());
        }
        let Pump { analyzer, outlet } = &mut self;
        analyzer.finish(&mut |batch| outlet.push(batch));
        self.outlet.close();
    }

    fn read_all(&mut self, source: &mut dyn AnySource) {
        let mut events = Vec::new();
        let Pump { analyzer, outlet } = self;
        while !outlet.is_stopping() {
            let is_more = source.read(&mut events).unwrap_or_else(|error| {
                tracing::error!(%error, "the source of GPU events cannot be read any further");
                false
            });
            analyzer.set_undelivered(outlet.undelivered());
            let was_idle = events.is_empty();
            for event in events.drain(..) {
                analyzer.observe(&event, &mut |batch| outlet.push(batch));
            }
            outlet.flush();
            if !is_more {
                return;
            }
            // What is recorded is read as fast as it is taken.
            if was_idle || outlet.pace() == Pace::Live {
                std::thread::park_timeout(POLL);
            }
        }
    }
}
