//! A running receiver of a vendor, with a pipeline that collects its batches.

use std::collections::BTreeMap;
use std::sync::Arc;

use component::status::{ComponentStatus, State};
use component::{BoxFuture, BuildContext, ComponentId, Consumer, Host, ReceiverFactory, Refused, Running};
use config::{Node, Section};
use instrumentation::testing::Output;
use opentelemetry::metrics::MeterProvider as _;
use opentelemetry::metrics::noop::NoopMeterProvider;
use pdata::{Data, Signal};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

/// A consumer that accepts everything and passes it to the test.
struct Pipeline(mpsc::UnboundedSender<Data>);

impl Consumer for Pipeline {
    fn consume(&self, data: Data) -> BoxFuture<'_, Result<(), Refused>> {
        // The test may have ended.
        let _ = self.0.send(data);
        Box::pin(async { Ok(()) })
    }
}

/// A running receiver.
pub struct Bench {
    kind: &'static str,
    taken: mpsc::UnboundedReceiver<Data>,
    state: Arc<State>,
    /// Stops the receiver.
    pub stop: CancellationToken,
    /// Completes when the receiver has stopped.
    pub running: Running,
}

impl Bench {
    /// Starts the receiver of `factory` with the library at a path, polled ten times per second.
    pub async fn start(factory: &ReceiverFactory, library: &str) -> Bench {
        let (sender, taken) = mpsc::unbounded_channel();
        let settings = serde_json::json!({"library": library, "collection_interval": "100ms"});
        let node: Node = serde_json::from_value(settings).expect("a mapping");
        let context = BuildContext { id: ComponentId::parse(factory.kind).expect("a type"), version: "test" };
        let receiver = (factory.build)(&context, Section::new("receiver", &node)).expect("good settings");
        let (state, stop) = (Arc::<State>::default(), CancellationToken::new());
        let host = Host::new(NoopMeterProvider::new().meter("test"), Arc::clone(&state)).of(factory.kind);
        let pipeline: Arc<dyn Consumer> = Arc::new(Pipeline(sender));
        let next = factory.signals.iter().map(|signal| (*signal, Arc::clone(&pipeline))).collect();
        let running = receiver.start(next, &host, stop.clone()).await.expect("it starts");
        Bench { kind: factory.kind, taken, state, stop, running }
    }

    /// Returns the next batch of a signal.
    pub async fn next(&mut self, signal: Signal) -> Data {
        loop {
            tokio::select! {
                data = self.taken.recv() => match data.expect("the receiver is running") {
                    data if data.signal() == signal => return data,
                    _ => {}
                },
                () = &mut self.running => panic!("the receiver stopped by itself"),
            }
        }
    }

    /// Returns the points of the next batch of metrics, formatted as by [`super::points`].
    pub async fn points(&mut self) -> BTreeMap<String, f64> {
        let data = self.next(Signal::Metrics).await;
        super::points(&Output { batches: vec![instrumentation::Batch { data, is_repeated: true }] })
    }

    /// Returns the status that the receiver reported.
    pub fn status(&self) -> Option<ComponentStatus> {
        self.state.components().remove(self.kind)
    }
}
