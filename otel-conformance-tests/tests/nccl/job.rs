//! A distributed job of stub processes, of the real binary.

use std::fs::{self, File};
use std::path::Path;
use std::time::{Duration, Instant};

use simulator::oracle::{Line, NcclLine, WaitLine, read};
use simulator::player::Player;
use tempfile::TempDir;

use crate::live::agent::{PATIENCE, player, turn};

/// The ranks of a script, a process each, that wait for the word.
pub struct Job {
    player: Option<Player>,
    /// Process ids, by rank.
    pub ranks: Vec<u32>,
    /// What it does, what it wrote.
    pub dir: TempDir,
    /// One at a time on this machine: another's processes would take the CPUs of these.
    _turn: File,
}

impl Job {
    /// Starts a script's ranks.
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

    /// Gives the word.
    pub fn go(&mut self) {
        self.player.as_mut().unwrap().go().unwrap();
    }

    /// Waits until all ranks have done what they had to.
    pub fn done(&mut self) {
        self.player.as_mut().unwrap().done().unwrap();
    }

    /// Ends it, wherever its ranks are.
    pub fn end(&mut self) {
        self.player = None;
    }

    /// The calls that were made, in the order of the log.
    pub fn calls(&self) -> Vec<NcclLine> {
        self.lines().filter_map(|line| if let Line::Nccl(call) = line { Some(call) } else { None }).collect()
    }

    /// The waits.
    pub fn waits(&self) -> Vec<WaitLine> {
        self.lines().filter_map(|line| if let Line::Wait(wait) = line { Some(wait) } else { None }).collect()
    }

    fn lines(&self) -> impl Iterator<Item = Line> {
        read(&self.dir.path().join("job.oracle")).unwrap().into_iter()
    }

    /// Waits until `holds` of the calls made so far.
    pub fn until(&self, what: &str, holds: impl Fn(&[NcclLine]) -> bool) {
        let began = Instant::now();
        while !holds(&self.calls()) {
            assert!(began.elapsed() < PATIENCE, "waited in vain for {what}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// The name of the communicator that the script calls so, as the agent should tell it.
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
