//! A vendor's receiver as a pipeline sees it: started, asked for its next batch, stopped.

use std::collections::BTreeMap;
use std::sync::Arc;

use component::status::{State, Status};
use component::{BoxFuture, BuildContext, ComponentId, Consumer, Host, ReceiverFactory, Refused, Running};
use config::{Node, Section};
use instrumentation::testing::Output;
use opentelemetry::metrics::MeterProvider as _;
use opentelemetry::metrics::noop::NoopMeterProvider;
use pdata::{Data, Signal};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

/// Takes everything and shows it.
struct Pipeline(mpsc::UnboundedSender<Data>);

impl Consumer for Pipeline {
    fn consume(&self, data: Data) -> BoxFuture<'_, Result<(), Refused>> {
        // A test that has seen enough does not look any more.
        let _ = self.0.send(data);
        Box::pin(async { Ok(()) })
    }
}

/// A running receiver.
pub struct Bench {
    kind: &'static str,
    taken: mpsc::UnboundedReceiver<Data>,
    state: Arc<State>,
    /// Stops it.
    pub stop: CancellationToken,
    /// Ready once it has stopped.
    pub running: Running,
}

impl Bench {
    /// Starts the receiver of this row with a library by its path, asked ten times a second.
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

    /// The next batch of a signal.
    pub async fn next(&mut self, signal: Signal) -> Data {
        loop {
            tokio::select! {
                data = self.taken.recv() => match data.expect("somebody sends") {
                    data if data.signal() == signal => return data,
                    _ => {}
                },
                () = &mut self.running => panic!("the receiver stopped by itself"),
            }
        }
    }

    /// The points of the next batch of metrics, as [`super::points`] writes them.
    pub async fn points(&mut self) -> BTreeMap<String, f64> {
        let data = self.next(Signal::Metrics).await;
        super::points(&Output { batches: vec![instrumentation::Batch { data, is_repeated: true }] })
    }

    /// What it says of itself.
    pub fn status(&self) -> Option<Status> {
        self.state.components().remove(self.kind)
    }
}
