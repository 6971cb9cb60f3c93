//! The collector binary as a library, so that tests and fuzz targets reach what `main` runs.
//!
//! The one idea: configuration becomes a plan, a plan becomes a running graph, and everything wrong is told
//! before data moves. This crate alone knows YAML and the command line; what components do is left to theirs.

pub mod cli;
mod collector;
pub mod commands;
pub mod components;
pub mod config;
pub mod docs;
pub mod graph;
pub mod hostile;
mod logging;
pub mod prepare;
pub mod telemetry;

use std::io::Write as _;
use std::process::ExitCode;

use clap::Parser as _;

/// Runs the command line of this process; what goes wrong is printed and ends it with 1.
pub fn main() -> ExitCode {
    match commands::dispatch(cli::Cli::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // Nothing is left to do where standard error is closed.
            _ = writeln!(std::io::stderr(), "Error: {error:#}");
            ExitCode::FAILURE
        }
    }
}
