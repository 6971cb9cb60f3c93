//! Fake components that log their starts, stops and data.

use pdata::Payload;
use std::cell::RefCell;
use std::sync::Arc;

use component::{
    BoxFuture, BuildContext, Capabilities, Connector, ConnectorFactory, Consumer, Exporter, ExporterFactory,
    Extension, ExtensionFactory, Host, Processor, ProcessorFactory, Receiver, ReceiverFactory, Refused,
    Running, Stability, StartResult,
};
use config::{ConfigError, Node, Section};
use opentelemetry_proto::tonic::logs::v1::{LogsData, ResourceLogs};
use opentelemetry_proto::tonic::trace::v1::TracesData;
use pdata::{Data, Signal};
use tokio_util::sync::CancellationToken;

use super::{Factories, Plan};
use crate::config::{Environment, Sections, load};

thread_local! {
    // Builders are plain functions; a test runs on one thread, and so does its runtime.
    static LOG: RefCell<Vec<String>> = const { RefCell::new(Vec::new()) };
}

fn log_event(line: String) {
    LOG.with_borrow_mut(|log| log.push(line));
}

/// Returns the events since the last call.
pub(crate) fn happened() -> Vec<String> {
    LOG.with_borrow_mut(std::mem::take)
}

config::section! {
    /// The section of every fake.
    #[derive(Debug)]
    struct FakeConfig {
        /// The start fails.
        refuse: bool,
        /// The stop is ignored.
        hang: bool,
        /// The work panics.
        panic: bool,
        /// Must be at most 9.
        size: u64,
        /// Anything, such as the id of an extension.
        note: String,
    }
}

struct Fake {
    name: String,
    config: FakeConfig,
}

fn build(context: &BuildContext, section: Section<'_>) -> Result<Fake, ConfigError> {
    let (config, mut problems) = section.read::<FakeConfig>();
    problems.require(config.size <= 9, "size", format!("{} is too large: expected 9 at most", config.size));
    problems.finish()?;
    log_event(format!("build {}{}", context.id, config.note));
    Ok(Fake { name: context.id.to_string(), config })
}

impl Fake {
    fn start(&self) -> StartResult<()> {
        log_event(format!("start {}", self.name));
        if self.config.refuse { Err("refused".into()) } else { Ok(()) }
    }

    /// Runs `first`, then waits until it is stopped.
    fn running(self, stop: CancellationToken, first: BoxFuture<'static, ()>) -> Running {
        Box::pin(async move {
            first.await;
            assert!(!self.config.panic, "configured to panic");
            if self.config.hang {
                std::future::pending::<()>().await;
            }
            stop.cancelled().await;
            log_event(format!("stop {}", self.name));
        })
    }
}

impl Receiver for Fake {
    /// Sends one batch per signal.
    fn start(
        self: Box<Self>,
        next: Vec<(Signal, Arc<dyn Consumer>)>,
        _: &Host,
        stop: CancellationToken,
    ) -> BoxFuture<'static, StartResult<Running>> {
        Box::pin(async move {
            Fake::start(&self)?;
            let name = self.name.clone();
            let send = async move {
                for (signal, consumer) in next {
                    consumer.consume(batch(signal, &name)).await.unwrap();
                }
            };
            Ok(self.running(stop, Box::pin(send)))
        })
    }
}

/// Returns a batch that contains the name of its sender.
pub(crate) fn batch(signal: Signal, sender: &str) -> Data {
    match signal {
        Signal::Logs => {
            let logs = ResourceLogs { schema_url: sender.to_owned(), ..Default::default() };
            Data::Logs(Payload::new(LogsData { resource_logs: vec![logs] }))
        }
        _ => Data::Traces(Payload::new(TracesData::default())),
    }
}

/// A consumer that appends its name to the sender of logs.
struct Stamp(String, Arc<dyn Consumer>);

impl Consumer for Stamp {
    fn consume(&self, data: Data) -> BoxFuture<'_, Result<(), Refused>> {
        let data = match data {
            Data::Logs(mut logs) => {
                logs.make_mut().resource_logs[0].schema_url += &format!(" {}", self.0);
                Data::Logs(logs)
            }
            other => other,
        };
        self.1.consume(data)
    }
}

impl Processor for Fake {
    fn start(
        self: Box<Self>,
        next: Arc<dyn Consumer>,
        _: &Host,
        stop: CancellationToken,
    ) -> (Arc<dyn Consumer>, Running) {
        Fake::start(&self).expect("a processor has nothing to open");
        (Arc::new(Stamp(self.name.clone(), next)), self.running(stop, Box::pin(async {})))
    }
}

/// A consumer that logs the batches it receives.
struct Sink(String);

impl Consumer for Sink {
    fn consume(&self, data: Data) -> BoxFuture<'_, Result<(), Refused>> {
        let sender = match &data {
            Data::Logs(logs) => logs.resource_logs[0].schema_url.clone(),
            _ => String::new(),
        };
        log_event(format!("{} takes {} {sender}", self.0, data.signal().name()));
        Box::pin(async { Ok(()) })
    }
}

impl Exporter for Fake {
    fn start(
        self: Box<Self>,
        _: &Host,
        stop: CancellationToken,
    ) -> BoxFuture<'static, StartResult<(Arc<dyn Consumer>, Running)>> {
        Box::pin(async move {
            Fake::start(&self)?;
            let sink: Arc<dyn Consumer> = Arc::new(Sink(self.name.clone()));
            Ok((sink, self.running(stop, Box::pin(async {}))))
        })
    }
}

impl Connector for Fake {
    /// Returns logs and traces for logs.
    fn outputs(&self, from: Signal) -> &'static [Signal] {
        match from {
            Signal::Logs => SIGNALS,
            _ => &[],
        }
    }

    fn start(
        self: Box<Self>,
        (_, to): (Signal, Signal),
        next: Arc<dyn Consumer>,
        _: &Host,
        stop: CancellationToken,
    ) -> (Arc<dyn Consumer>, Running) {
        Fake::start(&self).expect("a connector has nothing to open");
        (Arc::new(Convert(to, next)), self.running(stop, Box::pin(async {})))
    }
}

/// A consumer that forwards logs, or an empty batch of another signal.
struct Convert(Signal, Arc<dyn Consumer>);

impl Consumer for Convert {
    fn consume(&self, data: Data) -> BoxFuture<'_, Result<(), Refused>> {
        self.1.consume(if data.signal() == self.0 { data } else { batch(self.0, "") })
    }
}

impl Extension for Fake {
    fn start(
        self: Box<Self>,
        _: &Host,
        stop: CancellationToken,
    ) -> BoxFuture<'static, StartResult<(Capabilities, Running)>> {
        Box::pin(async move {
            Fake::start(&self)?;
            Ok((Capabilities::default(), self.running(stop, Box::pin(async {}))))
        })
    }
}

const STABILITY: Stability = Stability::Alpha;
const SIGNALS: &[Signal] = &[Signal::Logs, Signal::Traces];

/// Tables with one fake of each kind.
pub(crate) const FACTORIES: Factories<'static> = Factories {
    connectors: &[ConnectorFactory {
        kind: "link",
        aliases: &[],
        signals: SIGNALS,
        stability: STABILITY,
        about: "",
        example: "",
        keys: config::keys::<FakeConfig>,
        build: |context, section| Ok(Box::new(build(context, section)?)),
    }],
    extensions: &[ExtensionFactory {
        kind: "aid",
        aliases: &[],
        signals: &[],
        stability: STABILITY,
        about: "",
        example: "",
        keys: config::keys::<FakeConfig>,
        build: |context, section| Ok(Box::new(build(context, section)?)),
    }],
    exporters: &[ExporterFactory {
        kind: "sink",
        aliases: &["sinkold"],
        signals: SIGNALS,
        stability: STABILITY,
        about: "",
        example: "",
        keys: config::keys::<FakeConfig>,
        build: |context, section| Ok(Box::new(build(context, section)?)),
    }],
    processors: &[ProcessorFactory {
        kind: "step",
        aliases: &[],
        signals: SIGNALS,
        stability: STABILITY,
        about: "",
        example: "",
        keys: config::keys::<FakeConfig>,
        build: |context, section| Ok(Box::new(build(context, section)?)),
    }],
    receivers: &[ReceiverFactory {
        kind: "source",
        aliases: &[],
        signals: SIGNALS,
        stability: STABILITY,
        about: "",
        example: "",
        keys: config::keys::<FakeConfig>,
        build: |context, section| Ok(Box::new(build(context, section)?)),
    }],
};

struct Nothing;

impl Environment for Nothing {
    fn env(&self, _name: &str) -> Option<String> {
        None
    }

    fn read(&self, _path: &str, _limit: usize) -> std::io::Result<Vec<u8>> {
        Err(std::io::ErrorKind::NotFound.into())
    }
}

fn root(yaml: &str) -> Node {
    load(&[format!("yaml:{yaml}")], &Nothing).unwrap().root
}

/// Builds a plan of fakes.
pub(crate) fn plan(yaml: &str) -> Result<Plan, ConfigError> {
    let root = root(yaml);
    Plan::build(&Sections::read(&root), FACTORIES, "0", None)
}
