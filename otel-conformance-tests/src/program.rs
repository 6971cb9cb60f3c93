//! Programs as processes: where ours is, their start and their end.

use std::io::{BufRead as _, BufReader};
use std::net::{SocketAddr, TcpListener};
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

use crate::Skip;

/// Maximum silence of a program that is not ready.
const PATIENCE: Duration = Duration::from_secs(60);

/// Returns the path of `warptap`: the variable `WARPTAP_BINARY`, or the program built with this test.
pub fn warptap_program() -> Result<PathBuf, Skip> {
    if let Some(named) = std::env::var_os("WARPTAP_BINARY") {
        return Ok(named.into());
    }
    let test = std::env::current_exe().map_err(|e| Skip(format!("the path of this test is unknown: {e}")))?;
    // target/PROFILE/deps/TEST
    let built = test.ancestors().nth(2).map(|folder| folder.join("warptap")).filter(|path| path.is_file());
    built.ok_or_else(|| Skip("warptap is not built with this test: cargo build -p warptap".to_owned()))
}

/// Returns a free address of this machine. Another process may take it before it is used.
pub fn free_address() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("loopback has a free port");
    listener.local_addr().expect("it is bound")
}

/// A running program; killed on drop.
#[derive(Debug)]
pub struct Program(Child);

impl Program {
    /// Starts a program.
    pub fn start(command: &mut Command) -> Self {
        Program(command.stdin(Stdio::null()).stderr(Stdio::piped()).spawn().expect("it was built here"))
    }

    /// Waits until the log says that everything is ready.
    ///
    /// # Errors
    ///
    /// Returns the log if the program ends or is silent for a minute. The variable `WARPTAP_LOG` prints the rest of it.
    #[expect(clippy::print_stdout, reason = "the output of a test")]
    pub fn ready(mut self) -> Result<Self, String> {
        let stderr = self.0.stderr.take().expect("it is piped and taken once");
        let (sender, lines) = channel();
        let is_shown = std::env::var_os("WARPTAP_LOG").is_some();
        // The thread reads to the end, so that the program never waits for a reader.
        std::thread::spawn(move || {
            for line in BufReader::new(stderr).lines().map_while(Result::ok) {
                if is_shown {
                    println!("{line}");
                }
                drop(sender.send(line));
            }
        });
        let mut log = String::new();
        loop {
            match lines.recv_timeout(PATIENCE) {
                Ok(line) if line.contains("Everything is ready") => return Ok(self),
                Ok(line) => log = format!("{log}{line}\n"),
                Err(RecvTimeoutError::Disconnected | RecvTimeoutError::Timeout) => return Err(log),
            }
        }
    }

    /// Returns the process id.
    pub fn pid(&self) -> u32 {
        self.0.id()
    }

    /// Returns true if the process has ended.
    pub fn has_ended(&mut self) -> bool {
        self.0.try_wait().expect("it is a child").is_some()
    }

    /// Kills the process and waits for its end.
    pub fn kill(self) {}

    /// Requests the end of the process by SIGTERM and waits for it.
    pub fn stop(mut self) -> ExitStatus {
        let pid = self.pid().to_string();
        assert!(Command::new("kill").args(["-TERM", &pid]).status().expect("kill runs").success());
        self.0.wait().expect("it is a child")
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
