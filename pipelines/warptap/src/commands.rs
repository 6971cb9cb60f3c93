//! The commands, one file each. A command returns when its work is done; [`crate::main`] prints its error.

pub mod check;
pub mod components;
pub mod demo;
pub mod featuregate;
mod lines;
pub mod migrate;
mod output;
pub mod print_config;
mod ranks;
pub mod record;
pub mod replay;
pub mod run;
mod summary;
mod terminal;
pub mod unpin;
pub mod validate;

use config::ConfigError;

use crate::cli::{Cli, Command};
use crate::config::Process;
use crate::delegation::guard;

/// Runs the command of the command line.
pub fn dispatch(cli: Cli) -> anyhow::Result<()> {
    match cli.command {
        None => run::run(&cli.config),
        Some(Command::Check) => check::run(),
        Some(Command::Components(args)) => components::run(&args, &mut std::io::stdout().lock()),
        Some(Command::Demo(args)) => demo::run(&args),
        Some(Command::Featuregate(args)) => featuregate::run(&args, &mut std::io::stdout().lock()),
        Some(Command::ExecCollector) => guard::stage().map_err(anyhow::Error::msg),
        Some(Command::Guard) => unpin::guard(),
        Some(Command::GuardCollector) => {
            std::process::exit(guard::guard().map_err(anyhow::Error::msg)?.into())
        }
        Some(Command::Migrate(args)) => migrate::run(&args, &Process, &mut std::io::stdout().lock()),
        Some(Command::Player(args)) => demo::player(args.arguments),
        Some(Command::PrintConfig(args)) => print_config::run(&args, &Process, &mut std::io::stdout().lock()),
        Some(Command::Record(args)) => record::run(&args),
        Some(Command::Replay(args)) => replay::run(&args),
        Some(Command::Unpin(args)) => unpin::run(&args, &mut std::io::stdout().lock()),
        Some(Command::Validate(args)) => validate::run(&args, &Process),
    }
}

/// Converts configuration problems to an error of a command: a heading and one line per problem, which begins with its
/// position, so that editors recognize it.
pub(crate) fn refused(error: ConfigError) -> anyhow::Error {
    anyhow::anyhow!("invalid configuration:\n{error}")
}
