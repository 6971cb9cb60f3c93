//! A distributed job of processes of the stub player.

use std::fs::{self, File};
use std::path::Path;
use std::time::{Duration, Instant};

use simulator::oracle::{Line, NcclLine, WaitLine, read};
use simulator::player::Player;
use tempfile::TempDir;

use crate::live::agent::{PATIENCE, player, turn};

/// The ranks of a script, one process each, which wait for the start.
pub struct Job {
    player: Option<Player>,
    /// Process ids, by rank.
    pub ranks: Vec<u32>,
    /// The folder of the script and the log.
    pub dir: TempDir,
    /// Locks out other live tests, whose processes would use the CPUs.
    _turn: File,
}

impl Job {
    /// Starts the processes of the ranks.
    pub fn start(binary: &Path, script: &str) -> Job {
        let turn = turn();
        let dir = tempfile::tempdir().unwrap();
        let player = player(binary, dir.path(), "job", script);
        let mut ranks: Vec<(u32, u32)> = children(player.pid()).map(|pid| (rank_of(pid), pid)).collect();
        ranks.sort_unstable();
        assert!(!ranks.is_empty(), "the player leads its ranks");
        let ranks = ranks.into_iter().map(|(_, pid)| pid).collect();
        Job { player: Some(player), ranks, dir, _turn: turn }
    }

    /// Starts the script.
    pub fn go(&mut self) {
        self.player.as_mut().unwrap().go().unwrap();
    }

    /// Waits until all ranks have finished the script.
    pub fn done(&mut self) {
        self.player.as_mut().unwrap().done().unwrap();
    }

    /// Ends all processes.
    pub fn end(&mut self) {
        self.player = None;
    }

    /// Returns the logged calls in order.
    pub fn calls(&self) -> Vec<NcclLine> {
        self.lines().filter_map(|line| if let Line::Nccl(call) = line { Some(call) } else { None }).collect()
    }

    /// Returns the logged waits.
    pub fn waits(&self) -> Vec<WaitLine> {
        self.lines().filter_map(|line| if let Line::Wait(wait) = line { Some(wait) } else { None }).collect()
    }

    fn lines(&self) -> impl Iterator<Item = Line> {
        read(&self.dir.path().join("job.oracle")).unwrap().into_iter()
    }

    /// Waits until `holds` returns true for the calls so far.
    pub fn until(&self, what: &str, holds: impl Fn(&[NcclLine]) -> bool) {
        let began = Instant::now();
        while !holds(&self.calls()) {
            assert!(began.elapsed() < PATIENCE, "waited in vain for {what}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Returns the agent's name of the communicator that has this name in the script.
    pub fn hash(&self, name: &str) -> String {
        let calls = self.calls();
        let made = calls.iter().find(|c| c.communicator == name && c.entry.len() == 256);
        let id = &made.unwrap_or_else(|| panic!("{name} was made of an id")).entry;
        let byte = |at: usize| u8::from_str_radix(&id[at * 2..at * 2 + 2], 16).unwrap();
        format!("{:#x}", nccl::hash::of_unique_id(&std::array::from_fn(byte)))
    }
}

fn children(pid: u32) -> impl Iterator<Item = u32> {
    let threads = fs::read_dir(format!("/proc/{pid}/task")).unwrap().flatten();
    let children = threads.map(|thread| fs::read_to_string(thread.path().join("children")).unwrap());
    let pids: Vec<u32> =
        children.flat_map(|c| c.split_whitespace().map(|p| p.parse().unwrap()).collect::<Vec<_>>()).collect();
    pids.into_iter()
}

fn rank_of(pid: u32) -> u32 {
    let environ = fs::read(format!("/proc/{pid}/environ")).unwrap();
    let text = String::from_utf8_lossy(&environ).into_owned();
    let rank = text.split('\0').find_map(|variable| variable.strip_prefix("RANK="));
    rank.expect("the leader tells its ranks who they are").parse().unwrap()
}
