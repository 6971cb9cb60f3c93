//! The commands of this repository: `cargo xtask COMMAND`. A command is a row of [`COMMANDS`].

#![expect(clippy::print_stdout, reason = "a command for the terminal")]

mod bpf;
mod check;
mod docs;
mod semconv;
mod tidy;

use std::path::{Path, PathBuf};
use std::sync::LazyLock;

/// The name of a command, its description, and its function of the remaining arguments.
type Command = (&'static str, &'static str, fn(&[String]) -> anyhow::Result<()>);

/// The commands, sorted by name.
const COMMANDS: &[Command] = &[
    ("bpf", "builds the kernel programs; --check compares them with the committed objects", bpf::run),
    ("check", "runs the whole gate: format, lints, licences, generated files, tests", check::run),
    ("docs", "generates docs/components.md from the tables of components", docs::run),
    ("semconv", "generates the code and the documentation of semconv from its registry", semconv::run),
    ("tidy", "checks the words, doc comments and type names of the sources", tidy::run),
];

fn main() -> anyhow::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let name = arguments.first().map_or("", String::as_str);
    match COMMANDS.iter().find(|(n, ..)| *n == name) {
        Some((_, _, run)) => run(&arguments[1..]),
        None => anyhow::bail!("no command {name:?}: expected one of\n{}", usage()),
    }
}

fn usage() -> String {
    COMMANDS.iter().map(|(name, about, _)| format!("  {name:<10} {about}\n")).collect()
}

/// Returns the root of the repository in which cargo runs the program. It may differ from the one in which it was
/// built if two checkouts share a target folder.
fn root() -> &'static Path {
    static ROOT: LazyLock<PathBuf> = LazyLock::new(|| {
        let built_from = || env!("CARGO_MANIFEST_DIR").into();
        let package = std::env::var_os("CARGO_MANIFEST_DIR").map_or_else(built_from, PathBuf::from);
        package.parent().expect("the package lies in the root of the repository").to_owned()
    });
    &ROOT
}
