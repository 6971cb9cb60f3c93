//! The reference of components, generated from their rows and key tables.

use std::fmt::Write as _;

use component::{Factory, Stability};
use config::Key;

use crate::components::FACTORIES;
use crate::config::{ComponentKind, ServiceKeys};

/// Returns the page `docs/components.md`.
pub fn components() -> String {
    let mut page = String::from(INTRODUCTION);
    section(&mut page, ComponentKind::Receiver, FACTORIES.receivers);
    section(&mut page, ComponentKind::Processor, FACTORIES.processors);
    section(&mut page, ComponentKind::Exporter, FACTORIES.exporters);
    section(&mut page, ComponentKind::Connector, FACTORIES.connectors);
    section(&mut page, ComponentKind::Extension, FACTORIES.extensions);
    page.push_str(
        "\n## Service\n\nThe section `service`: what runs, and the telemetry of the collector itself.\n",
    );
    page.push_str(HEADER);
    rows(&mut page, "", &config::keys::<ServiceKeys>());
    page
}

const HEADER: &str = "\n| Key | Type | Default | Meaning |\n|---|---|---|---|\n";

const INTRODUCTION: &str = "\
# Components

Generated from the tables of components by `cargo xtask docs`. Keys and defaults are those of the OpenTelemetry
Collector's component of the same name. `warptap validate` reports every unknown key, and the log warns of every key that
is accepted without effect. Older names of components still load, with a warning.

Keys of nested sections are written with `::`. The key `enabled: false` switches an optional section off. The keys of
each item of a list are marked with `[]`, those of each entry of a map with `<name>`. Durations are written with a unit,
such as `200ms` or `1h30m`.
";

fn section<T: ?Sized>(page: &mut String, kind: ComponentKind, rows: &[Factory<T>]) {
    let title = kind.section();
    let _ = write!(page, "\n## {}{}\n", title[..1].to_uppercase(), &title[1..]);
    rows.iter().for_each(|row| entry(page, kind, row));
}

fn entry<T: ?Sized>(page: &mut String, kind: ComponentKind, row: &Factory<T>) {
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
    let keys = (row.keys)();
    if !keys.is_empty() {
        page.push_str(HEADER);
        rows(page, "", &keys);
    }
}

/// Writes a table row per key, each section before its keys.
fn rows(page: &mut String, above: &str, keys: &[Key]) {
    for key in keys {
        let doc = key.doc.split_whitespace().collect::<Vec<_>>().join(" ");
        let doc = key.unused.map_or(doc.clone(), |reason| format!("{doc} **No effect:** {reason}."));
        let default = if key.default.is_empty() { String::new() } else { format!("`{}`", key.default) };
        let kind =
            if key.range.is_empty() { key.kind.clone() } else { format!("{}, {}", key.kind, key.range) };
        let cells = [format!("`{above}{}`", key.name), kind, default, doc];
        let _ = writeln!(page, "| {} |", cells.map(|cell| cell.replace('|', "\\|")).join(" | "));
        if key.unused.is_none() {
            rows(page, &format!("{above}{}{}::", key.name, item(&key.kind)), &key.keys);
        }
    }
}

/// Returns the path suffix of the items of a list or map.
fn item(kind: &str) -> &'static str {
    match kind.split_once(" of ") {
        Some(("list", _)) => "[]",
        Some(("map", _)) => "::<name>",
        _ => "",
    }
}
