//! The text files of the repository that rules read.

use std::process::Command;

use anyhow::{Context as _, ensure};

use crate::root;

/// The extensions of these files.
const ENDINGS: &[&str] = &[".js", ".md", ".mjs", ".py", ".rs", ".script", ".sh", ".toml", ".yaml", ".yml"];

/// A file and its text.
#[derive(Debug)]
pub struct Source {
    /// The path relative to the root of the repository.
    pub path: String,
    /// The text of the file.
    pub text: String,
}

impl Source {
    /// Returns the lines with their numbers, from 1.
    pub fn lines(&self) -> impl Iterator<Item = (usize, &str)> {
        self.text.lines().zip(1..).map(|(line, number)| (number, line))
    }

    /// Returns whether the file is Rust code.
    pub fn is_rust(&self) -> bool {
        self.path.ends_with(".rs")
    }

    /// Returns whether the file contains only tests or test support.
    pub fn is_test(&self) -> bool {
        let path = &self.path;
        path.starts_with("otel-conformance-tests/")
            || ["/tests/", "/testing/", "/benches/"].iter().any(|folder| path.contains(folder))
            || ["tests.rs", "testing.rs"].iter().any(|ending| path.ends_with(ending))
    }
}

/// Reads all files that git tracks, and new ones that it does not ignore.
pub fn all() -> anyhow::Result<Vec<Source>> {
    let mut git = Command::new("git");
    git.current_dir(root()).args(["ls-files", "--cached", "--others", "--exclude-standard", "-z"]);
    let output = git.output().context("cannot run git")?;
    ensure!(output.status.success(), "git ls-files: {}", String::from_utf8_lossy(&output.stderr).trim());
    let paths = String::from_utf8(output.stdout).context("a path is not UTF-8")?;
    let paths = paths.split('\0').filter(|path| ENDINGS.iter().any(|ending| path.ends_with(ending)));
    paths.filter(|path| root().join(path).exists()).map(read).collect()
}

fn read(path: &str) -> anyhow::Result<Source> {
    let text = std::fs::read_to_string(root().join(path)).with_context(|| format!("cannot read {path}"))?;
    Ok(Source { path: path.to_owned(), text })
}
