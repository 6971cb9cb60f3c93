//! The folder of peers, and the commands that install them.

use std::fmt;
use std::fs::{self, File};
use std::io;
use std::path::PathBuf;
use std::process::{Command, Stdio};

/// The reason why a peer is not available.
#[derive(Clone, Debug)]
pub struct Skip(pub String);

impl fmt::Display for Skip {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Returns the peer, or prints why the test is skipped.
#[expect(clippy::print_stdout, reason = "the output of a test")]
pub fn peer<T>(found: Result<T, Skip>) -> Option<T> {
    found.map_err(|reason| println!("skipped: {reason}")).ok()
}

/// Returns the folder of peers in the target folder of the current test.
pub(crate) fn folder() -> Result<PathBuf, Skip> {
    let program =
        std::env::current_exe().map_err(|e| Skip(format!("where this test lies is unknown: {e}")))?;
    // target/PROFILE/deps/TEST
    let target = program.ancestors().nth(3).ok_or_else(|| Skip("no target folder".to_owned()))?;
    let folder = target.join("peers");
    fs::create_dir_all(&folder).map_err(|e| Skip(format!("{}: {e}", folder.display())))?;
    Ok(folder)
}

/// Runs `install` once even if several processes call it; `is_there` returns true if it was done.
pub(crate) fn once(
    name: &str,
    is_there: impl Fn() -> bool,
    install: impl FnOnce() -> Result<(), Skip>,
) -> Result<(), Skip> {
    let path = folder()?.join(format!("{name}.lock"));
    let failed = |e: io::Error| Skip(format!("{}: {e}", path.display()));
    let lock = File::create(&path).map_err(failed)?;
    lock.lock().map_err(failed)?;
    if is_there() { Ok(()) } else { install() }
}

/// Runs a command; the end of its error output is the reason of a failure.
pub(crate) fn run(what: &str, command: &mut Command) -> Result<(), Skip> {
    let output = command.stdin(Stdio::null()).output().map_err(|e| Skip(format!("{what}: {e}")))?;
    if output.status.success() {
        return Ok(());
    }
    let stderr = String::from_utf8_lossy(&output.stderr);
    let tail: Vec<&str> = stderr.lines().rev().take(3).collect();
    let tail: Vec<&str> = tail.into_iter().rev().collect();
    Err(Skip(format!("{what}: {}: {}", output.status, tail.join("; "))))
}
