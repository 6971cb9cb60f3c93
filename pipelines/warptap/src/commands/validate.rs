//! `warptap validate`: everything short of opening a file or socket that is not the configuration itself.

use crate::cli::ConfigArgs;
use crate::commands::refused;
use crate::components::FACTORIES;
use crate::config::Outside;
use crate::prepare::prepare;

/// Says nothing where the configuration is right.
pub fn run(args: &ConfigArgs, outside: &dyn Outside) -> anyhow::Result<()> {
    prepare(&args.all()?, outside, FACTORIES).map(drop).map_err(refused)
}
