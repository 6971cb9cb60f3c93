//! Plays a script of ranks: starts a process per rank and controls them.
//!
//! A rank's process is a player like any other. The ranks communicate by files: a page that the stub libraries share, the
//! ids of communicators, and the last turns of loops. The directory of these files is removed once all ranks have opened
//! them.

mod ids;
mod last_turn;
mod rank;

use std::path::Path;

use super::options::Options;
use super::protocol::{self, Player};
use super::temporary::TemporaryDir;
use super::{PlayError, ProtocolError, StubDir};
use crate::ranks::RankScript;

pub(super) use rank::play;

/// Starts all ranks and controls them: reports ready when all are, and done with the calls of all.
pub(super) fn lead(script: &RankScript, options: &Options, stubs: StubDir) -> Result<(), PlayError> {
    let meeting =
        TemporaryDir::create("ranks").map_err(PlayError::file("create a directory for the ranks"))?;
    let failed = |e: ProtocolError| PlayError::Usage(format!("a rank failed: {e}"));
    let mut ranks = Vec::new();
    for rank in 0..script.ranks {
        ranks.push(
            Player::start(command(options, stubs.path(), meeting.path(), rank, script.ranks))
                .map_err(failed)?,
        );
    }
    drop(meeting);
    if !protocol::ready(options.wait_go) {
        return Ok(());
    }
    let _stubs = stubs.needed_after_start(options);
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
