//! `warptap validate`: checks a configuration without opening other files or sockets.

use crate::cli::ConfigArgs;
use crate::commands::refused;
use crate::components::FACTORIES;
use crate::config::Environment;
use crate::prepare::prepare;

/// Returns the problems of the configuration; prints nothing if it is valid.
pub fn run(args: &ConfigArgs, environment: &dyn Environment) -> anyhow::Result<()> {
    prepare(&args.all()?, environment, FACTORIES).map(drop).map_err(refused)
}
