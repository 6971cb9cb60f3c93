//! A connector in front of a consumer that records, for tests. Data is OTLP JSON, settings are JSON.

use std::sync::{Arc, Mutex};

use component::{BoxFuture, BuildContext, ComponentId, Connector, ConnectorFactory, Consumer, Host, Refused};
use config::{Node, Section};
use pdata::{Data, Signal};

#[derive(Default)]
struct Sink(Mutex<Vec<Data>>);

impl Consumer for Sink {
    fn consume(&self, data: Data) -> BoxFuture<'_, Result<(), Refused>> {
        self.0.lock().unwrap().push(data);
        Box::pin(async { Ok(()) })
    }
}

/// Builds a connector from its settings, or returns their problems.
pub(crate) fn build(factory: &ConnectorFactory, settings: &str) -> Result<Box<dyn Connector>, Vec<String>> {
    let node: Node = serde_json::from_str(settings).unwrap();
    let id = ComponentId::parse(factory.kind).unwrap();
    let built = (factory.build)(&BuildContext { id, version: "1.2.3" }, Section::new("x", &node));
    built.map_err(|e| e.problems().iter().map(|p| format!("{}: {}", p.path, p.message)).collect())
}

/// Returns the batches that a connector sends for one batch.
pub(crate) fn pass(
    factory: &ConnectorFactory,
    settings: &str,
    ends: (Signal, Signal),
    batch: &str,
) -> Vec<String> {
    let connector = build(factory, settings).unwrap_or_else(|e| panic!("{settings}: {e:?}"));
    let sink = Arc::new(Sink::default());
    let (front, _) = connector.start(ends, sink.clone(), &Host::detached(), Default::default());
    let data = pdata::json::decode(ends.0, batch.as_bytes()).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(front.consume(data)).unwrap();
    let got = std::mem::take(&mut *sink.0.lock().unwrap());
    got.iter().map(|data| String::from_utf8(pdata::json::encode(data)).unwrap()).collect()
}
