//! `docs` generates docs/components.md from the tables of components.

use std::process::Command;

use anyhow::{Context as _, ensure};

use crate::root;

/// Runs the test that compares the page, in the mode that updates it.
pub fn run(_: &[String]) -> anyhow::Result<()> {
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo
        .current_dir(root())
        .env("WARPTAP_WRITE_DOCS", "1")
        .args(["test", "-q", "-p", "warptap", "--test", "docs"]);
    ensure!(cargo.status().context("cannot run cargo")?.success(), "the tests of the reference fail");
    Ok(())
}
