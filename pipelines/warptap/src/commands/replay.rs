//! `warptap replay`: analyses recordings and profiler traces.

use crate::cli::ReplayArgs;

/// Does the work of the command.
pub fn run(_args: &ReplayArgs) -> anyhow::Result<()> {
    anyhow::bail!("`replay` is not built in yet")
}
