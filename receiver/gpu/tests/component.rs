//! The component: sources, and pipelines that accept, refuse and stop.

mod common;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use common::*;
use component::{
    BoxFuture, BuildContext, ComponentId, Consumer, Host, Receiver, Refused, Running, StartResult,
};
use config::{Node, Section};
use event::Event;
use gpu::{AnySource, Backpressure, Batch, Open, Settings, SourceError};
use pdata::{Data, Signal};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

/// A pipeline that answers as scripted, then accepts; passes on accepted data.
struct Pipeline {
    answers: Mutex<Vec<Refused>>,
    asked: AtomicUsize,
    taken: mpsc::UnboundedSender<Data>,
}

impl Consumer for Pipeline {
    fn consume(&self, data: Data) -> BoxFuture<'_, Result<(), Refused>> {
        self.asked.fetch_add(1, Ordering::Relaxed);
        let refused = self.answers.lock().expect("no test panicked with it").pop();
        Box::pin(async move {
            match refused {
                Some(refused) => Err(refused),
                None => {
                    // The test may have ended already.
                    let _ = self.taken.send(data);
                    Ok(())
                }
            }
        })
    }
}

/// A source of given events, followed by ticks of ten seconds if it is endless.
struct Source {
    given: Given,
    now_ns: u64,
    is_endless: bool,
}

impl AnySource for Source {
    fn read(&mut self, into: &mut Vec<Event>) -> Result<bool, SourceError> {
        if event::EventSource::read(&mut self.given, into)? {
            return Ok(true);
        }
        self.now_ns += 10 * SECOND;
        into.push(Event::Tick { at_ns: self.now_ns });
        Ok(self.is_endless)
    }
}

fn open(events: Vec<Event>, is_endless: bool) -> Open {
    let now_ns = events.iter().filter_map(Event::at_ns).max().unwrap_or(0);
    let source = Source { given: Given { events, at: 0, batch: 100 }, now_ns, is_endless };
    Box::new(move || Ok(Box::new(source) as Box<dyn AnySource>))
}

struct Bench {
    pipelines: Vec<Arc<Pipeline>>,
    taken: mpsc::UnboundedReceiver<Data>,
    stop: CancellationToken,
}

impl Bench {
    /// Creates pipelines that refuse the given number of times at first, by signal.
    fn new(refusals: impl Fn(Signal) -> Vec<Refused>) -> Bench {
        let (sender, taken) = mpsc::unbounded_channel();
        let pipeline = |signal| {
            let answers = Mutex::new(refusals(signal));
            Arc::new(Pipeline { answers, asked: AtomicUsize::new(0), taken: sender.clone() })
        };
        let pipelines = Signal::STABLE.map(pipeline).to_vec();
        Bench { pipelines, taken, stop: CancellationToken::new() }
    }

    async fn start(&self, receiver: Box<dyn Receiver>) -> StartResult<Running> {
        let next = self.pipelines.iter().map(|p| Arc::clone(p) as Arc<dyn Consumer>);
        receiver
            .start(Signal::STABLE.into_iter().zip(next).collect(), &Host::detached(), self.stop.clone())
            .await
    }

    /// Returns the next batch for which `is_it` holds; the ones before it are added to `before`.
    async fn until(&mut self, before: &mut Vec<Data>, is_it: impl Fn(&Data) -> bool) {
        loop {
            let data = self.taken.recv().await.expect("the receiver goes on");
            before.push(data);
            if before.last().is_some_and(&is_it) {
                return;
            }
        }
    }
}

fn outlier() -> Vec<Event> {
    let mut program = Program::new(100);
    program.serve(200, 5 * MS);
    program.decode(40 * MS);
    program.serve(60, 5 * MS);
    events(&[program], true)
}

#[test]
fn a_recording_waits_for_slow_pipelines() {
    let mut program = Program::new(100);
    program.serve(600, 5 * MS);
    let events = events(&[program], true);
    // More collections than all buffers hold.
    let often = Settings { collection_interval_ns: 5 * MS, ..Settings::default() };
    let want = analysed(&events, often.clone());
    let got = run(async {
        let mut bench = Bench::new(|_| Vec::new());
        let source: Open = Box::new(move || Ok(Box::new(Given { events, at: 0, batch: 1_000 })));
        let running = bench.start(gpu::receiver(often, Backpressure::Wait, source)).await.unwrap();
        let running = tokio::spawn(running);
        let mut taken = Vec::new();
        while taken.len() < want.batches.len() {
            bench.until(&mut taken, |_| true).await;
        }
        bench.stop.cancel();
        running.await.unwrap();
        output(taken)
    });
    assert!(want.batches.len() > 500, "{}", want.batches.len());
    assert!(got.bytes() == want.bytes());
}

fn run<F: Future>(test: F) -> F::Output {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build();
    runtime.expect("a runtime").block_on(test)
}

fn output(data: Vec<Data>) -> Output {
    Output { batches: data.into_iter().map(|data| Batch { data, is_repeated: false }).collect() }
}

#[test]
fn pipelines_receive_the_telemetry_of_a_replay() {
    let events = outlier();
    let want = analysed(&events, Settings::default());
    let got = run(async {
        let mut bench = Bench::new(|_| Vec::new());
        let source: Open = Box::new(move || Ok(Box::new(Given { events, at: 0, batch: 100 })));
        let running =
            bench.start(gpu::receiver(Settings::default(), Backpressure::Wait, source)).await.unwrap();
        let running = tokio::spawn(running);
        let mut taken = Vec::new();
        bench.until(&mut taken, is_account).await;
        bench.stop.cancel();
        running.await.unwrap();
        output(taken)
    });
    assert!(want.batches.len() > 3);
    assert!(got.bytes() == want.bytes());
}

#[test]
fn an_outlier_is_sent_before_the_next_collection() {
    run(async {
        let mut bench = Bench::new(|_| Vec::new());
        let running = bench
            .start(gpu::receiver(Settings::default(), Backpressure::DropOldest, open(outlier(), true)))
            .await
            .unwrap();
        let running = tokio::spawn(running);
        let mut before = Vec::new();
        bench.until(&mut before, |data| matches!(data, Data::Traces(_))).await;
        assert!(before.iter().all(|data| !matches!(data, Data::Metrics(_))), "no collection was due");
        bench.stop.cancel();
        running.await.unwrap();
    });
}

#[test]
fn refused_spans_are_retried() {
    run(async {
        let later = Refused::retryable("queue full").with_retry_after(Duration::ZERO);
        let mut bench = Bench::new(|signal| match signal {
            Signal::Traces => vec![later.clone(); 3],
            _ => Vec::new(),
        });
        let running = bench
            .start(gpu::receiver(Settings::default(), Backpressure::DropOldest, open(outlier(), true)))
            .await
            .unwrap();
        let running = tokio::spawn(running);
        let mut before = Vec::new();
        bench.until(&mut before, |data| matches!(data, Data::Traces(_))).await;
        assert_eq!(bench.pipelines[2].asked.load(Ordering::Relaxed), 4);
        bench.until(&mut before, is_account).await;
        bench.stop.cancel();
        running.await.unwrap();
        assert_eq!(lost(&output(before), "traces"), 0.0);
    });
}

fn lost(output: &Output, signal: &str) -> f64 {
    values(output.account(), "warptap.delivery.dropped")[&format!("warptap.signal={signal}")]
}

#[test]
fn permanently_refused_spans_are_counted() {
    run(async {
        let mut bench = Bench::new(|signal| match signal {
            Signal::Traces => vec![Refused::permanent("no"); 1],
            _ => Vec::new(),
        });
        let running = bench
            .start(gpu::receiver(Settings::default(), Backpressure::DropOldest, open(outlier(), true)))
            .await
            .unwrap();
        let running = tokio::spawn(running);
        let mut before = Vec::new();
        let counted = |data: &Data| {
            matches!(data, Data::Metrics(_)) && lost(&output(vec![data.clone()]), "traces") == 3.0
        };
        bench.until(&mut before, |data| is_account(data) && counted(data)).await;
        bench.stop.cancel();
        running.await.unwrap();
    });
}

/// Returns whether data is a collection with internal telemetry, which the last points of a process lack.
fn is_account(data: &Data) -> bool {
    match data {
        Data::Metrics(d) => d.resource_metrics.iter().any(|r| pid_of(r.resource.as_ref()).is_none()),
        _ => false,
    }
}

#[test]
fn refused_collections_are_not_retried() {
    run(async {
        let mut program = Program::new(100);
        program.serve(60, 5 * MS);
        let later = Refused::retryable("down").with_retry_after(Duration::ZERO);
        let mut bench = Bench::new(|signal| match signal {
            Signal::Metrics => vec![later.clone(); 2],
            _ => Vec::new(),
        });
        let source = open(events(&[program], false), true);
        let running =
            bench.start(gpu::receiver(Settings::default(), Backpressure::DropOldest, source)).await.unwrap();
        let running = tokio::spawn(running);
        let mut before = Vec::new();
        bench.until(&mut before, is_account).await;
        let taken = output(before);
        let steps: u64 = distributions(taken.last_of(100), "gpu.step.duration").iter().map(|p| p.count).sum();
        assert_eq!(steps, 63, "nothing is missing from what comes later");
        assert_eq!(lost(&taken, "metrics"), 0.0);
        bench.stop.cancel();
        running.await.unwrap();
    });
}

#[test]
fn stop_makes_a_last_collection() {
    run(async {
        let mut program = Program::new(100);
        program.serve(60, 5 * MS);
        let mut bench = Bench::new(|_| Vec::new());
        let never = Settings { collection_interval_ns: u64::MAX, ..Settings::default() };
        let source = open(events(&[program], false), true);
        let running = bench.start(gpu::receiver(never, Backpressure::DropOldest, source)).await.unwrap();
        let running = tokio::spawn(running);
        let mut before = Vec::new();
        bench.until(&mut before, |data| matches!(data, Data::Logs(_))).await;
        bench.stop.cancel();
        bench.until(&mut before, is_account).await;
        running.await.unwrap();
    });
}

#[test]
fn unavailable_source_fails_the_start() {
    run(async {
        let bench = Bench::new(|_| Vec::new());
        let open: Open = Box::new(|| Err("cannot replay x: it is damaged".into()));
        let error = bench
            .start(gpu::receiver(Settings::default(), Backpressure::DropOldest, open))
            .await
            .err()
            .unwrap();
        assert_eq!(error.to_string(), "cannot replay x: it is damaged");
    });
}

#[test]
fn factory_refuses_a_wrong_section() {
    let context = BuildContext { id: ComponentId::parse("gpu").unwrap(), version: "0" };
    let node = |json: &str| -> Node { serde_json::from_str(json).unwrap() };
    let build = |json: &str| {
        gpu::build(&context, Section::new("receivers::gpu", &node(json)), &[], &[])
            .err()
            .map(|e| e.to_string())
    };
    assert_eq!(build("null"), None);
    assert_eq!(build(r#"{"collection_interval": "30s", "capture": {"trace_all": true}}"#), None);
    let logged = build(r#"{"colection_interval": "30s"}"#).unwrap();
    assert!(logged.contains("collection_interval"), "{logged}");
}
