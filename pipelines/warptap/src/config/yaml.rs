//! Parses the first document of a YAML text to a tree with positions, by the rules of go-yaml v3.
//!
//! Aliases are replaced by copies of their anchors, `<<` merges mappings, and a duplicate key is an error. Bounded:
//! the size of the text, the depth of nesting, and the number of values after all copies. Syntax is parsed by
//! `saphyr-parser`; [`super::scalar`] determines the types of scalars.

use std::collections::HashMap;
use std::sync::Arc;

use config::{ConfigError, Entry, Node, Position, Problem, Value};
use saphyr_parser::{Event, Parser, ScalarStyle, Span, Tag};

use super::scalar;

/// The maximum length of a text in bytes.
pub const TEXT_BYTES_MAX: usize = 4 << 20;
/// The maximum nesting of sequences and mappings.
pub const DEPTH_MAX: usize = 100;
/// The maximum number of values of a text, including copies of anchors.
pub const NODES_MAX: usize = 200_000;

/// Parses the first document of `text`; `source` is the prefix of positions. A text without a document is null.
pub fn parse(text: &str, source: &Arc<str>) -> Result<Node, ConfigError> {
    let mut composer = Composer::new(source.clone());
    match composer.run(text) {
        Ok(root) => ConfigError::unless_empty(composer.problems).map(|()| root),
        Err(problem) => {
            composer.problems.push(problem);
            Err(ConfigError::from(composer.problems))
        }
    }
}

/// Builds the tree from the parser's events.
struct Composer {
    source: Arc<str>,
    open: Vec<Open>,
    anchors: HashMap<usize, Option<Tree>>,
    nodes: usize,
    root: Option<Node>,
    problems: Vec<Problem>,
}

/// A complete value and its size.
#[derive(Clone)]
struct Tree {
    node: Node,
    /// The number of its values.
    nodes: usize,
    /// The levels of nested sequences and mappings.
    height: usize,
}

/// A sequence or mapping that is not complete yet.
struct Open {
    position: Position,
    anchor: usize,
    nodes_before: usize,
    height: usize,
    content: Content,
}

enum Content {
    Sequence(Vec<Node>),
    Mapping(Box<Mapping>),
}

#[derive(Default)]
struct Mapping {
    entries: Vec<Entry>,
    /// The values of `<<` keys, in order of precedence.
    merged: Vec<Node>,
    /// The lines of the keys so far.
    lines: HashMap<String, u32>,
    /// The key whose value follows.
    key: Option<Key>,
}

struct Key {
    text: String,
    position: Position,
    is_merge: bool,
}

impl Composer {
    fn new(source: Arc<str>) -> Self {
        let (open, anchors, problems) = (Vec::new(), HashMap::new(), Vec::new());
        Composer { source, open, anchors, nodes: 0, root: None, problems }
    }

    fn run(&mut self, text: &str) -> Result<Node, Problem> {
        let start = self.at(1, 1);
        if text.len() > TEXT_BYTES_MAX {
            let len = text.len();
            return Err(Problem::new(start, "", format!("{len} bytes: expected {TEXT_BYTES_MAX} at most")));
        }
        let mut parser = Parser::new_from_str(text);
        while let Some(event) = parser.next_event() {
            let (event, span) = event.map_err(|e| {
                let mark = e.marker();
                wrong(self.at(mark.line(), mark.col() + 1), e.info())
            })?;
            if matches!(event, Event::DocumentEnd | Event::StreamEnd) {
                break;
            }
            self.take(event, span)?;
        }
        Ok(self.root.take().unwrap_or_else(|| Node::new(Value::Null, start)))
    }

    fn at(&self, line: usize, column: usize) -> Position {
        let number = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
        Position { source: self.source.clone(), line: number(line.max(1)), column: number(column) }
    }

    fn take(&mut self, event: Event<'_>, span: Span) -> Result<(), Problem> {
        let position = self.at(span.start.line(), span.start.col() + 1);
        match event {
            Event::Scalar(text, style, anchor, tag) => {
                self.scalar(&text, style, anchor, tag.as_deref(), position)
            }
            Event::SequenceStart(anchor, _) => self.open(position, anchor, Content::Sequence(Vec::new())),
            Event::MappingStart(anchor, _) => self.open(position, anchor, Content::Mapping(Box::default())),
            Event::SequenceEnd | Event::MappingEnd => self.close(),
            Event::Alias(anchor) => self.alias(anchor, position),
            _ => Ok(()),
        }
    }

    fn scalar(
        &mut self,
        text: &str,
        style: ScalarStyle,
        anchor: usize,
        tag: Option<&Tag>,
        position: Position,
    ) -> Result<(), Problem> {
        let is_plain = style == ScalarStyle::Plain && tag.is_none();
        if is_plain && text == "<<" && self.expects_key() {
            return self.key(Key { text: text.to_owned(), position, is_merge: true });
        }
        self.count(1, &position)?;
        let value = tagged(text, style, tag).map_err(|why| wrong(position.clone(), &why))?;
        let tree = Tree { node: Node::new(value, self.place(position, text)), nodes: 1, height: 0 };
        self.complete(anchor, tree)
    }

    /// Returns the position of a value; an absent value has that of its key.
    fn place(&self, position: Position, text: &str) -> Position {
        match self.open.last().map(|open| &open.content) {
            Some(Content::Mapping(mapping)) if text.is_empty() => {
                mapping.key.as_ref().map_or(position, |key| key.position.clone())
            }
            _ => position,
        }
    }

    fn expects_key(&self) -> bool {
        let content = self.open.last().map(|open| &open.content);
        matches!(content, Some(Content::Mapping(mapping)) if mapping.key.is_none())
    }

    fn open(&mut self, position: Position, anchor: usize, content: Content) -> Result<(), Problem> {
        self.fits(1, &position)?;
        self.count(1, &position)?;
        if anchor > 0 {
            self.anchors.insert(anchor, None);
        }
        self.open.push(Open { position, anchor, nodes_before: self.nodes - 1, height: 1, content });
        Ok(())
    }

    fn close(&mut self) -> Result<(), Problem> {
        let Some(open) = self.open.pop() else { return Ok(()) };
        let value = match open.content {
            Content::Sequence(items) => Value::Sequence(items),
            Content::Mapping(mapping) => Value::Mapping(mapping.finish()),
        };
        let nodes = self.nodes - open.nodes_before;
        self.complete(open.anchor, Tree { node: Node::new(value, open.position), nodes, height: open.height })
    }

    fn alias(&mut self, anchor: usize, position: Position) -> Result<(), Problem> {
        let tree = match self.anchors.get(&anchor) {
            Some(Some(tree)) => tree,
            Some(None) => return Err(wrong(position, "anchor value contains itself")),
            None => return Err(wrong(position, "unknown anchor referenced")),
        };
        // The size is checked before the copy is made.
        let (nodes, height) = (tree.nodes, tree.height);
        self.fits(height, &position)?;
        self.count(nodes, &position)?;
        let tree = self.anchors.get(&anchor).cloned().flatten();
        tree.map_or(Ok(()), |tree| self.put(tree))
    }

    fn fits(&self, height: usize, position: &Position) -> Result<(), Problem> {
        match self.open.len() + height {
            0..=DEPTH_MAX => Ok(()),
            _ => Err(wrong(position.clone(), &format!("nested deeper than {DEPTH_MAX} levels"))),
        }
    }

    fn count(&mut self, nodes: usize, position: &Position) -> Result<(), Problem> {
        self.nodes += nodes;
        match self.nodes {
            0..=NODES_MAX => Ok(()),
            _ => Err(wrong(position.clone(), &format!("more than {NODES_MAX} values"))),
        }
    }

    fn complete(&mut self, anchor: usize, tree: Tree) -> Result<(), Problem> {
        if anchor > 0 {
            self.anchors.insert(anchor, Some(tree.clone()));
        }
        self.put(tree)
    }

    /// Adds a complete value to the innermost incomplete one: as an item, a key or a value.
    fn put(&mut self, tree: Tree) -> Result<(), Problem> {
        if self.expects_key() {
            let position = tree.node.position.clone();
            let text = key_text(tree.node.value).ok_or_else(|| wrong(position.clone(), "invalid map key"))?;
            return self.key(Key { text, position, is_merge: false });
        }
        let Some(open) = self.open.last_mut() else {
            self.root = Some(tree.node);
            return Ok(());
        };
        open.height = open.height.max(tree.height + 1);
        match &mut open.content {
            Content::Sequence(items) => items.push(tree.node),
            Content::Mapping(mapping) => mapping.value(tree.node)?,
        }
        Ok(())
    }

    /// Adds a key; a duplicate is a problem.
    fn key(&mut self, key: Key) -> Result<(), Problem> {
        let Some(Open { content: Content::Mapping(mapping), .. }) = self.open.last_mut() else {
            return Ok(());
        };
        if let Some(line) = mapping.lines.insert(key.text.clone(), key.position.line) {
            let why = format!("mapping key {:?} already defined at line {line}", key.text);
            self.problems.push(wrong(key.position.clone(), &why));
        }
        mapping.key = Some(key);
        Ok(())
    }
}

impl Mapping {
    fn value(&mut self, node: Node) -> Result<(), Problem> {
        match self.key.take() {
            Some(key) if key.is_merge => self.merged.extend(mappings_of(node)?),
            Some(key) => self.entries.push(Entry { key: key.text, position: key.position, value: node }),
            None => {}
        }
        Ok(())
    }

    /// Adds the entries of `<<` whose keys the mapping does not have; the first has precedence.
    fn finish(self) -> Vec<Entry> {
        let Mapping { mut entries, merged, mut lines, .. } = self;
        for entry in merged.into_iter().flat_map(into_entries) {
            if lines.insert(entry.key.clone(), entry.position.line).is_none() {
                entries.push(entry);
            }
        }
        entries
    }
}

/// Returns a mapping, or the mappings of a sequence.
fn mappings_of(node: Node) -> Result<Vec<Node>, Problem> {
    let position = node.position.clone();
    let mappings = match node.value {
        Value::Mapping(_) => vec![node],
        Value::Sequence(items) => items,
        _ => Vec::new(),
    };
    match mappings.iter().all(|m| matches!(m.value, Value::Mapping(_))) && !mappings.is_empty() {
        true => Ok(mappings),
        false => Err(wrong(position, "map merge requires map or sequence of maps as the value")),
    }
}

fn into_entries(node: Node) -> Vec<Entry> {
    match node.value {
        Value::Mapping(entries) => entries,
        _ => Vec::new(),
    }
}

/// Returns the text of a key; numbers and bools are converted to text.
fn key_text(value: Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text),
        Value::Int(i) => Some(i.to_string()),
        Value::Bool(b) => Some(b.to_string()),
        Value::Float(f) => Some(f.to_string()),
        Value::Null => Some("<nil>".to_owned()),
        Value::Sequence(_) | Value::Mapping(_) => None,
    }
}

/// Returns the value of a quoted or tagged scalar.
fn tagged(text: &str, style: ScalarStyle, tag: Option<&Tag>) -> Result<Value, String> {
    let string = || Value::String(text.to_owned());
    let Some(tag) = tag else {
        return Ok(if style == ScalarStyle::Plain { scalar::resolve(text) } else { string() });
    };
    let resolved = scalar::resolve(text);
    match (core_tag(tag), resolved) {
        (Some("str" | "timestamp" | "merge"), _) | (None, _) => Ok(string()),
        (Some("!"), resolved) if style == ScalarStyle::Plain => Ok(resolved),
        (Some("!"), _) => Ok(string()),
        (Some("null"), Value::Null) => Ok(Value::Null),
        (Some("bool"), Value::Bool(b)) => Ok(Value::Bool(b)),
        (Some("int"), Value::Int(i)) => Ok(Value::Int(i)),
        (Some("float"), Value::Int(i)) => Ok(Value::Float(i as f64)),
        (Some("float"), Value::Float(f)) => Ok(Value::Float(f)),
        (Some(tag), _) => Err(format!("cannot decode `{text}` as a !!{tag}")),
    }
}

/// Returns the name of a core tag, or `!` for the non-specific tag; `None` for other tags.
fn core_tag(tag: &Tag) -> Option<&str> {
    match (tag.handle.as_str(), tag.suffix.as_str()) {
        ("tag:yaml.org,2002:", name) => Some(name),
        ("", full) if full.starts_with("tag:yaml.org,2002:") => full.strip_prefix("tag:yaml.org,2002:"),
        ("", "!") | ("!", "") => Some("!"),
        _ => None,
    }
}

fn wrong(position: Position, why: &str) -> Problem {
    Problem::new(position, "", format!("yaml: {why}"))
}

#[cfg(test)]
#[path = "yaml_tests.rs"]
mod tests;
