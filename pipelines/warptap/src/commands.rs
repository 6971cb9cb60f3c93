//! The commands, one file each. A command takes its arguments and returns when its work is done; what it
//! returns as an error is printed once, by [`crate::main`].

pub mod check;
pub mod components;
pub mod demo;
pub mod featuregate;
mod lines;
pub mod print_config;
mod ranks;
pub mod record;
pub mod replay;
pub mod run;
mod summary;
mod terminal;
pub mod validate;

use config::ConfigError;

use crate::cli::{Cli, Command};
use crate::config::Process;

/// Does what the command line says.
pub fn dispatch(cli: Cli) -> anyhow::Result<()> {
    match cli.command {
        None => run::run(&cli.config),
        Some(Command::Check) => check::run(),
        Some(Command::Components) => components::run(&mut std::io::stdout().lock()),
        Some(Command::Demo(args)) => demo::run(&args),
        Some(Command::Featuregate(args)) => featuregate::run(&args, &mut std::io::stdout().lock()),
        Some(Command::Player(args)) => demo::player(args.arguments),
        Some(Command::PrintConfig(args)) => print_config::run(&args, &Process, &mut std::io::stdout().lock()),
        Some(Command::Record(args)) => record::run(&args),
        Some(Command::Replay(args)) => replay::run(&args),
        Some(Command::Validate(args)) => validate::run(&args, &Process),
    }
}

/// A refused configuration as an error of a command: one line per problem under a heading, so that editors
/// find the places at the beginning of the lines.
pub(crate) fn refused(error: ConfigError) -> anyhow::Error {
    anyhow::anyhow!("invalid configuration:\n{error}")
}
