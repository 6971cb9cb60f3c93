//! `warptap migrate`: what becomes of the configuration of an OpenTelemetry Collector, line by line: what runs here, what a
//! Collector would run, and what differs. Runs nothing but the Collector's own check, if one is named.

use std::io::Write;

use anyhow::Context as _;
use config::{Position, Problem};

use crate::cli::MigrateArgs;
use crate::components::FACTORIES;
use crate::config::{Configured, Environment, Sources, load};
use crate::delegation::{Delegation, Migration};

/// Prints the report; fails if the configuration would not run.
pub fn run(args: &MigrateArgs, environment: &dyn Environment, out: &mut dyn Write) -> anyhow::Result<()> {
    let delegation = Delegation::new(args.collector.clone());
    let sources = Sources { locations: args.files.clone(), delegation, ..Sources::default() };
    let loaded = load(sources, environment).map_err(super::refused)?;
    let migration = Migration::of(&loaded, FACTORIES).map_err(super::refused)?;
    let mut lines: Vec<(Position, String)> = migration.components(&loaded, line);
    lines.extend(migration.notes.iter().map(|p| (p.position.clone(), format!("note: {}", about(p)))));
    lines.extend(migration.problems.iter().map(|p| (p.position.clone(), format!("refused: {}", about(p)))));
    lines.sort_by_key(|(position, _)| (position.source.clone(), position.line, position.column));
    for (position, text) in &lines {
        writeln!(out, "{position}: {text}").context("cannot print the report")?;
    }
    writeln!(out, "{}", migration.summary()).context("cannot print the report")?;
    match migration.problems.len() {
        0 => Ok(()),
        count => anyhow::bail!("{count} problems must be solved before this configuration runs"),
    }
}

fn line(component: &Configured<'_>, runs: &str) -> (Position, String) {
    (component.position.clone(), format!("{}: {runs}", component.path))
}

fn about(problem: &Problem) -> String {
    match problem.path.as_str() {
        "" => problem.message.clone(),
        path => format!("{path}: {}", problem.message),
    }
}
