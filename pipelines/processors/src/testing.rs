//! A processor in front of a consumer that records, for tests. Data is OTLP JSON, settings are JSON.

use std::sync::{Arc, Mutex};

use component::{
    BoxFuture, BuildContext, ComponentId, Consumer, Processor, ProcessorFactory, Refused, Running,
};
use config::{Node, Section};
use pdata::{Data, Signal};
use tokio_util::sync::CancellationToken;

/// A consumer that records batches and returns a configured result.
pub(crate) struct Sink {
    pub(crate) got: Mutex<Vec<Data>>,
    pub(crate) answer: Mutex<Result<(), Refused>>,
}

impl Sink {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Sink { got: Mutex::default(), answer: Mutex::new(Ok(())) })
    }

    /// Returns the batches since the last call.
    pub(crate) fn take(&self) -> Vec<Data> {
        std::mem::take(&mut self.got.lock().unwrap())
    }
}

impl Consumer for Sink {
    fn consume(&self, data: Data) -> BoxFuture<'_, Result<(), Refused>> {
        let answer = self.answer.lock().unwrap().clone();
        if answer.is_ok() {
            self.got.lock().unwrap().push(data);
        }
        Box::pin(async move { answer })
    }
}

/// Builds a processor from its settings, or returns their problems.
pub(crate) fn build(factory: &ProcessorFactory, settings: &str) -> Result<Box<dyn Processor>, Vec<String>> {
    let node: Node = serde_json::from_str(settings).unwrap();
    let id = ComponentId::parse(factory.kind).unwrap();
    let built = (factory.build)(&BuildContext { id, version: "1.2.3" }, Section::new("x", &node));
    built.map_err(|e| e.problems().iter().map(|p| format!("{}: {}", p.path, p.message)).collect())
}

/// Returns the problems of settings.
pub(crate) fn problems(factory: &ProcessorFactory, settings: &str) -> Vec<String> {
    build(factory, settings).err().unwrap_or_default()
}

/// A running processor.
pub(crate) struct Started {
    pub(crate) front: Arc<dyn Consumer>,
    pub(crate) sink: Arc<Sink>,
    pub(crate) stop: CancellationToken,
    pub(crate) running: Running,
}

impl Started {
    pub(crate) fn by(factory: &ProcessorFactory, settings: &str) -> Self {
        let (sink, stop) = (Sink::new(), CancellationToken::new());
        let processor = build(factory, settings).unwrap_or_else(|e| panic!("{settings}: {e:?}"));
        let (front, running) = processor.start(sink.clone(), &component::Host::detached(), stop.clone());
        Started { front, sink, stop, running }
    }
}

/// Asserts what a processor sends for one batch, and that a shared copy of the batch is unchanged.
#[track_caller]
pub(crate) fn check(factory: &ProcessorFactory, settings: &str, signal: Signal, before: &str, after: &str) {
    let given = pdata::json::decode(signal, before.as_bytes()).unwrap();
    let kept = given.clone();
    let started = Started::by(factory, settings);
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(started.front.consume(given)).unwrap();
    let [made] = &started.sink.take()[..] else { panic!("one batch in, one batch out") };
    let made = String::from_utf8(pdata::json::encode(made)).unwrap();
    let after = pdata::json::decode(signal, after.as_bytes()).unwrap();
    assert_eq!(made, String::from_utf8(pdata::json::encode(&after)).unwrap(), "{settings}");
    assert_eq!(kept, pdata::json::decode(signal, before.as_bytes()).unwrap(), "the shared copy is unchanged");
}
