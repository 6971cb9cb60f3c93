//! Doc comments do not begin with a reference to the previous one, because they are read alone in an IDE.

use super::Finding;
use super::source::Source;

/// Beginnings that refer to the previous item.
const REFUSED: &[&str] = &["The same", "Likewise", "Ditto"];

/// Returns the doc comments with these beginnings.
pub fn findings(sources: &[Source]) -> anyhow::Result<Vec<Finding>> {
    Ok(sources.iter().filter(|source| source.is_rust()).flat_map(in_source).collect())
}

fn in_source(source: &Source) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut previous_is_doc = false;
    for (line, text) in source.lines() {
        let doc = doc_text(text);
        if let Some(beginning) = doc.filter(|_| !previous_is_doc).and_then(refused_beginning) {
            let message = format!("a doc comment begins {beginning:?}: write a sentence that is clear alone");
            findings.push(Finding { path: source.path.clone(), line, message });
        }
        previous_is_doc = doc.is_some();
    }
    findings
}

fn doc_text(line: &str) -> Option<&str> {
    let line = line.trim_start();
    line.strip_prefix("///").or_else(|| line.strip_prefix("//!")).map(str::trim_start)
}

fn refused_beginning(doc: &str) -> Option<&'static str> {
    let follows = |beginning: &str| doc.strip_prefix(beginning).map(|rest| rest.chars().next());
    REFUSED.iter().copied().find(|b| follows(b).is_some_and(|next| next.is_none_or(|c| !c.is_alphanumeric())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_beginnings_of_doc_comments_are_refused() {
        let text = "/// The same of an operation.\nfn a() {}\n/// Takes\n/// The same key.\n//! The same\n// The same";
        let source = Source { path: "a.rs".to_owned(), text: text.to_owned() };
        assert_eq!(in_source(&source).into_iter().map(|f| f.line).collect::<Vec<_>>(), [1]);
        let source = Source { path: "a.rs".to_owned(), text: "//! The same.\n\n/// The samesies".to_owned() };
        assert_eq!(in_source(&source).into_iter().map(|f| f.line).collect::<Vec<_>>(), [1]);
    }
}
