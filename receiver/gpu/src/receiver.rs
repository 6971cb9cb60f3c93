//! The `gpu` component: a thread that reads and analyzes, a task that delivers, and a bounded channel between them.
//!
//! A slow or refusing pipeline does not delay reading of the ring, because [`instrumentation::BatchSender`] and
//! [`instrumentation::Delivery`] are between them. Undelivered items are counted in [`crate::account`].
//!
//! ```text
//!  thread `gpu`: source -> Analyzer -> BatchSender --- channel --> task: Delivery -> pipelines
//! ```

use std::sync::Arc;
use std::time::Duration;

use component::{
    BoxFuture, BuildContext, ComponentId, Consumer, Host, Receiver, ReceiverFactory, Running, Stability,
    StartResult,
};
use config::{ConfigError, Section};
use hardware::DriverFactory;
use instrumentation::{Backpressure, BatchSender};
use pdata::Signal;
use persist::Target;
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use crate::analyzer::{Analyzer, Settings};
use crate::config::Config;
use crate::persistence::Persistence;
use crate::source::{AnySource, Open, Origin, SourceError};

/// Interval at which a source that cannot wait is read.
const POLL: Duration = Duration::from_millis(5);

/// A function that builds the receiver from its section.
type Build = fn(&BuildContext, Section<'_>) -> Result<Box<dyn Receiver>, ConfigError>;

/// Returns the factory of the receiver. `build` calls [`build`] with the drivers whose clocks are polled.
pub const fn factory(build: Build) -> ReceiverFactory {
    ReceiverFactory {
        kind: "gpu",
        aliases: &[],
        signals: &Signal::STABLE,
        stability: Stability::Alpha,
        about: "Watches CUDA, HIP and NCCL calls of every process from the kernel: steps, phases, baselines, outliers and their causes; collectives, stragglers and hangs.",
        example: include_str!("config/example.yaml"),
        keys: config::keys::<Config>,
        build,
    }
}

/// Builds a receiver from its section. The first of `drivers` that opens is polled; their libraries are those of the keys
/// `hardware::library` and `hardware::amdsmi_library`. With the arguments of `guard`, this program runs
/// [`capture::guard`].
pub fn build(
    context: &BuildContext,
    section: Section<'_>,
    drivers: &[DriverFactory],
    guard: &[&str],
) -> Result<Box<dyn Receiver>, ConfigError> {
    let config = Config::read(section)?;
    let target = config.storage().map(|storage| Target { receiver: context.id.clone(), storage });
    Ok(Box::new(GpuReceiver { settings: config.settings(), origin: config.origin(drivers, guard), target }))
}

/// Creates a receiver that reads a given source.
pub fn receiver(settings: Settings, backpressure: Backpressure, open: Open) -> Box<dyn Receiver> {
    Box::new(GpuReceiver { settings, origin: Origin::Given(backpressure, open), target: None })
}

/// Creates a receiver named `id` that reads a given source and persists its state in the extension `storage`.
pub fn receiver_with_storage(
    settings: Settings,
    (backpressure, open): (Backpressure, Open),
    id: ComponentId,
    storage: ComponentId,
) -> Box<dyn Receiver> {
    let target = Some(Target { receiver: id, storage });
    Box::new(GpuReceiver { settings, origin: Origin::Given(backpressure, open), target })
}

struct GpuReceiver {
    settings: Settings,
    origin: Origin,
    /// The storage of persisted state, if configured.
    target: Option<Target>,
}

impl Receiver for GpuReceiver {
    fn start(
        self: Box<Self>,
        next: Vec<(Signal, Arc<dyn Consumer>)>,
        host: &Host,
        stop: CancellationToken,
    ) -> BoxFuture<'static, StartResult<Running>> {
        let host = host.clone();
        Box::pin(async move {
            let GpuReceiver { mut settings, origin, target } = *self;
            if matches!(origin, Origin::Kernel(..)) {
                settings.host.extend(instrumentation::host());
            }
            let (sender, delivery) = instrumentation::channel(origin.backpressure(), next);
            let (opened, is_open) = oneshot::channel();
            let (records, storing) = persist::open(target, &host, capture::offsets, &stop).await?;
            let persistence = records.map(Persistence::new);
            let pump = Pump { analyzer: Analyzer::new(settings), sender, persistence };
            let thread = std::thread::Builder::new().name("gpu".to_owned());
            let thread = thread.spawn(move || pump.run(origin, opened))?;
            is_open.await??;
            let delivering = delivery.run(thread.thread().clone(), stop);
            let running: Running = Box::pin(async move {
                tokio::join!(delivering, storing);
            });
            Ok(running)
        })
    }
}

/// The state of the reading thread.
struct Pump {
    analyzer: Analyzer,
    sender: BatchSender,
    persistence: Option<Persistence>,
}

impl Pump {
    fn run(mut self, origin: Origin, opened: oneshot::Sender<Result<(), SourceError>>) {
        let mut source = match origin.open() {
            Ok(source) => source,
            Err(error) => return drop(opened.send(Err(error))),
        };
        // If the receiver of the answer is gone, the program is shutting down.
        if opened.send(Ok(())).is_ok() {
            self.restore();
            self.read_all(source.as_mut());
        }
        let Pump { analyzer, sender, persistence } = &mut self;
        analyzer.finish(&mut |batch| sender.push(batch));
        if let Some(persistence) = persistence.take() {
            persistence.close(analyzer);
        }
        // Detaches all probes: if the program ended meanwhile, the kernel would detach one after another.
        drop(source);
        self.sender.close();
    }

    fn restore(&mut self) {
        let Pump { analyzer, sender, persistence } = self;
        if let Some(persistence) = persistence {
            persistence.restore(analyzer, &mut |batch| sender.push(batch));
        }
    }

    fn read_all(&mut self, source: &mut dyn AnySource) {
        let mut events = Vec::new();
        let Pump { analyzer, sender, persistence } = self;
        while !sender.is_stopping() {
            let is_more = source.read(&mut events).unwrap_or_else(|error| {
                tracing::error!(%error, "the source of GPU events cannot be read any further");
                false
            });
            analyzer.set_dropped_items(sender.dropped_items());
            let was_idle = events.is_empty();
            for event in events.drain(..) {
                analyzer.observe(&event, &mut |batch| sender.push(batch));
            }
            for (process, detail) in analyzer.take_details() {
                // Sources that cannot change the detail are ignored; their outliers have no calls.
                let _ = source.set_detail(process, detail);
            }
            if let Some(persistence) = persistence {
                persistence.poll(analyzer, &mut |batch| sender.push(batch));
            }
            sender.flush();
            if !is_more {
                return;
            }
            // With backpressure, a recording is read as fast as its telemetry is consumed.
            let is_slowed = was_idle || sender.backpressure() == Backpressure::DropOldest;
            if is_slowed && !source.wait() {
                std::thread::park_timeout(POLL);
            }
        }
    }
}
