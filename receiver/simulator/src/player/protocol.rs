//! How a player and whoever started it keep in step: two lines out, one line in, and an end of input.
//!
//! The one idea: nobody sleeps. The player says that its libraries are mapped and waits to be told to go; it says
//! that it is done and waits to be let go, so that the last counts of a live process can be read.

use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};

/// What every line of the protocol begins with; whatever else stands on a line before it is not ours.
const MARK: &str = "@player ";

fn say(line: &str) {
    let mut out = std::io::stdout().lock();
    let _ = writeln!(out, "{MARK}{line}");
    let _ = out.flush();
}

/// The libraries are mapped: waits for the word, if one is to come. False where nobody is there to say it.
pub(super) fn ready(wait_go: bool) -> bool {
    if !wait_go {
        return true;
    }
    say(&format!("ready {}", std::process::id()));
    std::io::stdin().lock().read_line(&mut String::new()).is_ok_and(|bytes| bytes > 0)
}

/// All calls are made: waits to be let go.
pub(super) fn done(wait_go: bool, calls: u64) {
    if wait_go {
        say(&format!("done {calls}"));
        let _ = std::io::stdin().lock().read_to_end(&mut Vec::new());
    }
}

/// All calls are made; how it goes on is the caller's business.
pub(super) fn say_done(calls: u64) {
    say(&format!("done {calls}"));
}

/// A player that could not be led.
#[derive(Debug, thiserror::Error)]
pub enum ProtocolError {
    /// The process could not be started or read.
    #[error("cannot lead the player: {0}")]
    Io(#[from] std::io::Error),
    /// It ended, or said something else.
    #[error("the player said {said:?}; expected {expected:?}")]
    Unexpected {
        /// What it said; empty if it ended.
        said: String,
        /// What was expected.
        expected: &'static str,
    },
}

/// A player in a process of its own, seen from the one that started it.
#[derive(Debug)]
pub struct Player {
    child: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
}

impl Player {
    /// Starts `command`, which must run a player with `--wait-go`, and waits until its libraries are mapped.
    pub fn start(mut command: Command) -> Result<Player, ProtocolError> {
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let (input, output) = (child.stdin.take(), child.stdout.take());
        let output = BufReader::new(output.ok_or(std::io::Error::other("no output to read"))?);
        let mut player = Player { child, input, output };
        player.ready()?;
        Ok(player)
    }

    /// Its process id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Waits until it is ready; it is from the start on, and once more behind each `exec`.
    pub fn ready(&mut self) -> Result<(), ProtocolError> {
        self.expect("ready").map(|_| ())
    }

    /// The processes of the ranks that it leads, in the order they were started; none of any other script.
    pub fn ranks(&self) -> std::io::Result<Vec<u32>> {
        let threads = std::fs::read_dir(format!("/proc/{}/task", self.pid()))?;
        let children = threads.map(|thread| std::fs::read_to_string(thread?.path().join("children")));
        let pids = |children: String| children.split_whitespace().map(str::parse).collect::<Vec<_>>();
        let parsed = children.collect::<Result<Vec<_>, _>>()?.into_iter().flat_map(pids);
        parsed.collect::<Result<_, _>>().map_err(std::io::Error::other)
    }

    /// Lets it make its calls.
    pub fn go(&mut self) -> Result<(), ProtocolError> {
        let input = self.input.as_mut().ok_or(std::io::Error::other("the player was let go already"))?;
        input.write_all(b"go\n")?;
        Ok(input.flush()?)
    }

    /// Waits until all calls are made; gives their number. The process still lives.
    pub fn done(&mut self) -> Result<u64, ProtocolError> {
        self.expect("done")
    }

    /// Lets it end.
    pub fn finish(mut self) -> Result<ExitStatus, ProtocolError> {
        self.input = None;
        Ok(self.child.wait()?)
    }

    /// Reads on until a line of the protocol comes; gives the number in it.
    fn expect(&mut self, expected: &'static str) -> Result<u64, ProtocolError> {
        let mut line = String::new();
        loop {
            line.clear();
            let ended = self.output.read_line(&mut line)? == 0;
            let said = line.split_once(MARK).map(|(_, said)| said.trim());
            match said.and_then(|said| said.strip_prefix(expected)).and_then(|n| n.trim().parse().ok()) {
                Some(number) => return Ok(number),
                None if ended || said.is_some() => {
                    return Err(ProtocolError::Unexpected { said: line, expected });
                }
                None => {}
            }
        }
    }
}

impl Drop for Player {
    /// A test that fails leaves no process behind.
    fn drop(&mut self) {
        self.input = None;
        if !matches!(self.child.try_wait(), Ok(Some(_))) {
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}
