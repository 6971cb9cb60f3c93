//! Acknowledged data is delivered whatever fails: the process, the backend or the disk.
//!
//! Senders number their records and note the acknowledged ones. A backend that refuses, hangs, resets connections
//! and rejects parts notes the delivered ones. Between them runs the real binary with a persistent queue, which is
//! killed at random times. At the end every acknowledged record must have been delivered, and duplicates are
//! limited to records that were in progress at a kill or whose request was not answered.
//!
//! `WARPTAP_CHAOS_ROUNDS` is the number of kills (20), `WARPTAP_CHAOS_SEED` repeats a run, `WARPTAP_BINARY` is the
//! path of the binary if it is not in the folder of this test, and `WARPTAP_LOG` prints its log.
#![allow(clippy::unwrap_used, clippy::print_stderr, reason = "a test, which says what it found")]

#[path = "chaos/agent.rs"]
mod agent;
#[path = "chaos/backend.rs"]
mod backend;
#[path = "chaos/dice.rs"]
mod dice;
#[path = "chaos/disk.rs"]
mod disk;
#[path = "chaos/senders.rs"]
mod senders;

use std::collections::BTreeSet;
use std::fmt;
use std::path::Path;
use std::time::{Duration, Instant};

use agent::{Agent, Queue};
use backend::{Backend, Mood};
use dice::Dice;
use disk::Disk;
use otel_conformance_tests::{peer, warptap_program};
use senders::{RECORDS_MAX, Senders};

/// Time limit for the delivery of stored data once nothing fails any more.
const PATIENCE: Duration = Duration::from_secs(120);

/// Number of concurrent requests of a queue.
const CONSUMERS: usize = 10;

/// The maximum number of requests that a queue reads ahead, plus those whose removal is being written.
const AHEAD: usize = 16;

/// The maximum number of delivered requests that wait for their removal while the disk is full.
const UNREMOVED: usize = 1000;

fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok()?.parse().ok()
}

fn rounds() -> u64 {
    number("WARPTAP_CHAOS_ROUNDS").unwrap_or(20)
}

fn dice(name: &str) -> Dice {
    let clock = || std::time::UNIX_EPOCH.elapsed().map_or(0, |now| now.as_nanos() as u64);
    let seed = number("WARPTAP_CHAOS_SEED").unwrap_or_else(clock);
    eprintln!("{name}: WARPTAP_CHAOS_SEED={seed}");
    Dice::of(seed)
}

/// The results of a run, in records unless noted.
struct Report {
    kills: u64,
    acknowledged: usize,
    unsure: usize,
    delivered: usize,
    missing: usize,
    duplicates: usize,
    duplicates_max: usize,
    unanswered: usize,
    took: Duration,
}

/// A storage, senders, a backend, and the process between them.
struct World {
    backend: Backend,
    senders: Senders,
    queue: Queue,
    kills: u64,
    begin: Instant,
}

impl World {
    fn new(storage: &Path) -> Self {
        let (backend, senders) = (Backend::start(), Senders::start());
        let queue = Queue {
            storage: storage.to_owned(),
            backend: backend.address,
            consumers: CONSUMERS,
            fsync: false,
            batch: false,
        };
        World { backend, senders, queue, kills: 0, begin: Instant::now() }
    }

    fn start(&mut self) -> Agent {
        let agent = Agent::start(&self.queue);
        self.senders.send_to(Some(agent.address));
        agent
    }

    fn kill(&mut self, agent: Agent) {
        agent.kill();
        self.senders.send_to(None);
        self.kills += 1;
    }

    /// Waits until all data is delivered without failures; compares the records.
    fn end(mut self) -> Report {
        let agent = self.start();
        self.backend.set(Mood::Takes);
        let (acknowledged, unsure) = self.senders.stop();
        let all_came = || {
            let delivered = self.backend.delivered();
            acknowledged.iter().all(|id| delivered.contains_key(id))
        };
        let begin = Instant::now();
        while begin.elapsed() < PATIENCE && !all_came() {
            std::thread::sleep(Duration::from_millis(50));
        }
        agent.stop();
        let delivered = self.backend.delivered();
        let missing: Vec<u64> =
            acknowledged.iter().filter(|id| !delivered.contains_key(id)).copied().collect();
        let sent: BTreeSet<u64> = acknowledged.union(&unsure).copied().collect();
        assert!(delivered.keys().all(|id| sent.contains(id)), "nothing is made up");
        let unanswered = self.backend.unanswered();
        Report {
            kills: self.kills,
            acknowledged: acknowledged.len(),
            unsure: unsure.len(),
            delivered: delivered.len(),
            missing: missing.len(),
            duplicates: delivered.values().map(|times| times - 1).sum(),
            duplicates_max: self.kills as usize * (CONSUMERS + AHEAD) * RECORDS_MAX + unanswered,
            unanswered,
            took: self.begin.elapsed(),
        }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Report { kills, acknowledged, unsure, delivered, missing, .. } = self;
        let Report { duplicates, duplicates_max, unanswered, took, .. } = self;
        write!(
            f,
            "{kills} kills in {took:.1?}: {acknowledged} acknowledged, {unsure} unsure, {delivered} delivered, \
             {missing} missing, {duplicates} twice of at most {duplicates_max}, {unanswered} not answered"
        )
    }
}

fn judge(name: &str, report: &Report) {
    eprintln!("{name}: {report}");
    assert!(report.acknowledged > 0, "something was sent");
    assert_eq!(report.missing, 0, "acknowledged and never delivered");
    assert!(report.duplicates <= report.duplicates_max, "more delivered twice than was under way");
}

#[test]
fn acknowledged_data_survives_kills_and_backend_failures() {
    if peer(warptap_program()).is_none() {
        return;
    }
    let mut dice = dice("kills");
    let folder = tempfile::tempdir().unwrap();
    let mut world = World::new(folder.path());
    while world.kills < rounds() {
        world.queue.fsync = dice.below(4) == 0;
        world.queue.batch = dice.below(3) == 0;
        if dice.below(10) == 0 {
            // Killed while it starts.
            let agent = Agent::launch(&world.queue);
            std::thread::sleep(dice.millis(60));
            world.kill(agent);
            continue;
        }
        let agent = world.start();
        for _ in 0..=dice.below(3) {
            world.backend.set(dice.mood());
            std::thread::sleep(dice.millis(150));
        }
        match dice.below(8) {
            0 => agent.stop(),
            _ => world.kill(agent),
        }
    }
    judge("kills", &world.end());
}

#[test]
fn acknowledged_data_survives_a_full_disk() {
    if peer(warptap_program()).is_none() {
        return;
    }
    let disk = match Disk::of_mib(24) {
        Ok(disk) => disk,
        Err(why) => return eprintln!("skipped: no small disk can be mounted: {why}"),
    };
    let mut dice = dice("full disk");
    let mut world = World::new(disk.path());
    for _ in 0..rounds().div_ceil(4) {
        let agent = world.start();
        world.backend.set(dice.mood());
        std::thread::sleep(dice.millis(100));
        disk.fill();
        std::thread::sleep(dice.millis(200));
        if dice.below(2) == 0 {
            world.backend.set(Mood::Takes);
            disk.free();
            let taken = world.senders.acknowledged();
            let begin = Instant::now();
            while world.senders.acknowledged() == taken {
                assert!(begin.elapsed() < PATIENCE, "with room again it takes requests again, by itself");
                std::thread::sleep(Duration::from_millis(10));
            }
        }
        world.kill(agent);
        disk.free();
    }
    assert_eq!(disk::set_aside(disk.path()), 0, "a full disk breaks no file");
    let mut report = world.end();
    report.duplicates_max += report.kills as usize * UNREMOVED * RECORDS_MAX;
    judge("full disk", &report);
}

/// Waits for the first acknowledgement, because a kill before it would test nothing.
fn until_acknowledged(world: &World) {
    while world.senders.acknowledged() == 0 {
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn corrupted_databases_are_set_aside_at_the_start() {
    if peer(warptap_program()).is_none() {
        return;
    }
    let mut dice = dice("garbage");
    let folder = tempfile::tempdir().unwrap();
    for round in 1..=rounds().div_ceil(5) {
        // Drained, so that the corrupted file has no acknowledged data.
        let mut world = World::new(folder.path());
        let agent = world.start();
        std::thread::sleep(dice.millis(200));
        until_acknowledged(&world);
        world.kill(agent);
        judge("before the garbage", &world.end());
        disk::corrupt(folder.path(), &mut dice);
        let mut world = World::new(folder.path());
        let agent = world.start();
        until_acknowledged(&world);
        world.kill(agent);
        judge("after the garbage", &world.end());
        assert!(disk::set_aside(folder.path()) > 0, "in round {round} nothing was set aside");
    }
}
