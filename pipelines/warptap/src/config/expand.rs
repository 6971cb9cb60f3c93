//! References in values: `${env:NAME:-default}`, `${NAME}`, `${file:path}`, `${yaml:text}`.
//!
//! A value that is a single reference becomes the parsed text of its target, and retains that text for string
//! fields; a reference within a longer text is replaced by the text. Keys are not expanded. `$$` is a literal `$`.
//! Results are expanded repeatedly until nothing changes; the number of rounds and the total size of retrieved text
//! are bounded.

use std::ops::Range;

use config::{Node, Position, Problem, Value};

use super::source::{Environment, Location, Retrieved, is_name};
use super::yaml::DEPTH_MAX;
#[cfg(test)]
use super::yaml::parse as yaml_parse;

/// The maximum number of rounds for one value.
const ROUNDS_MAX: usize = 1000;
/// The maximum cost of all expansions of a load: one unit per byte of text, and [`NODE_COST`] per value.
const COST_MAX: usize = 16 << 20;
const NODE_COST: usize = 32;

/// Expands all values below `root`; returns problems and warnings.
pub(super) fn expand(root: &mut Node, environment: &dyn Environment) -> Findings {
    let mut expander = Expander { environment, cost: 0, findings: Findings::default() };
    expander.node(root, &mut Vec::new());
    expander.findings
}

/// Problems and warnings of an expansion.
#[derive(Default)]
pub(super) struct Findings {
    pub(super) problems: Vec<Problem>,
    pub(super) warnings: Vec<Problem>,
}

struct Expander<'a> {
    environment: &'a dyn Environment,
    cost: usize,
    findings: Findings,
}

/// A value after one round.
enum Round {
    /// There was nothing to expand.
    Same(String),
    /// Another text, which may have more references.
    Text(String),
    /// A parsed value, and its text.
    Value(Node, String),
}

impl Expander<'_> {
    fn node(&mut self, node: &mut Node, path: &mut Vec<String>) {
        match &mut node.value {
            Value::String(text) => {
                let text = std::mem::take(text);
                self.string(node, text, path);
            }
            Value::Sequence(items) => {
                for (index, item) in items.iter_mut().enumerate() {
                    self.below(item, format!("[{index}]"), path);
                }
            }
            Value::Mapping(entries) => {
                for entry in entries {
                    self.below(&mut entry.value, entry.key.clone(), path);
                }
            }
            Value::Null | Value::Bool(_) | Value::Int(_) | Value::Float(_) => {}
        }
    }

    fn below(&mut self, node: &mut Node, step: String, path: &mut Vec<String>) {
        path.push(step);
        if path.len() > DEPTH_MAX {
            let message = format!("expands deeper than {DEPTH_MAX} levels");
            self.problem(&node.position, path, message);
        } else {
            self.node(node, path);
        }
        path.pop();
    }

    /// Expands a text in place until nothing changes.
    fn string(&mut self, node: &mut Node, mut text: String, path: &mut Vec<String>) {
        for _ in 0..ROUNDS_MAX {
            match self.step(text, &node.position) {
                Ok(Round::Text(next)) => text = next,
                Ok(Round::Same(last)) => {
                    if let Some(name) =
                        shell_variable(&last).filter(|name| self.environment.env(name).is_some())
                    {
                        let message =
                            format!("${name} is literal text: write ${{env:{name}}} for the variable");
                        push(&mut self.findings.warnings, Problem::new(node.position.clone(), "", message));
                    }
                    node.value = Value::String(unescape(last));
                    return;
                }
                Ok(Round::Value(value, original)) => {
                    node.text = self.original(original, &node.position);
                    node.value = value.value;
                    self.node(node, path);
                    return;
                }
                Err(message) => {
                    node.value = Value::Null;
                    self.problem(&node.position, path, message);
                    return;
                }
            }
        }
        node.value = Value::Null;
        self.problem(&node.position, path, "too many recursive expansions".to_owned());
    }

    /// Runs one round, which replaces all occurrences of the first reference of `text`.
    fn step(&mut self, text: String, position: &Position) -> Result<Round, String> {
        let Some(range) = find_reference(&text) else { return Ok(Round::Same(text)) };
        let reference = &text[range.clone()];
        let retrieved = self.retrieve(&reference[2..reference.len() - 1], position)?;
        if range.len() < text.len() {
            let inserted = retrieved.text().len() * text.matches(reference).count();
            self.pay(text.len() + inserted)?;
            return Ok(Round::Text(text.replace(reference, retrieved.text())));
        }
        let original = retrieved.text().to_owned();
        let (node, _) = retrieved.read();
        self.pay(NODE_COST * count(&node))?;
        Ok(match node.value {
            Value::String(text) => Round::Text(text),
            _ => Round::Value(node, original),
        })
    }

    /// Expands the text of a parsed value; `None` if that fails, which is an error for string fields only.
    fn original(&mut self, mut text: String, position: &Position) -> Option<String> {
        for _ in 0..ROUNDS_MAX {
            match self.step(text, position).ok()? {
                Round::Same(last) => return Some(unescape(last)),
                Round::Text(next) => text = next,
                Round::Value(..) => return None,
            }
        }
        None
    }

    fn retrieve(&mut self, reference: &str, position: &Position) -> Result<Retrieved, String> {
        let retrieved = Location::of_reference(reference)?.retrieve(self.environment)?;
        self.pay(retrieved.text().len())?;
        if retrieved.is_unset() {
            let message = format!("references the unset environment variable {reference:?}");
            push(&mut self.findings.warnings, Problem::new(position.clone(), "", message));
        }
        Ok(retrieved)
    }

    fn pay(&mut self, cost: usize) -> Result<(), String> {
        self.cost = self.cost.saturating_add(cost);
        match self.cost {
            0..=COST_MAX => Ok(()),
            _ => Err(format!("expansions come to more than {COST_MAX} bytes")),
        }
    }

    fn problem(&mut self, position: &Position, path: &[String], message: String) {
        let path = path.join("::").replace("::[", "[");
        push(&mut self.findings.problems, Problem::new(position.clone(), path, message));
    }
}

/// Adds a finding, up to the maximum number of reported findings of one kind.
fn push(findings: &mut Vec<Problem>, finding: Problem) {
    if findings.len() < 100 {
        findings.push(finding);
    }
}

/// Returns the range of the first reference, including its braces: the innermost before the first `}`.
///
/// An odd number of preceding `$` escapes it. As in the Collector up to v0.159 the search then ends, so later
/// references of the text are not expanded.
fn find_reference(text: &str) -> Option<Range<usize>> {
    let mut start = 0;
    loop {
        let close = start + text[start..].find('}')?;
        if let Some(open) = text[start..close].rfind("${").map(|at| start + at) {
            let dollars = text[start..open].bytes().rev().take_while(|b| *b == b'$').count();
            return dollars.is_multiple_of(2).then_some(open..close + 1);
        }
        start = close + 1;
    }
}

/// Returns the first variable that a shell would expand, which the Collector does not, unless its `$` is escaped.
fn shell_variable(text: &str) -> Option<&str> {
    let mut rest = text;
    while let Some(at) = rest.find('$') {
        rest = &rest[at + 1..];
        if let Some(after) = rest.strip_prefix('$') {
            rest = after;
            continue;
        }
        let name = rest.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').next().unwrap_or_default();
        if is_name(name) {
            return Some(name);
        }
    }
    None
}

fn unescape(text: String) -> String {
    if text.contains("$$") { text.replace("$$", "$") } else { text }
}

/// Returns the number of values in a tree.
fn count(node: &Node) -> usize {
    match &node.value {
        Value::Sequence(items) => 1 + items.iter().map(count).sum::<usize>(),
        Value::Mapping(entries) => 1 + entries.iter().map(|e| count(&e.value)).sum::<usize>(),
        _ => 1,
    }
}

#[cfg(test)]
#[path = "expand_tests.rs"]
mod tests;
