//! State that outlives the receiver: several runs on one directory with the real storage.

mod common;

use std::path::Path;
use std::sync::{Arc, Mutex};

use common::job::{Job, events_until, job_events};
use common::*;
use component::storage::{Namespace, Operation};
use component::{BoxFuture, BuildContext, ComponentId, Consumer, Host, Refused};
use config::{Node, Section};
use event::{Event, ExitStatus, ProcessId};
use gpu::{Analyzer, Backpressure, Batch, Open, Settings};
use pdata::{Data, Signal};
use persist::{RecordChange, RestoredState, StoredRecord};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

fn id(text: &str) -> ComponentId {
    ComponentId::parse(text).expect("an id")
}

/// A pipeline that accepts everything.
struct Pipeline(Mutex<mpsc::UnboundedSender<Data>>);

impl Consumer for Pipeline {
    fn consume(&self, data: Data) -> BoxFuture<'_, Result<(), Refused>> {
        self.0.lock().expect("no test panicked with it").send(data).expect("the test listens");
        Box::pin(async { Ok(()) })
    }
}

/// Returns a host with the storage extension on a directory, which runs until the token is cancelled.
async fn host(directory: &Path, stop: &CancellationToken) -> (Host, tokio::task::JoinHandle<()>) {
    let node: Node = serde_json::from_str(&format!(r#"{{"directory": {directory:?}}}"#)).expect("JSON");
    let context = BuildContext { id: id("file_storage"), version: "0" };
    let extension =
        (storage::FACTORY.build)(&context, Section::new("extensions", &node)).expect("it is built");
    let (offer, running) = extension.start(&Host::detached(), stop.clone()).await.expect("it starts");
    (Host::detached().with_extension(id("file_storage"), offer), tokio::spawn(running))
}

/// Runs the receiver once; returns its output.
async fn one_run(directory: &Path, events: Vec<Event>) -> Output {
    let (stop, stop_storage) = (CancellationToken::new(), CancellationToken::new());
    let (host, storing) = host(directory, &stop_storage).await;
    let (sender, mut taken) = mpsc::unbounded_channel();
    let pipeline = Arc::new(Pipeline(Mutex::new(sender))) as Arc<dyn Consumer>;
    let next = Signal::STABLE.map(|signal| (signal, Arc::clone(&pipeline))).to_vec();
    let source: Open = Box::new(move || Ok(Box::new(Given { events, at: 0, batch: 100 })));
    let never = Settings { collection_interval_ns: u64::MAX, ..Settings::default() };
    let of = (Backpressure::Wait, source);
    let receiver = gpu::receiver_with_storage(never, of, id("gpu"), id("file_storage"));
    let running = tokio::spawn(receiver.start(next, &host, stop.clone()).await.expect("it starts"));
    let mut batches = Vec::new();
    // The last collection is the only one.
    while !batches.iter().any(|batch: &Batch| matches!(batch.data, Data::Metrics(_))) {
        let data = taken.recv().await.expect("the receiver goes on");
        batches.push(Batch { data, is_repeated: false });
    }
    stop.cancel();
    running.await.expect("it ends");
    stop_storage.cancel();
    storing.await.expect("it ends");
    Output { batches }
}

fn run<F: Future>(test: F) -> F::Output {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build();
    runtime.expect("a runtime").block_on(test)
}

/// Returns a server that has just started, and one of whose first steps is slow.
fn fresh(pid: u32) -> Vec<Event> {
    let mut server = Program::new(pid);
    server.serve(12, 5 * MS);
    server.decode(40 * MS);
    server.serve(5, 5 * MS);
    events(&[server], false)
}

fn served(pid: u32) -> Vec<Event> {
    let mut server = Program::new(pid);
    server.serve(300, 5 * MS);
    events(&[server], false)
}

fn outliers(output: &Output) -> usize {
    output.logs("gpu.step.outlier").len()
}

fn damaged(output: &Output) -> f64 {
    values(output.account(), "warptap.persistence.dropped")["warptap.persistence.drop.reason=corrupted"]
}

#[test]
fn baselines_survive_a_restart() {
    run(async {
        let directory = tempfile::tempdir().expect("a directory");
        let first = one_run(directory.path(), fresh(100)).await;
        assert_eq!(outliers(&first), 0, "there is no baseline yet");
        let directory = tempfile::tempdir().expect("a directory");
        one_run(directory.path(), served(100)).await;
        let second = one_run(directory.path(), fresh(200)).await;
        assert_eq!((outliers(&second), damaged(&second)), (1, 0.0));
    });
}

#[test]
fn corrupted_record_is_logged_and_discarded() {
    run(async {
        let directory = tempfile::tempdir().expect("a directory");
        one_run(directory.path(), served(100)).await;
        corrupt(directory.path()).await;
        let second = one_run(directory.path(), fresh(200)).await;
        assert_eq!((outliers(&second), damaged(&second)), (0, 1.0));
        assert_eq!(second.logs("warptap.persistence.corrupted").len(), 1);
        let third = one_run(directory.path(), fresh(300)).await;
        assert_eq!(damaged(&third), 0.0, "it is counted once");
    });
}

/// Flips a bit of the stored record.
async fn corrupt(directory: &Path) {
    let stop = CancellationToken::new();
    let (host, storing) = host(directory, &stop).await;
    let namespace = Namespace { kind: "receiver", id: id("gpu"), name: "records".to_owned() };
    let client = host.storage(&id("file_storage")).expect("it runs").open(namespace).await.expect("it opens");
    let slot = || "record-0000".to_owned();
    let found = client.batch(vec![Operation::Get(slot())]).await.expect("it reads");
    let mut bytes = found.into_iter().next().flatten().expect("a record");
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    client.batch(vec![Operation::Set(slot(), bytes)]).await.expect("it writes");
    drop(client);
    stop.cancel();
    storing.await.expect("it ends");
}

#[test]
fn missing_storage_fails_the_start() {
    run(async {
        let source: Open = Box::new(|| Ok(Box::new(Given { events: Vec::new(), at: 0, batch: 1 })));
        let receiver = gpu::receiver_with_storage(
            Settings::default(),
            (Backpressure::DropOldest, source),
            id("gpu"),
            id("file_storage"),
        );
        let error = receiver.start(Vec::new(), &Host::detached(), CancellationToken::new()).await.err();
        let logged = error.expect("it does not start").to_string();
        assert!(logged.starts_with("extension \"file_storage\" does not run"), "{logged}");
    });
}

/// Returns the state that an analysis persists.
fn persisted_by(analyzer: &mut Analyzer, to_unix_ns: i64) -> RestoredState {
    let mut records = Vec::new();
    analyzer.changes(&mut |RecordChange { key, bytes }| {
        let bytes = bytes.expect("nothing has ended");
        records.push(StoredRecord { key, bytes, is_this_boot: true, to_unix_ns, written_unix_ns: 0 });
    });
    RestoredState { records, ..RestoredState::default() }
}

/// Returns four ranks, of which one is missing from the sixth collective, and the state persisted when the agent is
/// killed.
fn hanging(to_unix_ns: i64) -> (Job, RestoredState) {
    let mut job = Job::new(4, 100);
    job.rounds(5, |_| Some(0));
    job.round(|rank| (rank != 2).then_some(0));
    let mut analyzer = Analyzer::new(Settings::default());
    job_events(&job).iter().for_each(|event| analyzer.observe(event, &mut |_| {}));
    let state = persisted_by(&mut analyzer, to_unix_ns);
    let flights = state.records.iter().filter(|record| record.key.starts_with("nccl/")).cloned().collect();
    (job, RestoredState { records: flights, ..state })
}

/// Restores a state in a new analysis.
fn restored(state: &RestoredState, lives: &dyn Fn(ProcessId) -> bool) -> (Analyzer, Output) {
    let (mut analyzer, mut batches) = (Analyzer::new(Settings::default()), Vec::new());
    analyzer.restore(state, lives, &mut |batch| batches.push(batch));
    (analyzer, Output { batches })
}

#[test]
fn flight_records_of_ranks_that_ended_meanwhile_are_logged() {
    let (_, state) = hanging(UNIX as i64);
    assert_eq!(state.records.len(), 4);
    let (mut analyzer, output) = restored(&state, &|process| process.pid == 100);
    let logged = output.logs("nccl.flight_record");
    let pids: Vec<_> = logged.iter().map(|(resource, _)| pid_of(Some(resource))).collect();
    assert_eq!(pids, [Some(101), Some(102), Some(103)]);
    for (at, (_, log)) in logged.into_iter().enumerate() {
        let rank = at as u32 + 1;
        assert_eq!(number(&log.attributes, "nccl.rank"), f64::from(rank));
        let under_way = text(&log.attributes, "nccl.outstanding");
        assert_eq!(under_way.contains("#5 AllReduce of 1024 float32, sum"), rank != 2, "{under_way}");
        assert!(log.time_unix_nano > UNIX, "{log:?}");
    }
    let mut gone = Vec::new();
    analyzer.changes(&mut |change| gone.extend(change.bytes.is_none().then_some(change.key)));
    let keys = [101_u64, 102, 103].map(|pid| format!("nccl/{pid}-{}", pid * 1_000));
    assert_eq!(gone, keys);
}

#[test]
fn running_ranks_are_restored() {
    let (job, state) = hanging(UNIX as i64);
    let (mut analyzer, output) = restored(&state, &|_| true);
    assert_eq!(output.batches, [], "there is nothing to tell");
    let exit = Event::Exit {
        process: job.ranks[3].process,
        at_ns: job.now_ns + SECOND,
        status: ExitStatus::Unknown,
    };
    let infos = job.ranks.iter().map(|rank| rank.info()).collect();
    let mut batches = Vec::new();
    for event in events_until(infos, vec![job.ranks[3].all_reduce(job.now_ns, US), exit], job.now_ns) {
        analyzer.observe(&event, &mut |batch| batches.push(batch));
    }
    let output = Output { batches };
    let logged = output.logs("nccl.rank.ended");
    let [(_, log)] = logged.as_slice() else { panic!("{logged:#?}") };
    let hash = format!("{:#x}", nccl::hash::of_unique_id(&job.id));
    assert_eq!(number(&log.attributes, "nccl.rank"), 3.0);
    assert_eq!(text(&log.attributes, "nccl.communicator.hash"), hash);
    let mut gone = Vec::new();
    analyzer.changes(&mut |change| gone.extend(change.bytes.is_none().then_some(change.key)));
    assert_eq!(gone, ["nccl/103-103000"]);
}

/// A hanging rank is not observed again, because it makes no calls.
#[test]
fn flight_record_of_a_hanging_rank_is_logged() {
    let (_, state) = hanging(UNIX as i64);
    let (mut analyzer, _) = restored(&state, &|_| true);
    let mut batches = Vec::new();
    analyzer.report_ended(&|_| true, &mut |batch| batches.push(batch));
    assert_eq!(batches, []);
    (0..2).for_each(|_| analyzer.report_ended(&|p| p.pid != 103, &mut |batch| batches.push(batch)));
    let output = Output { batches };
    let logged = output.logs("nccl.flight_record");
    let [(resource, log)] = logged.as_slice() else { panic!("{logged:#?}") };
    assert_eq!((pid_of(Some(resource)), number(&log.attributes, "nccl.rank")), (Some(103), 3.0));
    assert!(text(&log.attributes, "nccl.outstanding").contains("#5 AllReduce"));
}

/// CLOCK_MONOTONIC restarted: a process of that pid and start time is another one, and the old times need the old
/// offset.
#[test]
fn records_of_an_earlier_boot_use_its_clock() {
    let before_unix_ns = 1_600_000_000 * SECOND;
    let (job, mut state) = hanging(before_unix_ns as i64);
    state.records.iter_mut().for_each(|record| record.is_this_boot = false);
    let (_, output) = restored(&state, &|_| true);
    let logged = output.logs("nccl.flight_record");
    assert_eq!(logged.len(), 4);
    for (_, log) in logged {
        let at_ns = log.time_unix_nano - before_unix_ns;
        assert!((job.now_ns..=job.now_ns + SECOND).contains(&at_ns), "{at_ns}");
    }
}
