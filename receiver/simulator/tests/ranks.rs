//! Tests of scripts of ranks, by the oracle log; they need no privileges.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test")]

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::process::Command;

use simulator::oracle::{Line, NcclLine, WaitLine, read};
use simulator::player::Player;
use simulator::ranks::is_ranks;
use simulator::scripts::SCRIPTS;

struct Job {
    dir: PathBuf,
}

impl Drop for Job {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.dir);
    }
}

impl Job {
    fn new(name: &str, script: &str) -> Job {
        let dir = std::env::temp_dir().join(format!("stubs-ranks-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        std::fs::write(dir.join("script"), script).unwrap();
        Job { dir }
    }

    fn start(&self) -> Player {
        self.start_with(&["--turns", "30"])
    }

    fn start_with(&self, arguments: &[&str]) -> Player {
        let mut command = Command::new(env!("CARGO_BIN_EXE_player"));
        command.arg(self.dir.join("script")).arg("--oracle").arg(self.dir.join("oracle"));
        command.arg("--stubs").arg(self.dir.join("stubs")).arg("--wait-go").args(arguments);
        let mut player = Player::start(command).unwrap();
        player.go().unwrap();
        player
    }

    fn lines(&self) -> (Vec<NcclLine>, Vec<WaitLine>) {
        let (mut calls, mut waits) = (Vec::new(), Vec::new());
        for line in read(&self.dir.join("oracle")).unwrap() {
            match line {
                Line::Nccl(call) => calls.push(call),
                Line::Wait(wait) => waits.push(wait),
                _ => {}
            }
        }
        (calls, waits)
    }

    fn play(name: &str, script: &str) -> (Vec<NcclLine>, Vec<WaitLine>) {
        let job = Job::new(name, script);
        let mut player = job.start();
        player.done().unwrap();
        player.finish().unwrap();
        job.lines()
    }
}

/// Returns the calls of each collective by communicator and sequence number.
fn arrivals(calls: &[NcclLine]) -> BTreeMap<(String, u64), Vec<&NcclLine>> {
    let mut arrivals: BTreeMap<_, Vec<_>> = BTreeMap::new();
    for call in calls.iter().filter(|c| c.seq.is_some() && !c.captured) {
        arrivals.entry((call.communicator.clone(), call.seq.unwrap())).or_default().push(call);
    }
    arrivals
}

#[test]
fn every_script_of_ranks_runs_the_given_turns() {
    for (name, text) in SCRIPTS.iter().filter(|(_, text)| is_ranks(text)) {
        let (calls, waits) = Job::play(name, text);
        assert!(calls.iter().all(|c| c.result == 0) && !waits.is_empty(), "{name}: {calls:?}");
        assert!(arrivals(&calls).values().all(|ranks| ranks.len() == 4), "{name}");
        assert_eq!(arrivals(&calls).len(), 30, "{name}");
    }
}

#[test]
fn sync_returns_after_the_last_rank_arrived() {
    let script = "ranks 4\nseed 3\ncomm world\nsplit halves world color=rank%2\nrepeat 20\nsleep 0us..300us\n\
                  late 3ms only=1 every=5\nallreduce world 8 float32 sum\nallgather halves 8 int8 stream=side\n\
                  sync\neventsync side\nend\n";
    let (calls, waits) = Job::play("barrier", script);
    assert!(calls.iter().all(|c| c.result == 0), "{calls:?}");
    let arrivals = arrivals(&calls);
    assert_eq!(arrivals.len(), 20 * 3, "of world and of two halves");
    assert_eq!(waits.len(), 4 * 2 * 20);
    for wait in &waits {
        let [(name, seq)] = &wait.covers[..] else { panic!("{wait:?}") };
        let of = &arrivals[&(name.clone(), *seq)];
        let last = of.iter().map(|c| c.entry_ns).max().unwrap();
        assert_eq!(of.len(), if name == "world" { 4 } else { 2 });
        assert!(wait.exit_ns >= last, "{wait:?} ends before {last}");
    }
    let late: Vec<_> = calls.iter().filter(|c| c.late_ns > 0).collect();
    assert_eq!(late.len(), 4);
    assert!(late.iter().all(|c| c.rank == 1 && c.late_ns == 3_000_000 && c.communicator == "world"));
}

#[test]
fn paced_ranks_continue_a_time_after_the_last_arrival() {
    let script = "ranks 3\ncomm world\nrepeat 10\nlate 2ms only=1\nallreduce world 8 float32 sum\nsync\n\
                  pace world 5ms\nallgather world 8 int8\nsync\nend\n";
    let (calls, _) = Job::play("pace", script);
    for ((name, seq), of) in arrivals(&calls).iter().filter(|((_, seq), _)| seq % 2 == 1) {
        let before = arrivals(&calls)[&(name.clone(), seq - 1)].iter().map(|c| c.entry_ns).max().unwrap();
        assert!(of.iter().all(|c| c.entry_ns >= before + 5_000_000), "{of:?} is too early after {before}");
    }
}

#[test]
fn messages_wait_for_their_sender_and_handles_are_reused() {
    let script = "ranks 2\ncomm world\nsend world 4 int32 peer=1 only=0\nrecv world 4 int32 peer=0 only=1\nsync\n\
                  destroy world\ncomm again\nquery again\n";
    let (calls, _) = Job::play("messages", script);
    let made: BTreeSet<_> =
        calls.iter().filter(|c| c.symbol == "ncclCommInitRankConfig").map(|c| c.exit.as_str()).collect();
    assert_eq!(made.len(), 1, "both communicators have the same handle on both ranks: {made:?}");
    let sizes: Vec<_> =
        calls.iter().filter(|c| c.symbol == "ncclCommCount").map(|c| c.exit.as_str()).collect();
    assert_eq!(sizes, ["02000000"; 2]);
}

/// Rank 1 never arrives; the others wait until their parent exits.
#[test]
fn hanging_ranks_end_with_their_parent() {
    let script =
        "ranks 3\ncomm world\nrepeat 5\nstop only=1 at=2\nallreduce world 8 float32 sum\nsync\nend\n";
    let job = Job::new("hang", script);
    let player = job.start();
    let arrived = |seq| move |c: &&NcclLine| c.seq == Some(seq);
    let began = std::time::Instant::now();
    while job.lines().0.iter().filter(arrived(2)).count() < 2 {
        assert!(began.elapsed().as_secs() < 30, "{:?}", job.lines().0);
        std::thread::yield_now();
    }
    let ranks: BTreeSet<u32> = job.lines().0.iter().map(|c| c.pid).collect();
    assert_eq!(ranks.len(), 3);
    drop(player);
    while ranks
        .iter()
        .any(|pid| std::path::Path::new(&format!("/proc/{pid}/fd")).read_dir().is_ok_and(|d| d.count() > 0))
    {
        assert!(began.elapsed().as_secs() < 30, "ranks outlive their parent");
        std::thread::yield_now();
    }
    assert_eq!(job.lines().0.iter().filter(arrived(3)).count(), 0);
}

/// Each rank ended its loop by its own clock. In about one run of ten a rank began a turn more than its peers and waited
/// for them for ever.
#[test]
fn ranks_end_after_the_same_turn_at_a_time_limit() {
    let text = "ranks 4\ncomm world\nrepeat 3600s\nallreduce world 8 float32 sum\nsync\nend\n";
    let job = Job::new("limit", text);
    for run in 0..10 {
        let mut player = job.start_with(&["--seconds", "0.05"]);
        let (sender, receiver) = std::sync::mpsc::channel();
        let ending = std::thread::spawn(move || {
            player.done().unwrap();
            sender.send(()).unwrap();
            player.finish().unwrap();
        });
        let patience = std::time::Duration::from_secs(30);
        assert!(receiver.recv_timeout(patience).is_ok(), "run {run}: ranks wait for each other");
        ending.join().unwrap();
        let mut turns: BTreeMap<u32, usize> = BTreeMap::new();
        job.lines().0.iter().filter(|c| c.seq.is_some()).for_each(|c| *turns.entry(c.rank).or_default() += 1);
        let counts: BTreeSet<usize> = turns.values().copied().collect();
        assert_eq!((turns.len(), counts.len()), (4, 1), "run {run}: {turns:?}");
    }
}
