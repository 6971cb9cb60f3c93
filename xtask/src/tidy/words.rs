//! Words that the sources do not use. They come from the glossary in ARCHITECTURE.md: each word in backticks in the
//! last column of its table, with the word to write instead in the first.
//!
//! Identifiers are split into words. In Markdown, text in backticks is a quotation and is ignored, so that the glossary
//! and lists of renamed metrics can show former words.

use std::collections::BTreeMap;

use anyhow::{Context as _, ensure};

use super::Finding;
use super::source::Source;

const GLOSSARY: &str = "ARCHITECTURE.md";
/// The heading above the table.
const HEADING: &str = "## Glossary";

/// Refused words, and the term to use for each.
type Refused = BTreeMap<String, String>;

/// Returns the uses of refused words.
pub fn findings(sources: &[Source]) -> anyhow::Result<Vec<Finding>> {
    let glossary = sources.iter().find(|s| s.path == GLOSSARY).context("there is no ARCHITECTURE.md")?;
    let refused = refused(&glossary.text);
    ensure!(!refused.is_empty(), "{GLOSSARY} has no refused words below {HEADING:?}");
    Ok(sources.iter().flat_map(|source| in_source(source, &refused)).collect())
}

/// Reads the rows `| term | meaning | not |` below the heading.
fn refused(glossary: &str) -> Refused {
    let lines = glossary.lines().skip_while(|line| *line != HEADING).skip(1);
    let rows = lines.take_while(|line| !line.starts_with("## ")).filter_map(|line| {
        let cells: Vec<&str> = line.strip_prefix('|')?.split('|').map(str::trim).collect();
        Some((*cells.first()?, *cells.get(2)?))
    });
    let quoted = |cell: &str| cell.split('`').skip(1).step_by(2).map(str::to_owned).collect::<Vec<_>>();
    rows.flat_map(|(term, not)| quoted(not).into_iter().map(move |word| (word, term.to_owned()))).collect()
}

fn in_source(source: &Source, refused: &Refused) -> Vec<Finding> {
    let is_markdown = source.path.ends_with(".md");
    let mut findings = Vec::new();
    for (line, text) in source.lines() {
        let text = if is_markdown { without_quotations(text) } else { text.to_owned() };
        for (word, term) in words(&text).filter_map(|word| refused.get_key_value(&word)) {
            let message = format!("{word:?} is not used here: write {term:?}, or what the glossary says");
            findings.push(Finding { path: source.path.clone(), line, message });
        }
    }
    findings
}

fn without_quotations(line: &str) -> String {
    line.split('`').step_by(2).collect::<Vec<_>>().join(" ")
}

/// Returns the words of a line in lower case; an identifier is split into its words.
fn words(line: &str) -> impl Iterator<Item = String> {
    line.split(|c: char| !c.is_ascii_alphabetic()).flat_map(humps)
}

/// Splits an identifier such as `CallArgs` before each capital that follows a lower-case letter.
fn humps(run: &str) -> Vec<String> {
    let mut spaced = String::new();
    let mut previous_is_small = false;
    for c in run.chars() {
        if c.is_ascii_uppercase() && previous_is_small {
            spaced.push(' ');
        }
        previous_is_small = c.is_ascii_lowercase();
        spaced.push(c.to_ascii_lowercase());
    }
    spaced.split(' ').map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const GLOSSARY_TEXT: &str = "\
        ## Glossary\n\n| term | meaning | not |\n|---|---|---|\n| report | send | `utter`, utter loudly |\n\
        ## Next\n| a | b | `kept` |\n";

    fn lines_found(path: &str, text: &str) -> Vec<usize> {
        let source = Source { path: path.to_owned(), text: text.to_owned() };
        in_source(&source, &refused(GLOSSARY_TEXT)).into_iter().map(|finding| finding.line).collect()
    }

    #[test]
    fn words_in_backticks_of_the_glossary_are_refused() {
        let refused = refused(GLOSSARY_TEXT);
        assert_eq!(refused.into_iter().collect::<Vec<_>>(), [("utter".to_owned(), "report".to_owned())]);
    }

    #[test]
    fn identifiers_are_read_as_words() {
        let text = "fn utter_enter()\nstruct UtterRecord;\nconst UTTER: u8;\nisUtterHere\nutterance mutter uttered\n";
        assert_eq!(lines_found("a.rs", text), [1, 2, 3, 4]);
    }

    #[test]
    fn quotations_are_allowed_in_markdown_only() {
        assert_eq!(lines_found("a.md", "`utter` is now `report`\nthey utter"), [2]);
        assert_eq!(lines_found("a.rs", "// `utter`"), [1]);
    }
}
