//! `warptap print-config`: the configuration that the sources come to, merged and expanded, for eyes and logs.
//!
//! Unlike the Collector's command it shows what was written and not what components add by default.

use std::io::Write;

use anyhow::Context as _;
use config::Seen;

use crate::cli::{PrintConfigArgs, PrintFormat, PrintMode};
use crate::commands::refused;
use crate::components::FACTORIES;
use crate::config::{Mode, Outside, Printed, load};
use crate::graph::Plan;
use crate::prepare::VERSION;

/// Prints it, if it is valid or need not be.
pub fn run(args: &PrintConfigArgs, outside: &dyn Outside, out: &mut dyn Write) -> anyhow::Result<()> {
    let loaded = load(&args.config.all()?, outside).map_err(refused)?;
    let seen = Seen::default();
    // Built so that it is known how its values are read: what is a secret is known to its component alone.
    let plan = Plan::build(&loaded.sections(&seen), FACTORIES, VERSION);
    if args.validate {
        plan.map_err(refused)?;
    }
    let mode = match args.mode {
        PrintMode::Redacted => Mode::Redacted,
        PrintMode::Unredacted => Mode::Unredacted,
    };
    let printed = Printed { root: &loaded.root, seen: &seen, mode };
    let text = match args.format {
        PrintFormat::Yaml => printed.to_yaml()?,
        PrintFormat::Json => format!("{}\n", serde_json::to_string_pretty(&printed)?),
    };
    out.write_all(text.as_bytes()).context("cannot print the configuration")
}
