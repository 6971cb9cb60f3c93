//! PersistedRecords in a real file, across runs, crashes and corruption.

use std::path::Path;
use std::process::Command;
use std::sync::Mutex;
use std::time::Duration;

use component::BoxFuture;
use component::storage::{Operation, StorageClient, StorageError};
use std::sync::Arc;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::*;

/// Environment variable with the path to which the writer process writes until it is killed.
const WRITER: &str = "WARPTAP_TEST_PERSIST_WRITER";

/// Returns a clock that advances with every call.
fn offsets() -> ClockOffsets {
    static NOW_NS: AtomicU64 = AtomicU64::new(1);
    ClockOffsets { at_ns: NOW_NS.fetch_add(1, Ordering::Relaxed), ..ClockOffsets::default() }
}

fn set(key: &str, bytes: &[u8]) -> RecordChange {
    RecordChange { key: key.to_owned(), bytes: Some(bytes.to_vec()) }
}

fn deleted(key: &str) -> RecordChange {
    RecordChange { key: key.to_owned(), bytes: None }
}

fn run<F: Future>(test: F) -> F::Output {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
    runtime.expect("a runtime").block_on(test)
}

async fn file(path: &Path) -> Arc<dyn StorageClient> {
    Arc::new(storage::Store::open(path.to_owned(), storage::Settings::default()).await.unwrap())
}

/// Runs a store once: returns the restored state after writing the batches.
async fn one_run(
    client: Arc<dyn StorageClient>,
    batches: Vec<Vec<RecordChange>>,
) -> (RestoredState, PersistDrops) {
    let drops = Arc::<DropCounters>::default();
    let (store, restored) = Store::open(client, offsets, Arc::clone(&drops)).await.unwrap();
    let (sender, receiver) = mpsc::channel(1);
    let work = tokio::spawn(store.run(receiver, CancellationToken::new()));
    for batch in batches {
        sender.send(batch).await.unwrap();
    }
    drop(sender);
    work.await.unwrap();
    (restored, drops.snapshot())
}

fn found(restored: &RestoredState) -> Vec<(&str, &[u8])> {
    let mut found: Vec<_> =
        restored.records.iter().map(|record| (record.key.as_str(), record.bytes.as_slice())).collect();
    found.sort_unstable();
    found
}

#[test]
fn next_run_restores_the_latest_value_of_every_key() {
    run(async {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x");
        let first =
            vec![vec![set("a/1", b"old"), set("b/2", b"two"), set("c/3", b"")], vec![set("a/1", b"new")]];
        let (restored, _) = one_run(file(&path).await, first).await;
        assert_eq!((found(&restored), restored.corrupted), (vec![], 0));
        let (restored, _) =
            one_run(file(&path).await, vec![vec![deleted("b/2"), deleted("never"), set("d/4", b"four")]])
                .await;
        assert_eq!(found(&restored), [("a/1", &b"new"[..]), ("b/2", b"two"), ("c/3", b"")]);
        assert!(restored.records.iter().all(|record| record.is_this_boot));
        let (restored, lost) = one_run(file(&path).await, vec![]).await;
        assert_eq!(found(&restored), [("a/1", &b"new"[..]), ("c/3", b""), ("d/4", b"four")]);
        assert_eq!(lost, PersistDrops::default());
    });
}

#[test]
fn oldest_record_is_evicted_when_all_slots_are_used() {
    run(async {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x");
        one_run(file(&path).await, vec![vec![set("old/1", b"x"), set("old/2", b"x")]]).await;
        let many = (0..RECORDS_MAX - 2).map(|n| set(&format!("k/{n:05}"), b"x")).collect();
        let full = vec![many, vec![deleted("k/00007")], vec![set("new/1", b"y")]];
        let (_, lost) = one_run(file(&path).await, full).await;
        assert_eq!(lost, PersistDrops::default());
        let (restored, lost) =
            one_run(file(&path).await, vec![vec![set("old/1", b"z")], vec![set("new/2", b"y")]]).await;
        assert_eq!(
            (restored.records.len(), lost),
            (RECORDS_MAX, PersistDrops::default().with(Reason::Full, 1))
        );
        assert_eq!((restored.records[0].key.as_str(), restored.records[1].key.as_str()), ("old/1", "old/2"));
        let (restored, _) = one_run(file(&path).await, vec![]).await;
        let keys: Vec<&str> = restored.records.iter().map(|record| record.key.as_str()).collect();
        assert!(!keys.contains(&"old/2") && keys.ends_with(&["new/1", "old/1", "new/2"]), "{keys:?}");
    });
}

#[test]
fn corrupted_record_is_counted_once_and_others_are_restored() {
    run(async {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x");
        one_run(file(&path).await, vec![vec![set("a/1", b"one"), set("b/2", b"two")]]).await;
        let garbage = vec![Operation::Set("record-0000".to_owned(), b"garbage".to_vec())];
        file(&path).await.batch(garbage).await.unwrap();
        let (restored, _) = one_run(file(&path).await, vec![vec![set("c/3", b"three")]]).await;
        assert_eq!((found(&restored), restored.corrupted), (vec![("b/2", &b"two"[..])], 1));
        let (restored, _) = one_run(file(&path).await, vec![]).await;
        assert_eq!(
            (found(&restored), restored.corrupted),
            (vec![("b/2", &b"two"[..]), ("c/3", b"three")], 0)
        );
    });
}

#[test]
fn corrupted_storage_file_is_replaced() {
    run(async {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x");
        std::fs::write(&path, vec![0x5a; 20_000]).unwrap();
        let (restored, _) = one_run(file(&path).await, vec![vec![set("a/1", b"one")]]).await;
        assert_eq!(found(&restored), []);
        let (restored, _) = one_run(file(&path).await, vec![]).await;
        assert_eq!(found(&restored), [("a/1", &b"one"[..])]);
    });
}

/// A storage whose first writes fail.
struct FailingStorage {
    failures: Mutex<u32>,
    real: Arc<dyn StorageClient>,
}

impl StorageClient for FailingStorage {
    fn batch(&self, steps: Vec<Operation>) -> BoxFuture<'_, Result<Vec<Option<Vec<u8>>>, StorageError>> {
        let is_write = steps.iter().any(|step| !matches!(step, Operation::Get(_)));
        let mut failures = self.failures.lock().unwrap();
        if is_write && *failures > 0 {
            *failures -= 1;
            return Box::pin(ready(Err(StorageError::Full("full".to_owned()))));
        }
        self.real.batch(steps)
    }
}

#[test]
fn failed_write_is_retried_until_it_succeeds() {
    run(async {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x");
        let failing = FailingStorage { failures: Mutex::new(7), real: file(&path).await };
        let batches = vec![vec![set("a/1", b"one")], vec![set("a/1", b"two"), deleted("b/2")]];
        let (_, lost) = one_run(Arc::new(failing), batches).await;
        assert_eq!(lost, PersistDrops::default());
        let (restored, _) = one_run(file(&path).await, vec![]).await;
        assert_eq!(found(&restored), [("a/1", &b"two"[..])]);
    });
}

#[test]
fn unwritten_records_are_counted_at_shutdown() {
    run(async {
        let folder = tempfile::tempdir().unwrap();
        let real = file(&folder.path().join("x")).await;
        let drops = Arc::<DropCounters>::default();
        let failing = Arc::new(FailingStorage { failures: Mutex::new(u32::MAX), real });
        let (store, _) = Store::open(failing, offsets, Arc::clone(&drops)).await.unwrap();
        let (sender, receiver) = mpsc::channel(1);
        let stop = CancellationToken::new();
        let work = tokio::spawn(store.run(receiver, stop.clone()));
        sender.send(vec![set("a/1", b"one"), set("b/2", b"two")]).await.unwrap();
        stop.cancel();
        drop(sender);
        work.await.unwrap();
        assert_eq!(drops.snapshot(), PersistDrops::default().with(Reason::NotWritten, 2));
    });
}

/// Not a test: the process that [`records_written_before_a_kill_are_restored_whole`] kills.
#[test]
fn writer_process() {
    let Some(path) = std::env::var_os(WRITER) else { return };
    run(async {
        let (store, _) = Store::open(file(Path::new(&path)).await, offsets, Arc::default()).await.unwrap();
        let (sender, receiver) = mpsc::channel(1);
        tokio::spawn(store.run(receiver, CancellationToken::new()));
        for turn in 0_u32.. {
            let value: Vec<u8> = turn.to_le_bytes().repeat(500);
            sender.send((0..20).map(|n| set(&format!("k/{n}"), &value)).collect()).await.unwrap();
        }
    });
}

/// A batch is atomic: after a kill at any time all keys are present, of one turn, each whole.
#[test]
fn records_written_before_a_kill_are_restored_whole() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x");
    let mut last = 0;
    for round in 0..5 {
        let mut writer = Command::new(std::env::current_exe().unwrap())
            .args(["tests::writer_process", "--exact", "--quiet"])
            .stdout(std::process::Stdio::null())
            .env(WRITER, &path)
            .spawn()
            .unwrap();
        let before = modified(&path);
        while modified(&path) == before {
            std::thread::yield_now();
        }
        (0..round * 20_000).for_each(|_| std::thread::yield_now());
        writer.kill().unwrap();
        writer.wait().unwrap();
        let (restored, _) = run(async { one_run(file(&path).await, vec![]).await });
        assert_eq!(restored.corrupted, 0);
        let turns: Vec<&[u8]> = restored.records.iter().map(|record| record.bytes.as_slice()).collect();
        assert!(turns.is_empty() || turns.len() == 20, "{} records", turns.len());
        let words = turns.iter().flat_map(|bytes| bytes.as_chunks::<4>().0);
        let turns: std::collections::BTreeSet<u32> = words.map(|word| u32::from_le_bytes(*word)).collect();
        assert!(turns.len() <= 1, "of several turns: {turns:?}");
        last = last.max(restored.records.len());
    }
    assert_eq!(last, 20, "no writer got as far as a batch");
}

fn modified(path: &Path) -> Option<(Duration, u64)> {
    use std::os::unix::fs::MetadataExt as _;
    let of = path.metadata().ok()?;
    Some((Duration::new(of.mtime() as u64, of.mtime_nsec() as u32), of.size()))
}
