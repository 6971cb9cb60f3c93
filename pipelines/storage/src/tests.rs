//! The guarantees of a store, against a model and with faulty disks and files.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use component::storage::{Namespace, Operation, StorageClient as _, StorageError};
use component::testing::{Metrics, check_problem};
use component::{ComponentId, Host};
use proptest::prelude::*;
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;

use super::*;
use crate::compaction::Rebound;

fn get(key: &str) -> Operation {
    Operation::Get(key.to_owned())
}

fn set(key: &str, value: &[u8]) -> Operation {
    Operation::Set(key.to_owned(), value.to_vec())
}

fn delete(key: &str) -> Operation {
    Operation::Delete(key.to_owned())
}

fn folder() -> TempDir {
    tempfile::tempdir().unwrap()
}

async fn open(path: &Path) -> Store {
    open_with(path, Settings::default()).await
}

async fn open_with(path: &Path, settings: Settings) -> Store {
    Store::open(path.to_owned(), settings).await.unwrap()
}

/// Closes a store and waits until its file is closed.
async fn closed(store: Store, path: &Path) {
    drop(store);
    let (_, closer) = Store::open_with_closer(path.to_owned(), Settings::default()).await.unwrap();
    closer.close().await;
}

async fn do_all(store: &Store, steps: &[Operation]) -> Result<Vec<Option<Vec<u8>>>, StorageError> {
    store.batch(steps.to_vec()).await
}

#[tokio::test]
async fn acknowledged_writes_survive_reopening() {
    let (folder, big) = (folder(), vec![7; 300_000]);
    let path = folder.path().join("x");
    let store = open(&path).await;
    do_all(&store, &[set("a", b"1"), set("big", &big), set("gone", b"2"), set("empty", b"")]).await.unwrap();
    do_all(&store, &[delete("gone"), delete("never was")]).await.unwrap();
    drop(store);
    let store = open(&path).await;
    let read = do_all(&store, &[get("a"), get("big"), get("gone"), get("empty")]).await.unwrap();
    assert_eq!(read, [Some(b"1".to_vec()), Some(big), None, Some(Vec::new())]);
    assert_eq!(store.counts().set_aside, 0);
}

#[tokio::test]
async fn a_batch_reads_what_it_wrote_before() {
    let folder = folder();
    let store = open(&folder.path().join("x")).await;
    let read = do_all(&store, &[set("a", b"1"), get("a"), delete("a"), get("a")]).await.unwrap();
    assert_eq!(read, [None, Some(b"1".to_vec()), None, None]);
}

#[tokio::test]
async fn waiting_writers_are_committed_together() {
    let folder = folder();
    let settings = Settings { fsync: true, ..Settings::default() };
    let store = std::sync::Arc::new(open_with(&folder.path().join("x"), settings).await);
    let mut writers = tokio::task::JoinSet::new();
    for n in 0..100 {
        let store = store.clone();
        writers.spawn(async move { do_all(&store, &[set(&n.to_string(), b"v")]).await.unwrap() });
    }
    writers.join_all().await;
    let counts = store.counts();
    assert_eq!(counts.batches, 100);
    assert!(counts.commits < 50, "{counts:?}");
}

#[tokio::test]
async fn writes_above_the_configured_size_are_refused() {
    let folder = folder();
    let settings = Settings { bytes_max: 100_000, ..Settings::default() };
    let store = open_with(&folder.path().join("x"), settings).await;
    do_all(&store, &[set("a", &[1; 60_000])]).await.unwrap();
    let refused = do_all(&store, &[set("b", &[1; 60_000])]).await.unwrap_err();
    assert!(
        matches!(&refused, StorageError::Full(why) if why.contains("of at most 100000 bytes")),
        "{refused}"
    );
    assert_eq!(do_all(&store, &[get("b")]).await.unwrap(), [None], "nothing of it was written");
    do_all(&store, &[delete("a")]).await.unwrap();
    do_all(&store, &[set("b", &[1; 60_000])]).await.unwrap();
    assert_eq!(store.counts().refused_full, 1);
}

#[tokio::test]
async fn a_batch_without_space_does_not_block_others() {
    let folder = folder();
    let settings = Settings { bytes_max: 1000, ..Settings::default() };
    let store = open_with(&folder.path().join("x"), settings).await;
    let (large, small) = ([set("large", &[0; 2000])], [set("small", &[0; 10])]);
    let (large, small) = tokio::join!(do_all(&store, &large), do_all(&store, &small));
    assert!(large.is_err() && small.is_ok());
}

#[tokio::test]
async fn a_file_locked_by_another_process_is_an_error() {
    let folder = folder();
    let path = folder.path().join("x");
    let _store = open(&path).await;
    let settings = Settings { timeout: Duration::from_millis(20), ..Settings::default() };
    let refused = Store::open(path, settings).await.unwrap_err().to_string();
    assert!(refused.contains("in use by another process"), "{refused}");
}

#[tokio::test]
async fn a_drained_file_is_compacted_on_rebound() {
    let folder = folder();
    let path = folder.path().join("x");
    let every = Duration::from_millis(1);
    let rule = Rebound { needed_bytes: 4 << 20, trigger_bytes: 1 << 20, every };
    let store = open_with(&path, Settings { rebound: Some(rule), ..Settings::default() }).await;
    let keys: Vec<String> = (0..100).map(|n| n.to_string()).collect();
    for key in &keys {
        do_all(&store, &[set(key, &[1; 100_000])]).await.unwrap();
    }
    let large = store.counts().file_bytes;
    assert!(large > 10_000_000 && store.counts().compactions == 0, "{:?}", store.counts());
    for key in &keys {
        do_all(&store, &[delete(key)]).await.unwrap();
    }
    while store.counts().compactions == 0 {
        do_all(&store, &[set("a", b"1")]).await.unwrap();
    }
    do_all(&store, &[set("a", b"2")]).await.unwrap();
    let counts = store.counts();
    assert!(counts.file_bytes < large / 4, "{large} {counts:?}");
    assert_eq!(do_all(&store, &[get("a")]).await.unwrap(), [Some(b"2".to_vec())]);
}

/// Returns files that redb did not write, or that were modified.
fn foreign(path: &Path, valid: &[u8]) -> Vec<(&'static str, Vec<u8>)> {
    let other = path.with_extension("other");
    let table: redb::TableDefinition<'_, &str, u64> = redb::TableDefinition::new("theirs");
    let redb = redb::Database::create(&other).unwrap();
    let begun = redb.begin_write().unwrap();
    begun.open_table(table).unwrap().insert("a", 1).unwrap();
    begun.commit().unwrap();
    drop(redb);
    let mut torn = valid.to_vec();
    torn[4096..].fill(0xa5);
    vec![
        ("a text", b"exporters:\n  otlp:\n".repeat(1000)),
        ("zeros", vec![0; 8192]),
        ("one byte", vec![1]),
        ("cut off", valid[..valid.len() / 2].to_vec()),
        ("torn", torn),
        ("another program's", std::fs::read(other).unwrap()),
    ]
}

#[tokio::test]
async fn a_foreign_or_broken_file_is_renamed_at_start() {
    let folder = folder();
    let path = folder.path().join("x");
    let store = open(&path).await;
    do_all(&store, &[set("a", &[1; 50_000])]).await.unwrap();
    closed(store, &path).await;
    let valid = std::fs::read(&path).unwrap();
    for (n, (what, bytes)) in foreign(&path, &valid).into_iter().enumerate() {
        std::fs::write(&path, &bytes).unwrap();
        let store = open(&path).await;
        assert_eq!(store.counts().set_aside, 1, "{what}");
        assert_eq!(do_all(&store, &[set("b", b"1"), get("a")]).await.unwrap(), [None, None], "{what}");
        let aside = folder.path().join(format!("x.corrupt-{}", n + 1));
        assert!(std::fs::read(aside).unwrap().starts_with(&bytes[..bytes.len().min(1)]), "{what}");
        closed(store, &path).await;
    }
    std::fs::remove_file(&path).unwrap();
    std::fs::create_dir(&path).unwrap();
    assert_eq!(open(&path).await.counts().set_aside, 1, "a directory");
}

/// With any byte changed, the file opens, and reads return the written value or none.
#[tokio::test]
async fn a_changed_byte_never_gives_a_wrong_value() {
    let folder = folder();
    let path = folder.path().join("x");
    let value: Vec<u8> = (0..100_000u32).map(|n| n as u8).collect();
    let store = open(&path).await;
    do_all(&store, &[set("a", &value), set("b", b"b")]).await.unwrap();
    closed(store, &path).await;
    let valid = std::fs::read(&path).unwrap();
    let mut set_aside = 0;
    for n in 0..60 {
        let place = (n * 7919 * 31) % valid.len();
        let mut changed = valid.clone();
        changed[place] ^= 0x55;
        let path = folder.path().join(format!("changed-{n}"));
        std::fs::write(&path, changed).unwrap();
        let store = open(&path).await;
        let read = do_all(&store, &[get("a"), get("b")]).await.unwrap();
        assert!(read[0].as_ref().is_none_or(|a| *a == value), "byte {place}");
        assert!(read[1].as_ref().is_none_or(|b| b == b"b"), "byte {place}");
        do_all(&store, &[set("c", b"c")]).await.unwrap();
        set_aside += store.counts().set_aside;
    }
    assert!(set_aside > 0, "some of them were noticed");
}

/// A separate file system, if the system allows it, unmounted on drop.
struct SmallDisk(TempDir);

impl SmallDisk {
    fn of(mib: usize) -> Result<Self, String> {
        let folder = folder();
        let size = format!("size={mib}m");
        let mount =
            Command::new("mount").args(["-t", "tmpfs", "-o", &size, "none"]).arg(folder.path()).output();
        match mount {
            Ok(output) if output.status.success() => Ok(SmallDisk(folder)),
            Ok(output) => Err(String::from_utf8_lossy(&output.stderr).into_owned()),
            Err(e) => Err(e.to_string()),
        }
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(self.0.path()).output();
    }
}

#[tokio::test]
async fn a_full_disk_refuses_writes_until_it_has_space() {
    let disk = match SmallDisk::of(16) {
        Ok(disk) => disk,
        Err(why) => return eprintln!("skipped: no small disk can be mounted: {why}"),
    };
    let store = open(&disk.0.path().join("x")).await;
    let mut held = 0;
    let refused = loop {
        match do_all(&store, &[set(&held.to_string(), &[3; 100_000])]).await {
            Ok(_) => held += 1,
            Err(refused) => break refused,
        }
    };
    assert!(matches!(refused, StorageError::Full(_)), "{refused}");
    assert!(held > 50, "{held} of 100 kB are held on a disk of 16 MiB");
    // Another file takes the rest, to the last byte.
    let rest = disk.0.path().join("rest");
    let _ = std::fs::write(&rest, vec![0; 16 << 20]);
    let refused = do_all(&store, &[set("more", &[3; 100_000])]).await.unwrap_err();
    assert!(matches!(refused, StorageError::Full(_)), "{refused}");
    for n in 0..held {
        let read = do_all(&store, &[get(&n.to_string())]).await.unwrap();
        assert_eq!(read, [Some(vec![3; 100_000])], "what was acknowledged is there");
    }
    std::fs::remove_file(&rest).unwrap();
    for n in 0..held / 2 {
        do_all(&store, &[delete(&n.to_string())]).await.unwrap();
    }
    for n in 0..held / 4 {
        do_all(&store, &[set(&n.to_string(), &[4; 100_000])]).await.unwrap();
    }
    assert_eq!(store.counts().set_aside, 0);
}

/// Returns operations on a few keys, so that they collide.
fn steps() -> impl Strategy<Value = Vec<Operation>> {
    let key = (0..6u8).prop_map(|n| n.to_string());
    let size = prop_oneof![0..100usize, 3000..5000usize, 60_000..140_000usize];
    let step = prop_oneof![
        key.clone().prop_map(Operation::Get),
        key.clone().prop_map(Operation::Delete),
        (key, size, any::<u8>()).prop_map(|(key, size, fill)| Operation::Set(key, vec![fill; size])),
    ];
    proptest::collection::vec(step, 1..5)
}

fn model(map: &mut BTreeMap<String, Vec<u8>>, steps: &[Operation]) -> Vec<Option<Vec<u8>>> {
    let mut one = |step: &Operation| match step {
        Operation::Get(key) => map.get(key).cloned(),
        Operation::Set(key, value) => map.insert(key.clone(), value.clone()).and(None),
        Operation::Delete(key) => map.remove(key).and(None),
    };
    steps.iter().map(&mut one).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn a_store_is_a_map(batches in proptest::collection::vec((steps(), proptest::bool::weighted(0.1)), 1..20)) {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).build().unwrap();
        runtime.block_on(async {
            let folder = folder();
            let path = folder.path().join("x");
            let (mut store, mut map) = (open(&path).await, BTreeMap::new());
            for (batch, reopens) in batches {
                assert_eq!(do_all(&store, &batch).await.unwrap(), model(&mut map, &batch));
                if reopens {
                    drop(store);
                    store = open(&path).await;
                }
            }
            let held: u64 = map.values().map(|value| value.len() as u64).sum();
            assert!(store.counts().stored_bytes >= held, "{:?} {held}", store.counts());
            assert!(store.counts().stored_bytes <= held + 6 * 64, "{:?} {held}", store.counts());
        });
    }
}

fn build(json: &str) -> Box<dyn component::Extension> {
    component::testing::build(&FACTORY, json).unwrap()
}

#[test]
fn inconsistent_settings_are_refused() {
    for (json, want) in [
        (r#"{"directory": "/", "recreate": true, "compaction": {"directory": "/y"}}"#, ""),
        (r#"{"directory": "/nonexistent", "create_directory": true}"#, ""),
        (r#"{"directory": "/nonexistent"}"#, "You can enable the create_directory option"),
        (r#"{"directory": "/dev/null"}"#, "/dev/null is not a directory"),
        (r#"{"directory": ""}"#, "directory must not be empty"),
        (r#"{"directory": "/", "max_size_mib": -1}"#, "max_size_mib: -1 is out of range: expected 0 or more"),
        (
            r#"{"directory": "/", "compaction": {"max_transaction_size": -1}}"#,
            "max_transaction_size: -1 is out of range: expected 0 or more",
        ),
        (
            r#"{"directory": "/", "compaction": {"on_rebound": true, "check_interval": 0}}"#,
            "interval must be positive",
        ),
        (r#"{"create_directory": true, "directory_permissions": "0999"}"#, "valid octal representation"),
        (r#"{"create_directory": true, "directory_permissions": "7777"}"#, "invalid bits"),
        (r#"{"directory": "/", "directori": "/x"}"#, "invalid keys: directori"),
    ] {
        check_problem(&FACTORY, json, want);
    }
}

#[tokio::test]
async fn the_extension_closes_its_files_on_stop() {
    let folder = folder();
    let directory: PathBuf = folder.path().join("made/for/it");
    let stop = CancellationToken::new();
    let created = format!(r#"{{"directory": {directory:?}, "create_directory": true, "fsync": true}}"#);
    let (offer, running) = build(&created).start(&Host::detached(), stop.clone()).await.unwrap();
    let storage = offer.storage.unwrap();
    let namespace = |name: &str| Namespace {
        kind: "exporter",
        id: ComponentId::parse("otlp").unwrap(),
        name: name.to_owned(),
    };
    let (logs, traces) =
        (storage.open(namespace("logs")).await.unwrap(), storage.open(namespace("traces")).await.unwrap());
    logs.batch(vec![set("a", b"logs")]).await.unwrap();
    assert_eq!(traces.batch(vec![get("a")]).await.unwrap(), [None], "no two share their state");
    stop.cancel();
    running.await;
    assert_eq!(logs.batch(vec![get("a")]).await, Err(StorageError::Closed));
    let again = open(&directory.join("exporter_otlp__logs")).await;
    assert_eq!(do_all(&again, &[get("a")]).await.unwrap(), [Some(b"logs".to_vec())]);
}

#[tokio::test]
async fn a_files_metrics_are_exported() {
    let metrics = Metrics::default();
    let folder = folder();
    let name = "exporter_otlp__logs";
    std::fs::write(folder.path().join(name), b"garbage").unwrap();
    let json = format!(r#"{{"directory": {:?}}}"#, folder.path());
    let stop = CancellationToken::new();
    let (offer, _running) = build(&json).start(&metrics.host(), stop).await.unwrap();
    let id = ComponentId::parse("otlp").unwrap();
    let namespace = Namespace { kind: "exporter", id, name: "logs".to_owned() };
    let client = offer.storage.unwrap().open(namespace).await.unwrap();
    client.batch(vec![set("a", b"1")]).await.unwrap();
    assert_eq!(metrics.sum("otelcol_file_storage_set_aside_files"), 1);
    assert_eq!(metrics.sum("otelcol_file_storage_batches"), 1);
}
