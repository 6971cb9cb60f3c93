//! Plays a script of ranks: starts a process per rank and controls them.
//!
//! A rank's process is a player like any other. The ranks communicate in a directory: by a page that the stub libraries
//! share, and by files with the ids of communicators.

mod rank;

use std::path::{Path, PathBuf};

use super::options::Options;
use super::protocol::{self, Player};
use super::{PlayError, ProtocolError};
use crate::ranks::RankScript;

pub(super) use rank::play;

/// Starts all ranks and controls them: reports ready when all are, and done with the calls of all.
pub(super) fn lead(script: &RankScript, options: &Options, stubs: &Path) -> Result<(), PlayError> {
    let meeting = Meeting::new()?;
    let failed = |e: ProtocolError| PlayError::Usage(format!("a rank failed: {e}"));
    let mut ranks = Vec::new();
    for rank in 0..script.ranks {
        ranks.push(Player::start(command(options, stubs, &meeting.0, rank, script.ranks)).map_err(failed)?);
    }
    if !protocol::ready(options.wait_go) {
        return Ok(());
    }
    for rank in &mut ranks {
        rank.go().map_err(failed)?;
    }
    // A rank that was killed reports no calls.
    let calls = ranks.iter_mut().map(|rank| rank.done().unwrap_or(0)).sum();
    protocol::done(options.wait_go, calls);
    for rank in ranks {
        let _ = rank.finish();
    }
    Ok(())
}

fn command(
    options: &Options,
    stubs: &Path,
    meeting: &Path,
    rank: usize,
    ranks: usize,
) -> std::process::Command {
    let mut arguments = options.again(&options.source().name().into());
    let own: [(&str, std::ffi::OsString); 3] =
        [("--stubs", stubs.into()), ("--process", rank.to_string().into()), ("--meeting", meeting.into())];
    arguments.extend(own.into_iter().flat_map(|(name, value)| [name.into(), value]));
    arguments.push("--wait-go".into());
    let mut command = options.origin.again(&arguments);
    // The environment of torchrun.
    command
        .env("RANK", rank.to_string())
        .env("WORLD_SIZE", ranks.to_string())
        .env("MASTER_ADDR", "localhost");
    command
}

/// The directory that the ranks share; removed on drop.
struct Meeting(PathBuf);

impl Meeting {
    fn new() -> Result<Meeting, PlayError> {
        let dir = std::env::temp_dir().join(format!("warptap-ranks-{}", std::process::id()));
        std::fs::create_dir_all(&dir).map_err(PlayError::file(format!("create {}", dir.display())))?;
        Ok(Meeting(dir))
    }
}

impl Drop for Meeting {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
