//! Memory and series stay bounded while processes and communicators start and end continuously.

#![allow(clippy::unwrap_used, reason = "a panic in a test is its report")]

mod common;

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use common::job::{Rank, UniqueId};
use common::*;
use event::{CallRecord, ClockOffsets, Event, ExitStatus};
use gpu::{Analyzer, Settings};
use probe_abi::record::Header;

/// Far above the SDK's limit of 2,000 attribute sets per instrument.
const MANY: u32 = 20_000;

/// An analysis, and the points of its last collection.
struct Node {
    analyzer: Analyzer,
    /// The latest points of each ended process by pid.
    counts: BTreeMap<u32, BTreeMap<String, f64>>,
    account: Output,
    /// Sum of the overflow series of all collections.
    overflowing: f64,
}

impl Node {
    fn new() -> Node {
        let mut node = Node {
            analyzer: Analyzer::new(Settings::default()),
            counts: BTreeMap::new(),
            account: Output::default(),
            overflowing: 0.0,
        };
        node.give(&Event::Clock(ClockOffsets { at_ns: SECOND, to_unix_ns: UNIX as i64, to_boottime_ns: 0 }));
        node
    }

    fn give(&mut self, event: &Event) {
        let mut batches = Vec::new();
        self.analyzer.observe(event, &mut |batch| batches.push(batch));
        self.record(batches);
    }

    fn record(&mut self, batches: Vec<gpu::Batch>) {
        let output = Output { batches };
        for collected in output.collections() {
            match pid_of(collected.resource.as_ref()) {
                Some(pid) => {
                    self.counts.insert(pid, values(collected, "nccl.collective.count"));
                }
                None => self.overflowing += values(collected, "warptap.series.overflow")[""],
            }
        }
        if output.collections().iter().any(|c| pid_of(c.resource.as_ref()).is_none()) {
            self.account = output;
        }
    }

    fn counted(&self, name: &str, of: &str) -> f64 {
        values(self.account.account(), name)[of]
    }
}

/// Runs the last collection, at the end of the source.
fn finish(node: &mut Node) {
    let mut last = Vec::new();
    node.analyzer.finish(&mut |batch| last.push(batch));
    node.record(last);
}

fn unique(n: u32) -> UniqueId {
    std::array::from_fn(|at| (n >> (8 * (at % 4))) as u8)
}

/// Emits an event for every series of a process: a communicator, a collective, a wait, and failed calls.
fn work(node: &mut Node, rank: &mut Rank, id: u32, at_ns: u64) {
    node.give(&rank.init(at_ns, US, 1, &unique(id)));
    node.give(&rank.all_reduce(at_ns + MS, US));
    node.give(&rank.sync(at_ns + MS, at_ns + 2 * MS, at_ns + 3 * MS));
    node.give(&failed(rank, "cudaMalloc", 2, at_ns + 4 * MS));
}

fn failed(rank: &Rank, symbol: &str, result: u32, entry_ns: u64) -> Event {
    let header = Header {
        kind: 2,
        row: row(symbol),
        pid: rank.process.pid,
        tid: rank.process.pid,
        process_start_ns: rank.process.start_ns,
        entry_ns,
        duration_ns: US,
        ..Header::default()
    };
    Event::Call(CallRecord { header, result, ..CallRecord::default() })
}

/// Serializes tests, because they measure the memory of the whole program.
static ALONE: Mutex<()> = Mutex::new(());

/// Returns the resident memory in KiB.
fn resident_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

fn assert_flat(memory: &[u64]) {
    let (early, late) = (memory[memory.len() / 4], *memory.last().unwrap());
    assert!(late < early + 2_048, "resident memory, KiB: {memory:?}");
}

#[test]
fn memory_is_constant_over_twenty_thousand_processes() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let (mut node, mut memory) = (Node::new(), Vec::new());
    for n in 0..MANY {
        let at_ns = 2 * SECOND + u64::from(n) * 200 * MS;
        let mut rank = Rank::new(1_000 + n, 0);
        node.give(&Event::Process(Box::new(rank.info())));
        work(&mut node, &mut rank, n, at_ns);
        // One in ten lives for a few collections.
        let gone = if n % 10 == 0 { n.checked_sub(200) } else { Some(n) };
        if let Some(gone) = gone.filter(|gone| *gone < MANY - 1) {
            node.give(&Event::Exit {
                process: Rank::new(1_000 + gone, 0).process,
                at_ns: at_ns + 50 * MS,
                status: ExitStatus::Unknown,
            });
        }
        if n % 1_000 == 0 {
            node.counts.clear();
            memory.push(resident_kib());
        }
    }
    finish(&mut node);
    let of_last = &node.counts[&(1_000 + MANY - 1)];
    assert_eq!(of_last.values().copied().collect::<Vec<_>>(), [1.0], "{of_last:?}");
    assert!(of_last.keys().all(|key| key.contains("nccl.rank=0")), "{of_last:?}");
    assert_eq!(node.overflowing, 0.0);
    assert_eq!(node.counted("warptap.process.evicted", ""), 0.0);
    assert_flat(&memory);
}

#[test]
fn communicators_have_own_series_after_twenty_thousand_others() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let (mut node, mut memory, mut rank) = (Node::new(), Vec::new(), Rank::new(1_000, 0));
    node.give(&Event::Process(Box::new(rank.info())));
    for n in 0..MANY {
        let at_ns = 2 * SECOND + u64::from(n) * SECOND;
        rank = rank.of(0x5000_0000 + u64::from(n % 100) * 0x1000);
        work(&mut node, &mut rank, n, at_ns);
        if n + 1 < MANY {
            node.give(&rank.of_comm("ncclCommDestroy", at_ns + 10 * MS));
        }
        if n % 1_000 == 0 {
            memory.push(resident_kib());
        }
    }
    finish(&mut node);
    let hash = format!("{:#x}", nccl::hash::of_unique_id(&unique(MANY - 1)));
    let own = node.counts[&1_000].iter().find(|(key, _)| key.contains(&hash)).expect("the last one's own");
    assert_eq!(*own.1, 1.0);
    assert!(node.counts[&1_000].len() <= 32, "{:?}", node.counts[&1_000]);
    assert_eq!(
        (node.overflowing, node.counted("warptap.collective.suppressed", "warptap.signal=metrics")),
        (0.0, 0.0)
    );
    assert_flat(&memory);
}

#[test]
fn a_rank_gets_its_own_series_when_others_end() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let (mut node, mut rank) = (Node::new(), Rank::new(1_000, 0));
    node.give(&Event::Process(Box::new(rank.info())));
    for n in 0..MANY {
        let at_ns = 2 * SECOND + u64::from(n) * MS;
        rank = rank.of(0x5000_0000 + u64::from(n) * 0x1000);
        node.give(&rank.init(at_ns, US, 1, &unique(n)));
        node.give(&rank.all_reduce(at_ns + 10 * US, US));
        if n + 1 < MANY {
            node.give(&rank.of_comm("ncclCommDestroy", at_ns + 20 * US));
        }
    }
    let folded = node.counted("warptap.collective.suppressed", "warptap.signal=metrics");
    assert!(folded > 0.0 && node.overflowing > 0.0, "ranks above the bound are counted: {folded}");
    let after_ns = 2 * SECOND + u64::from(MANY) * MS;
    for n in 1..30 {
        node.give(&rank.all_reduce(after_ns + n * SECOND, US));
    }
    let hash = format!("{:#x}", nccl::hash::of_unique_id(&unique(MANY - 1)));
    let own = node.counts[&1_000].iter().find(|(key, _)| key.contains(&hash));
    assert!(own.is_some_and(|(_, count)| *count >= 10.0), "{:?}", node.counts[&1_000]);
}

#[test]
fn overflow_of_a_process_that_ended_between_collections_is_counted() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let (mut node, mut rank) = (Node::new(), Rank::new(1_000, 0));
    node.give(&Event::Process(Box::new(rank.info())));
    for n in 0..100 {
        rank = rank.of(0x5000_0000 + n * 0x1000);
        node.give(&rank.init(2 * SECOND + n * MS, US, 1, &[n as u8; 128]));
        node.give(&rank.all_reduce(2 * SECOND + n * MS + 10 * US, US));
    }
    node.give(&Event::Exit { process: rank.process, at_ns: 3 * SECOND, status: ExitStatus::Unknown });
    node.give(&Event::Tick { at_ns: 60 * SECOND });
    assert!(node.overflowing > 0.0, "nothing says that series stood for others");
}
