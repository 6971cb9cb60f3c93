//! Records in a real file, across runs, crashes and damage.

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

/// Where a process is to write records until it is killed, in its environment.
const WRITER: &str = "WARPTAP_TEST_KEEP_WRITER";

fn set(key: &str, bytes: &[u8]) -> Change {
    Change { key: key.to_owned(), bytes: Some(bytes.to_vec()) }
}

fn gone(key: &str) -> Change {
    Change { key: key.to_owned(), bytes: None }
}

fn run<F: Future>(test: F) -> F::Output {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
    runtime.expect("a runtime").block_on(test)
}

async fn file(path: &Path) -> Arc<dyn StorageClient> {
    Arc::new(storage::Store::open(path.to_owned(), storage::Settings::default()).await.unwrap())
}

/// One run: what it found, then what it writes.
async fn one_run(client: Arc<dyn StorageClient>, batches: Vec<Vec<Change>>) -> (Left, Unkept) {
    let losses = Arc::<Losses>::default();
    let (store, left) = Store::open(client, Arc::clone(&losses)).await.unwrap();
    let (sender, receiver) = mpsc::channel(1);
    let work = tokio::spawn(store.run(receiver, CancellationToken::new()));
    for batch in batches {
        sender.send(batch).await.unwrap();
    }
    drop(sender);
    work.await.unwrap();
    (left, losses.unkept())
}

fn found(left: &Left) -> Vec<(&str, &[u8])> {
    let mut found: Vec<_> =
        left.records.iter().map(|kept| (kept.key.as_str(), kept.bytes.as_slice())).collect();
    found.sort_unstable();
    found
}

#[test]
fn the_next_run_finds_the_latest_value_of_every_key_and_nothing_that_is_gone() {
    run(async {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x");
        let first =
            vec![vec![set("a/1", b"old"), set("b/2", b"two"), set("c/3", b"")], vec![set("a/1", b"new")]];
        let (left, _) = one_run(file(&path).await, first).await;
        assert_eq!((found(&left), left.damaged), (vec![], 0));
        let (left, _) =
            one_run(file(&path).await, vec![vec![gone("b/2"), gone("never"), set("d/4", b"four")]]).await;
        assert_eq!(found(&left), [("a/1", &b"new"[..]), ("b/2", b"two"), ("c/3", b"")]);
        assert!(left.records.iter().all(|kept| kept.is_this_boot));
        let (left, lost) = one_run(file(&path).await, vec![]).await;
        assert_eq!(found(&left), [("a/1", &b"new"[..]), ("c/3", b""), ("d/4", b"four")]);
        assert_eq!(lost, Unkept::default());
    });
}

#[test]
fn when_all_slots_are_taken_the_record_written_longest_ago_makes_room() {
    run(async {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x");
        one_run(file(&path).await, vec![vec![set("old/1", b"x"), set("old/2", b"x")]]).await;
        let many = (0..RECORDS_MAX - 2).map(|n| set(&format!("k/{n:05}"), b"x")).collect();
        let full = vec![many, vec![gone("k/00007")], vec![set("new/1", b"y")]];
        let (_, lost) = one_run(file(&path).await, full).await;
        assert_eq!(lost, Unkept::default());
        let (left, lost) =
            one_run(file(&path).await, vec![vec![set("old/1", b"z")], vec![set("new/2", b"y")]]).await;
        assert_eq!(
            (left.records.len(), lost),
            (RECORDS_MAX, Unkept::default().with(WarptapPersistenceDropReason::Full, 1))
        );
        assert_eq!((left.records[0].key.as_str(), left.records[1].key.as_str()), ("old/1", "old/2"));
        let (left, _) = one_run(file(&path).await, vec![]).await;
        let keys: Vec<&str> = left.records.iter().map(|kept| kept.key.as_str()).collect();
        assert!(!keys.contains(&"old/2") && keys.ends_with(&["new/1", "old/1", "new/2"]), "{keys:?}");
    });
}

#[test]
fn a_damaged_record_is_counted_once_and_the_others_are_read() {
    run(async {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x");
        one_run(file(&path).await, vec![vec![set("a/1", b"one"), set("b/2", b"two")]]).await;
        let spoilt = vec![Operation::Set("record-0000".to_owned(), b"garbage".to_vec())];
        file(&path).await.batch(spoilt).await.unwrap();
        let (left, _) = one_run(file(&path).await, vec![vec![set("c/3", b"three")]]).await;
        assert_eq!((found(&left), left.damaged), (vec![("b/2", &b"two"[..])], 1));
        let (left, _) = one_run(file(&path).await, vec![]).await;
        assert_eq!((found(&left), left.damaged), (vec![("b/2", &b"two"[..]), ("c/3", b"three")], 0));
    });
}

#[test]
fn a_file_that_is_no_storage_any_more_is_begun_anew() {
    run(async {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x");
        std::fs::write(&path, vec![0x5a; 20_000]).unwrap();
        let (left, _) = one_run(file(&path).await, vec![vec![set("a/1", b"one")]]).await;
        assert_eq!(found(&left), []);
        let (left, _) = one_run(file(&path).await, vec![]).await;
        assert_eq!(found(&left), [("a/1", &b"one"[..])]);
    });
}

/// Fails so often, then is a storage.
struct Moody {
    failures: Mutex<u32>,
    real: Arc<dyn StorageClient>,
}

impl StorageClient for Moody {
    fn batch(&self, steps: Vec<Operation>) -> BoxFuture<'_, Result<Vec<Option<Vec<u8>>>, StorageError>> {
        let is_write = steps.iter().any(|step| !matches!(step, Operation::Get(_)));
        let mut failures = self.failures.lock().unwrap();
        if is_write && *failures > 0 {
            *failures -= 1;
            return Box::pin(std::future::ready(Err(StorageError::Full("no room".to_owned()))));
        }
        self.real.batch(steps)
    }
}

#[test]
fn a_storage_that_fails_is_asked_until_it_takes_the_batch() {
    run(async {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x");
        let moody = Moody { failures: Mutex::new(7), real: file(&path).await };
        let batches = vec![vec![set("a/1", b"one")], vec![set("a/1", b"two"), gone("b/2")]];
        let (_, lost) = one_run(Arc::new(moody), batches).await;
        assert_eq!(lost, Unkept::default());
        let (left, _) = one_run(file(&path).await, vec![]).await;
        assert_eq!(found(&left), [("a/1", &b"two"[..])]);
    });
}

#[test]
fn what_a_storage_had_not_taken_at_the_stop_is_counted() {
    run(async {
        let folder = tempfile::tempdir().unwrap();
        let real = file(&folder.path().join("x")).await;
        let losses = Arc::<Losses>::default();
        let moody = Arc::new(Moody { failures: Mutex::new(u32::MAX), real });
        let (store, _) = Store::open(moody, Arc::clone(&losses)).await.unwrap();
        let (sender, receiver) = mpsc::channel(1);
        let stop = CancellationToken::new();
        let work = tokio::spawn(store.run(receiver, stop.clone()));
        sender.send(vec![set("a/1", b"one"), set("b/2", b"two")]).await.unwrap();
        stop.cancel();
        drop(sender);
        work.await.unwrap();
        assert_eq!(losses.unkept(), Unkept::default().with(WarptapPersistenceDropReason::NotWritten, 2));
    });
}

/// Not a test: the process that [`records_written_before_a_kill_are_found_whole`] kills.
#[test]
fn writer_process() {
    let Some(path) = std::env::var_os(WRITER) else { return };
    run(async {
        let (store, _) = Store::open(file(Path::new(&path)).await, Arc::default()).await.unwrap();
        let (sender, receiver) = mpsc::channel(1);
        tokio::spawn(store.run(receiver, CancellationToken::new()));
        for turn in 0_u32.. {
            let value: Vec<u8> = turn.to_le_bytes().repeat(500);
            sender.send((0..20).map(|n| set(&format!("k/{n}"), &value)).collect()).await.unwrap();
        }
    });
}

/// A batch is all or nothing: after a kill at any moment all keys are there, of one turn, each whole.
#[test]
fn records_written_before_a_kill_are_found_whole() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x");
    let mut last = 0;
    for round in 0..5 {
        let mut writer = Command::new(std::env::current_exe().unwrap())
            .args(["keep::tests::writer_process", "--exact", "--quiet"])
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
        let (left, _) = run(async { one_run(file(&path).await, vec![]).await });
        assert_eq!(left.damaged, 0);
        let turns: Vec<&[u8]> = left.records.iter().map(|kept| kept.bytes.as_slice()).collect();
        assert!(turns.is_empty() || turns.len() == 20, "{} records", turns.len());
        let words = turns.iter().flat_map(|bytes| bytes.as_chunks::<4>().0);
        let turns: std::collections::BTreeSet<u32> = words.map(|word| u32::from_le_bytes(*word)).collect();
        assert!(turns.len() <= 1, "of several turns: {turns:?}");
        last = last.max(left.records.len());
    }
    assert_eq!(last, 20, "no writer got as far as a batch");
}

fn modified(path: &Path) -> Option<(Duration, u64)> {
    use std::os::unix::fs::MetadataExt as _;
    let of = path.metadata().ok()?;
    Some((Duration::new(of.mtime() as u64, of.mtime_nsec() as u32), of.size()))
}
