//! The collector binary as a library, for tests and fuzz targets.
//!
//! A configuration is built into a plan, and a plan is started as a graph; all configuration problems are reported
//! before data moves. Only this crate knows YAML and the command line; components are in their own crates.

pub mod cli;
mod collector;
pub mod commands;
pub mod components;
pub mod config;
pub mod delegation;
pub mod docs;
pub mod graph;
pub mod hostile;
mod logging;
mod nop;
pub mod prepare;
mod printable;
pub mod privileges;
pub mod telemetry;

use std::io::Write as _;
use std::process::ExitCode;

use clap::Parser as _;

use printable::printable_lines;

/// Runs the command line of this process; prints an error to standard error and returns exit code 1.
pub fn main() -> ExitCode {
    match commands::dispatch(cli::Cli::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // Nothing can be done if standard error is closed.
            _ = writeln!(std::io::stderr(), "Error: {}", printable_lines(&format!("{error:#}")));
            ExitCode::FAILURE
        }
    }
}
