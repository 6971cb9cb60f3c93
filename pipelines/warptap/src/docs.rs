//! The reference of components, made from their rows, so that it cannot differ from what the binary takes.

use std::fmt::Write as _;

use component::{Factory, Stability};

use crate::components::FACTORIES;
use crate::config::Kind;

/// The page `docs/components.md`.
pub fn components() -> String {
    let mut page = String::from(INTRODUCTION);
    section(&mut page, Kind::Receiver, FACTORIES.receivers);
    section(&mut page, Kind::Processor, FACTORIES.processors);
    section(&mut page, Kind::Exporter, FACTORIES.exporters);
    section(&mut page, Kind::Connector, FACTORIES.connectors);
    section(&mut page, Kind::Extension, FACTORIES.extensions);
    page
}

const INTRODUCTION: &str = "\
# Components

Made from the tables of components by `cargo xtask docs`. Keys and defaults are those of the OpenTelemetry Collector's
component of the same name; `warptap validate` tells every key that is not there, and the log every key that is taken
without effect. Older names still load, with a warning.
";

fn section<T: ?Sized>(page: &mut String, kind: Kind, rows: &[Factory<T>]) {
    let title = kind.section();
    let _ = write!(page, "\n## {}{}\n", title[..1].to_uppercase(), &title[1..]);
    rows.iter().for_each(|row| entry(page, kind, row));
}

fn entry<T: ?Sized>(page: &mut String, kind: Kind, row: &Factory<T>) {
    let _ = write!(page, "\n### {}\n\n{}\n\n", row.kind, row.about);
    let mut facts = vec![match row.stability {
        Stability::Alpha => "alpha".to_owned(),
        Stability::Beta => "beta".to_owned(),
        Stability::Stable => "stable".to_owned(),
    }];
    if !row.signals.is_empty() {
        facts.push(row.signals.iter().map(|s| s.name()).collect::<Vec<_>>().join(", "));
    }
    if !row.aliases.is_empty() {
        facts.push(format!("older names: {}", row.aliases.join(", ")));
    }
    let _ = write!(page, "{}\n\n```yaml\n{}:\n  {}:\n", facts.join(" · "), kind.section(), row.kind);
    row.example.lines().for_each(|line| _ = writeln!(page, "    {line}"));
    page.push_str("```\n");
}
