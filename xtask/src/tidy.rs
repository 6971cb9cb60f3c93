//! `tidy` checks what the compiler cannot: words, beginnings of doc comments, names of types.
//!
//! Each rule is a row of [`RULES`] and reads all text files that git tracks or would add. A finding has the file,
//! the line and a suggestion.

mod docs;
mod source;
mod types;
mod words;

use std::fmt;

use anyhow::bail;

use self::source::Source;

/// The name of a rule, and the function that returns its findings in all files.
type Rule = (&'static str, fn(&[Source]) -> anyhow::Result<Vec<Finding>>);

const RULES: &[Rule] =
    &[("words", words::findings), ("doc comments", docs::findings), ("type names", types::findings)];

/// A line that breaks a rule.
#[derive(Debug, PartialEq)]
struct Finding {
    path: String,
    line: usize,
    message: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.path, self.line, self.message)
    }
}

/// Runs the command.
pub fn run(arguments: &[String]) -> anyhow::Result<()> {
    if !arguments.is_empty() {
        bail!("tidy takes no arguments: found {arguments:?}");
    }
    let sources = source::all()?;
    let mut count = 0;
    for (name, findings) in RULES {
        for finding in findings(&sources)? {
            println!("{finding} ({name})");
            count += 1;
        }
    }
    match count {
        0 => Ok(()),
        1 => bail!("1 line to change"),
        _ => bail!("{count} lines to change"),
    }
}
