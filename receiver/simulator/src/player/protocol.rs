//! The protocol between a player and its parent: `ready`, a line to start, `done`, and the end of input to exit.
//!
//! The player waits after `ready`, so that probes can be attached before its first call, and after `done`, so that the
//! counters of a live process can be read. Neither side sleeps.

use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// Beginning of each line of the protocol; text before it on a line is ignored.
const MARK: &str = "@player ";

fn send(line: &str) {
    let mut out = std::io::stdout().lock();
    let _ = writeln!(out, "{MARK}{line}");
    let _ = out.flush();
}

/// Reports that the libraries are mapped and waits for the start; returns false if the input ends before.
pub(super) fn ready(wait_go: bool) -> bool {
    if !wait_go {
        return true;
    }
    send(&format!("ready {}", std::process::id()));
    std::io::stdin().lock().read_line(&mut String::new()).is_ok_and(|bytes| bytes > 0)
}

/// Reports the number of calls and waits for the end of input.
pub(super) fn done(wait_go: bool, calls: u64) {
    if wait_go {
        send(&format!("done {calls}"));
        let _ = std::io::stdin().lock().read_to_end(&mut Vec::new());
    }
}

/// Reports the number of calls.
pub(super) fn send_done(calls: u64) {
    send(&format!("done {calls}"));
}

/// An error when controlling a player.
#[derive(Debug, thiserror::Error)]
pub enum ProtocolError {
    /// The process could not be started, or its input or output failed.
    #[error("cannot control the player: {0}")]
    Io(#[from] std::io::Error),
    /// The process exited, or sent another line.
    #[error("the player sent {line:?}; expected {expected:?}")]
    Unexpected {
        /// Line received; empty if the process exited.
        line: String,
        /// Line expected.
        expected: &'static str,
    },
}

/// A player in a child process.
#[derive(Debug)]
pub struct Player {
    child: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
    /// Whether it has received the start signal.
    is_started: bool,
}

/// Time that a player has to end before it is killed.
const END_MAX: Duration = Duration::from_secs(2);
/// Interval of the check for its end.
const END_STEP: Duration = Duration::from_millis(5);

impl Player {
    /// Starts a command that runs a player with `--wait-go`, and waits until its libraries are mapped.
    pub fn start(mut command: Command) -> Result<Player, ProtocolError> {
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let (input, output) = (child.stdin.take(), child.stdout.take());
        let output = BufReader::new(output.ok_or(std::io::Error::other("the player has no output"))?);
        let mut player = Player { child, input, output, is_started: false };
        player.ready()?;
        Ok(player)
    }

    /// Returns the process id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Waits until the player is ready again after an `exec`.
    pub fn ready(&mut self) -> Result<(), ProtocolError> {
        self.expect("ready").map(|_| ())
    }

    /// Returns the process ids of its ranks, or of the other processes of its script, in the order they were started.
    pub fn ranks(&self) -> std::io::Result<Vec<u32>> {
        let threads = std::fs::read_dir(format!("/proc/{}/task", self.pid()))?;
        let children = threads.map(|thread| std::fs::read_to_string(thread?.path().join("children")));
        let pids = |children: String| children.split_whitespace().map(str::parse).collect::<Vec<_>>();
        let parsed = children.collect::<Result<Vec<_>, _>>()?.into_iter().flat_map(pids);
        parsed.collect::<Result<_, _>>().map_err(std::io::Error::other)
    }

    /// Lets the player make its calls.
    pub fn go(&mut self) -> Result<(), ProtocolError> {
        let input = self.input.as_mut().ok_or(std::io::Error::other("the player was finished"))?;
        input.write_all(b"go\n")?;
        self.is_started = true;
        Ok(input.flush()?)
    }

    /// Waits until all calls are made and returns their number. The process does not exit.
    pub fn done(&mut self) -> Result<u64, ProtocolError> {
        self.expect("done")
    }

    /// Lets the process exit and waits for it.
    pub fn finish(mut self) -> Result<ExitStatus, ProtocolError> {
        self.input = None;
        Ok(self.child.wait()?)
    }

    /// Reads up to a line of the protocol and returns the number in it.
    fn expect(&mut self, expected: &'static str) -> Result<u64, ProtocolError> {
        let mut line = String::new();
        loop {
            line.clear();
            let ended = self.output.read_line(&mut line)? == 0;
            let message = line.split_once(MARK).map(|(_, message)| message.trim());
            match message.and_then(|m| m.strip_prefix(expected)).and_then(|n| n.trim().parse().ok()) {
                Some(number) => return Ok(number),
                None if ended || message.is_some() => {
                    return Err(ProtocolError::Unexpected { line, expected });
                }
                None => {}
            }
        }
    }
}

impl Drop for Player {
    /// Kills the process, so that a failed test leaves none running. Before its start it ends by itself, and removes its
    /// directories.
    fn drop(&mut self) {
        self.input = None;
        let until = Instant::now() + END_MAX;
        while !self.is_started && matches!(self.child.try_wait(), Ok(None)) && Instant::now() < until {
            std::thread::sleep(END_STEP);
        }
        if !matches!(self.child.try_wait(), Ok(Some(_))) {
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}
