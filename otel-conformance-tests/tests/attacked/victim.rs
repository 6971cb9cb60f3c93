//! Programs of another user, whose every call must be counted.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread::{JoinHandle, sleep};
use std::time::{Duration, Instant};

use simulator::player::Player;

use crate::VICTIM;
use crate::live::agent::PATIENCE;
use crate::live::inbox::Inbox;

/// Time from the loading of the libraries to the first call: a program that has just started reads its data first.
const FIRST_CALL_AFTER: Duration = Duration::from_secs(1);
/// Steps without graphs, so that there are many calls.
const SCRIPT: &str = "seed 3
include engine
thread engine
  repeat 3600s
    step decode main
      use decode-eager
    end
  end
end
";

/// A user whose programs use a GPU.
pub struct Victim {
    program: PathBuf,
    dir: PathBuf,
    /// The program that runs all the time; returns its pid and calls.
    lasting: Option<JoinHandle<(u32, u64)>>,
    /// The calls of each program that has ended.
    calls: BTreeMap<u32, u64>,
}

impl Victim {
    pub fn new(warptap: &Path, dir: PathBuf) -> Victim {
        // The binary may be in a directory that the user cannot read.
        let program = dir.join("warptap");
        std::fs::copy(warptap, &program).unwrap();
        std::fs::write(dir.join("script"), SCRIPT).unwrap();
        simulator::install(&dir.join("stubs")).unwrap();
        Victim { program, dir, lasting: None, calls: BTreeMap::new() }
    }

    fn player(&self, duration: Duration) -> Player {
        let mut command = Command::new("setpriv");
        let user = VICTIM.to_string();
        command.args(["--reuid", &user, "--regid", &user, "--clear-groups"]).arg(&self.program).arg("player");
        command.arg(self.dir.join("script")).args([
            "--wait-go",
            "--seconds",
            &duration.as_secs().to_string(),
        ]);
        command.arg("--stubs").arg(self.dir.join("stubs"));
        Player::start(command).unwrap()
    }

    /// Starts the program that runs all the time.
    pub fn begin(&mut self, duration: Duration) {
        let player = self.player(duration);
        self.lasting = Some(std::thread::spawn(|| play(player)));
    }

    /// Runs a program to its end.
    pub fn run(&mut self, duration: Duration) {
        let player = self.player(duration);
        self.calls.extend([play(player)]);
    }

    /// Waits for the end of the program that runs all the time.
    pub fn end(&mut self) {
        self.calls.extend(self.lasting.take().map(|playing| playing.join().unwrap()));
    }

    /// Compares the calls of each program with those that the agent has reported.
    pub fn compare(&self, inbox: &Inbox) {
        let began = Instant::now();
        loop {
            let mut counted = BTreeMap::new();
            for ((pid, _), calls) in inbox.sums("gpu.cuda.operation.count") {
                *counted.entry(pid).or_insert(0) += calls as u64;
            }
            counted.retain(|pid, _| self.calls.contains_key(pid));
            if counted == self.calls {
                return;
            }
            assert!(began.elapsed() < PATIENCE, "counted {counted:?} of {:?}", self.calls);
            sleep(Duration::from_millis(200));
        }
    }
}

fn play(mut player: Player) -> (u32, u64) {
    let pid = player.pid();
    sleep(FIRST_CALL_AFTER);
    player.go().unwrap();
    let calls = player.done().unwrap();
    player.finish().unwrap();
    (pid, calls)
}

impl fmt::Display for Victim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let calls: u64 = self.calls.values().sum();
        write!(f, "another user: {} programs, {calls} calls, all counted", self.calls.len())
    }
}
