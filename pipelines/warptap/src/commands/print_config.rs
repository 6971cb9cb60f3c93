//! `warptap print-config`: prints the resolved configuration, merged and expanded.
//!
//! Unlike the Collector's command it prints only configured values, without the defaults of components.

use std::io::Write;

use anyhow::Context as _;
use config::Seen;

use crate::cli::{PrintConfigArgs, PrintFormat};
use crate::commands::refused;
use crate::components::FACTORIES;
use crate::config::{Environment, Printed, load};
use crate::graph::Plan;
use crate::prepare::{VERSION, prepare_loaded};

/// Prints the configuration; with `validate`, only if it is valid.
pub fn run(args: &PrintConfigArgs, environment: &dyn Environment, out: &mut dyn Write) -> anyhow::Result<()> {
    let loaded = load(args.config.all()?, environment).map_err(refused)?;
    if args.validate {
        prepare_loaded(loaded.clone(), FACTORIES).map_err(refused)?;
    }
    let seen = Seen::default();
    // Built to learn which values are secret, which only their components know; what is wrong has been reported if asked for.
    _ = Plan::build(&loaded.sections(&seen), FACTORIES, VERSION, None);
    let printed = Printed { root: &loaded.root, seen: &seen, mode: args.mode };
    let text = match args.format {
        PrintFormat::Yaml => printed.to_yaml()?,
        PrintFormat::Json => format!("{}\n", serde_json::to_string_pretty(&printed)?),
    };
    out.write_all(text.as_bytes()).context("cannot print the configuration")
}
