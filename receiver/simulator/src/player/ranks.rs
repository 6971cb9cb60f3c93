//! Plays a script of ranks: a process each, which this one starts, leads and ends.
//!
//! The one idea: a rank's process is a player like any other, so whoever attaches to players can attach to ranks. They
//! meet in a directory: on a page that the stub libraries share, and by files that carry the communicators' ids.

mod rank;

use std::path::{Path, PathBuf};

use super::options::Options;
use super::protocol::{self, Player};
use super::{PlayError, ProtocolError};
use crate::ranks::RankScript;

pub(super) use rank::play;

/// Starts all ranks, and leads them: ready when all are, done when all are. Gives the calls of all.
pub(super) fn lead(script: &RankScript, options: &Options, stubs: &Path) -> Result<(), PlayError> {
    let meeting = Meeting::new()?;
    let led = |e: ProtocolError| PlayError::Usage(format!("a rank could not be led: {e}"));
    let mut ranks = Vec::new();
    for rank in 0..script.ranks {
        ranks.push(Player::start(command(options, stubs, &meeting.0, rank, script.ranks)).map_err(led)?);
    }
    if !protocol::ready(options.wait_go) {
        return Ok(());
    }
    for rank in &mut ranks {
        rank.go().map_err(led)?;
    }
    // A rank that was killed has made no calls that it could tell of.
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
    let mut arguments = options.again(&options.source.name().into());
    let own: [(&str, std::ffi::OsString); 3] =
        [("--stubs", stubs.into()), ("--process", rank.to_string().into()), ("--meeting", meeting.into())];
    arguments.extend(own.into_iter().flat_map(|(name, value)| [name.into(), value]));
    arguments.push("--wait-go".into());
    let mut command = options.told.again(&arguments);
    // As torchrun tells its workers who they are.
    command
        .env("RANK", rank.to_string())
        .env("WORLD_SIZE", ranks.to_string())
        .env("MASTER_ADDR", "localhost");
    command
}

/// The directory where the ranks meet; it ends with us.
struct Meeting(PathBuf);

impl Meeting {
    fn new() -> Result<Meeting, PlayError> {
        let dir = std::env::temp_dir().join(format!("warptap-ranks-{}", std::process::id()));
        std::fs::create_dir_all(&dir).map_err(PlayError::file(format!("make {}", dir.display())))?;
        Ok(Meeting(dir))
    }
}

impl Drop for Meeting {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
