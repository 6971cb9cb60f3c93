//! `warptap featuregate`: prints all feature gates or one of them, in the format of the Collector's command.

use std::io::Write;

use anyhow::{Context as _, bail};

use crate::cli::FeaturegateArgs;
use crate::config::gates::{GATES, Gate, Gates, find};

/// Prints all gates, or the gate with the given id.
pub fn run(args: &FeaturegateArgs, out: &mut dyn Write) -> anyhow::Result<()> {
    let gates = Gates::parse(&args.config.gates).map_err(anyhow::Error::msg)?;
    let Some(id) = &args.id else { return Ok(all(&gates, out)?) };
    match find(id) {
        Some(gate) => one(gate, &gates, out).context("cannot print the gate"),
        None => bail!("feature {id:?} not found"),
    }
}

fn all(gates: &Gates, out: &mut dyn Write) -> std::io::Result<()> {
    let width = GATES.iter().map(|gate| gate.id.len()).max().unwrap_or_default();
    writeln!(out, "{:<width$}  Enabled  Stage  Description", "ID")?;
    for gate in &GATES {
        writeln!(out, "{:<width$}  {:<7}  {:<5}  {}", gate.id, gates.is_on(gate.id), gate.stage, gate.does)?;
    }
    Ok(())
}

fn one(gate: &Gate, gates: &Gates, out: &mut dyn Write) -> std::io::Result<()> {
    writeln!(out, "Feature: {}", gate.id)?;
    writeln!(out, "Enabled: {}", gates.is_on(gate.id))?;
    writeln!(out, "Stage: {}", gate.stage)?;
    writeln!(out, "Description: {}", gate.does)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::ConfigArgs;

    fn printed(id: Option<&str>, gates: &str) -> anyhow::Result<String> {
        let config = ConfigArgs { gates: vec![gates.to_owned()], ..ConfigArgs::default() };
        let mut out = Vec::new();
        run(&FeaturegateArgs { id: id.map(str::to_owned), config }, &mut out)?;
        Ok(String::from_utf8(out)?)
    }

    #[test]
    fn the_table_has_a_line_for_every_gate() {
        let table = printed(None, "service.AllowNoPipelines").unwrap();
        assert_eq!(table.lines().count(), GATES.len() + 1);
        let line = table.lines().find(|line| line.starts_with("service.AllowNoPipelines")).unwrap();
        assert_eq!(line.split_whitespace().nth(1), Some("true"), "{line}");
    }

    #[test]
    fn one_gate_is_shown_or_not_found() {
        let gate = printed(Some("service.profilesSupport"), "").unwrap();
        assert!(
            gate.starts_with("Feature: service.profilesSupport\nEnabled: false\nStage: Alpha\n"),
            "{gate}"
        );
        assert_eq!(printed(Some("x"), "").unwrap_err().to_string(), "feature \"x\" not found");
    }
}
