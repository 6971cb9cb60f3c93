//! Programs of another user, whose every call must be counted.

use std::collections::BTreeSet;
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
    calls: Vec<(u32, u64)>,
}

impl Victim {
    pub fn new(warptap: &Path, dir: PathBuf) -> Victim {
        // The binary may be in a directory that the user cannot read.
        let program = dir.join("warptap");
        std::fs::copy(warptap, &program).unwrap();
        std::fs::write(dir.join("script"), SCRIPT).unwrap();
        simulator::install(&dir.join("stubs")).unwrap();
        Victim { program, dir, lasting: None, calls: Vec::new() }
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
            let sums = inbox.process_sums("gpu.cuda.operation.count");
            let counted: BTreeSet<(u32, u64)> =
                sums.iter().map(|((pid, _), calls)| (*pid, *calls as u64)).collect();
            let wrong: Vec<_> = self.calls.iter().filter(|program| !counted.contains(program)).collect();
            if wrong.is_empty() {
                return;
            }
            let of_pid = |pid: u32| wrong.iter().any(|(of, _)| *of == pid);
            let counted: Vec<_> = sums.iter().filter(|((pid, _), _)| of_pid(*pid)).collect();
            assert!(began.elapsed() < PATIENCE, "counted {counted:?} of {wrong:?}");
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
        let calls: u64 = self.calls.iter().map(|(_, calls)| calls).sum();
        write!(f, "another user: {} programs, {calls} calls, all counted", self.calls.len())
    }
}
