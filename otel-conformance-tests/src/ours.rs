//! Our own components, run as a pipeline runs them. Settings are those of users, in JSON.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Instant;

use component::{
    BoxFuture, BuildContext, ComponentId, Consumer, Exporter, ExporterFactory, Host, ProcessorFactory,
    Refused, Running,
};
use config::{Node, Section};
use pdata::Data;
use tokio_util::sync::CancellationToken;

/// A running exporter.
pub struct Exporting {
    front: Arc<dyn Consumer>,
    running: Running,
    stop: CancellationToken,
}

/// Builds an exporter from its settings.
pub fn build_exporter(factory: &ExporterFactory, settings: &str) -> Box<dyn Exporter> {
    (factory.build)(&context(factory.kind), Section::new("exporter", &node(settings))).expect(settings)
}

impl Exporting {
    /// Starts an exporter.
    pub async fn by(factory: &ExporterFactory, settings: &str) -> Self {
        let stop = CancellationToken::new();
        let started = build_exporter(factory, settings).start(&Host::detached(), stop.clone()).await;
        let (front, running) = started.expect(settings);
        Exporting { front, running, stop }
    }

    /// Sends a batch.
    pub async fn send(&self, data: Data) -> Result<(), Refused> {
        self.front.consume(data).await
    }

    /// Stops the exporter after it sent its queue.
    pub async fn end(self) {
        self.stop.cancel();
        self.running.await;
    }
}

/// A consumer that stores batches with their times, and returns given results.
#[derive(Debug, Default)]
pub struct Sink {
    got: Mutex<Vec<(Instant, Data)>>,
    answers: Mutex<VecDeque<Result<(), Refused>>>,
}

impl Sink {
    /// Returns a sink that answers the first batches in turn with these results and accepts the rest.
    pub fn answering(answers: impl IntoIterator<Item = Result<(), Refused>>) -> Self {
        Sink { answers: Mutex::new(answers.into_iter().collect()), ..Sink::default() }
    }

    /// Returns the batches received, refused or not.
    pub fn got(&self) -> Vec<Data> {
        self.with_times().into_iter().map(|(_, data)| data).collect()
    }

    /// Returns the batches received with their times.
    pub fn with_times(&self) -> Vec<(Instant, Data)> {
        self.got.lock().expect("no one panics with it").clone()
    }
}

impl Consumer for Sink {
    fn consume(&self, data: Data) -> BoxFuture<'_, Result<(), Refused>> {
        self.got.lock().expect("no one panics with it").push((Instant::now(), data));
        let answer = self.answers.lock().expect("no one panics with it").pop_front();
        Box::pin(std::future::ready(answer.unwrap_or(Ok(()))))
    }
}

/// Returns the output of a processor for batches, from its start to its end.
pub async fn processed(factory: &ProcessorFactory, settings: &str, batches: &[Data]) -> Vec<Data> {
    let built = (factory.build)(&context(factory.kind), Section::new("processor", &node(settings)));
    let (sink, stop) = (Arc::new(Sink::default()), CancellationToken::new());
    let (front, running) = built.expect(settings).start(sink.clone(), &Host::detached(), stop.clone());
    for batch in batches {
        front.consume(batch.clone()).await.expect("it takes the batch");
    }
    stop.cancel();
    running.await;
    sink.got()
}

fn node(settings: &str) -> Node {
    serde_json::from_str(settings).expect(settings)
}

fn context(kind: &str) -> BuildContext {
    BuildContext { id: ComponentId::parse(kind).expect("a type"), version: "0.0.0" }
}
