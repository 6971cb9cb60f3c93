//! `warptap record`: records what the probes see to a file.

use crate::cli::RecordArgs;

/// Does the work of the command.
pub fn run(_args: &RecordArgs) -> anyhow::Result<()> {
    anyhow::bail!("`record` is not built in yet")
}
