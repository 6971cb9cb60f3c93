//! A hostile process, as its test sees it.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

use super::READY;

/// Longer than a process needs that nothing blocks.
const WATCHDOG: Duration = Duration::from_secs(60);

/// A hostile process, which is killed on drop.
#[derive(Debug)]
pub struct Acting {
    child: Child,
    lines: Receiver<String>,
}

impl Acting {
    /// Starts a process that acts as the variable says, and waits until it is ready. Returns it with what it printed.
    pub fn start(
        mut command: Command,
        variable: &str,
        user: u32,
        action: &str,
        arguments: &[&str],
    ) -> (Acting, String) {
        let lines = [&[&*user.to_string(), action], arguments].concat().join("\n");
        command.env(variable, lines).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().expect("a process can be started");
        let lines = lines_of(child.stdout.take().expect("its output is piped"));
        let acting = Acting { child, lines };
        let ready = acting.line();
        (acting, ready)
    }

    /// Returns what follows [`READY`] in the next line with it.
    pub fn line(&self) -> String {
        let line = self.lines.recv_timeout(WATCHDOG).expect("the process is not blocked, and does not fail");
        line.split_once(READY).map(|(_, rest)| rest.to_owned()).expect("only such lines are passed on")
    }

    /// Returns its process id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Lets the process go on that waits for a line.
    pub fn go(&self) {
        let mut input = self.child.stdin.as_ref().expect("its input is piped");
        input.write_all(b"\n").expect("the process reads it");
    }

    /// Lets the process end. Panics if it does not, or if it has failed.
    pub fn end(mut self) {
        drop(self.child.stdin.take());
        let end = std::iter::repeat_with(|| self.lines.recv_timeout(WATCHDOG)).find_map(Result::err);
        assert_eq!(end, Some(RecvTimeoutError::Disconnected), "it ends");
        let status = self.child.wait().expect("it was started");
        assert!(status.success(), "{status}");
    }
}

impl Drop for Acting {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Returns the lines by which the process is ready, as they come.
fn lines_of(output: ChildStdout) -> Receiver<String> {
    let (sender, receiver) = channel();
    std::thread::spawn(move || {
        let lines = BufReader::new(output).lines().map_while(Result::ok);
        lines.filter(|line| line.contains(READY)).for_each(|line| drop(sender.send(line)));
    });
    receiver
}
