//! The component: a real thread and a real library, whether the driver answers, is missing or hangs.

#![allow(clippy::unwrap_used, reason = "a panic in a test is its report")]

mod common;

use std::sync::Arc;
use std::time::Duration;

use common::*;
use component::config::{Node, Section};
use component::status::{State, Status};
use component::{BoxFuture, BuildContext, ComponentId, Consumer, Data, Host, Refused, Running, Signal};
use opentelemetry::metrics::MeterProvider as _;
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

struct Bench {
    taken: mpsc::UnboundedReceiver<Data>,
    state: Arc<State>,
    stop: CancellationToken,
    running: Running,
}

impl Bench {
    async fn start(library: &str) -> Bench {
        let (sender, taken) = mpsc::unbounded_channel();
        let json = format!(r#"{{"library": "{library}", "collection_interval": "100ms"}}"#);
        let node: Node = serde_json::from_str(&json).unwrap();
        let context = BuildContext { id: ComponentId::parse("amdsmi").unwrap(), version: "test" };
        let receiver = (amdsmi::FACTORY.build)(&context, Section::new("receivers::amdsmi", &node)).unwrap();
        let (state, stop) = (Arc::<State>::default(), CancellationToken::new());
        let meter = opentelemetry::metrics::noop::NoopMeterProvider::new().meter("test");
        let host = Host::new(meter, Arc::clone(&state)).of("amdsmi");
        let pipeline: Arc<dyn Consumer> = Arc::new(Pipeline(sender));
        let next = amdsmi::FACTORY.signals.iter().map(|signal| (*signal, Arc::clone(&pipeline))).collect();
        let running = receiver.start(next, &host, stop.clone()).await.unwrap();
        Bench { taken, state, stop, running }
    }

    /// The next batch of a signal.
    async fn next(&mut self, signal: Signal) -> Data {
        loop {
            tokio::select! {
                data = self.taken.recv() => match data.unwrap() {
                    data if data.signal() == signal => return data,
                    _ => {}
                },
                () = &mut self.running => panic!("the receiver stopped by itself"),
            }
        }
    }

    fn status(&self) -> Option<Status> {
        self.state.components().remove("amdsmi")
    }
}

fn points_of(data: Data) -> std::collections::BTreeMap<String, f64> {
    points(&Output { batches: vec![sdk::Batch { data, is_repeated: true }] })
}

#[tokio::test]
async fn devices_are_asked_and_told_until_the_stop() {
    let machine = Machine::of(&format!("{WHOLE}200ms gpu0 notification 3\n"));
    let mut bench = Bench::start(machine.control.path().to_str().unwrap()).await;
    let points = points_of(bench.next(Signal::Metrics).await);
    assert_eq!(
        points["hw.temperature{hw.id=2cff74a1-0000-1000-80f1-000000000000,hw.name=GPU 0,hw.sensor_location=hotspot} Cel"],
        71.0
    );
    assert_eq!(bench.status(), Some(Status::Ok));
    let mut bodies = Vec::new();
    while !bodies.iter().any(|body: &String| body.contains("is about to be reset")) {
        let data = bench.next(Signal::Logs).await;
        let output = Output { batches: vec![sdk::Batch { data, is_repeated: false }] };
        bodies.extend(told(&output).into_iter().map(|(_, body)| body));
    }
    bench.stop.cancel();
    bench.running.await;
}

#[tokio::test]
async fn a_driver_that_comes_later_is_found() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("libamd_smi.so.26");
    let mut bench = Bench::start(path.to_str().unwrap()).await;
    let absent = Status::RecoverableError("no GPU driver: library_not_found".to_owned());
    while bench.status().as_ref() != Some(&absent) {
        tokio::task::yield_now().await;
    }
    let control = stubs::DriverControl::amdsmi(folder.path()).unwrap();
    assert!(control.set_script(WHOLE));
    while !points_of(bench.next(Signal::Metrics).await).keys().any(|key| key.contains("2cff74a1")) {}
    assert_eq!(bench.status(), Some(Status::Ok));
    bench.stop.cancel();
    bench.running.await;
}

#[tokio::test]
async fn a_driver_that_never_answers_does_not_keep_the_receiver_from_stopping() {
    let machine = Machine::of("0s gpu0 uuid slow 9h a1");
    let bench = Bench::start(machine.control.path().to_str().unwrap()).await;
    while machine.control.calls() == 0 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    bench.stop.cancel();
    bench.running.await;
    // The call goes on in the library: neither may be unloaded while it does.
    std::mem::forget(machine);
}
