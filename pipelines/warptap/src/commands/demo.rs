//! `warptap demo`: shows the whole path on a stub inference server.

use crate::cli::DemoArgs;

/// Does the work of the command.
pub fn run(_args: &DemoArgs) -> anyhow::Result<()> {
    anyhow::bail!("`demo` is not built in yet")
}
