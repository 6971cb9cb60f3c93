//! Public types of one half of the repository have different names, so that a name can be searched.

use std::collections::BTreeMap;

use super::Finding;
use super::source::Source;

/// A half of the repository, as a list of folders.
type Half = &'static [&'static str];

const HALVES: &[Half] = &[&["ebpf-probes/", "receiver/", "semconv/"], &["pipelines/"]];

/// Names that several crates may give to a public type, since each crate has one and its path says which.
const ALLOWED: &[&str] = &["Config", "Engine", "Finding", "Row", "Settings"];

/// Returns each public type with the same name as another one of its half.
pub fn findings(sources: &[Source]) -> anyhow::Result<Vec<Finding>> {
    Ok(HALVES.iter().flat_map(|half| in_half(sources, half)).collect())
}

fn in_half(sources: &[Source], half: Half) -> Vec<Finding> {
    let mut types: BTreeMap<&str, Vec<(&str, usize)>> = BTreeMap::new();
    let of_half = |s: &&Source| half.iter().any(|folder| s.path.starts_with(folder));
    for source in sources.iter().filter(of_half).filter(|s| s.is_rust() && !s.is_test()) {
        for (line, name) in source.lines().filter_map(|(line, text)| Some((line, public_type(text)?))) {
            types.entry(name).or_default().push((&source.path, line));
        }
    }
    // Definitions in one file are alternatives, such as one per architecture.
    types.values_mut().for_each(|places| places.dedup_by_key(|(path, _)| *path));
    types.retain(|name, places| places.len() > 1 && !ALLOWED.contains(name));
    types.iter().flat_map(|(name, places)| twins(name, places)).collect()
}

/// Returns a finding for each type of `name` except the first, to which it refers.
fn twins(name: &str, places: &[(&str, usize)]) -> Vec<Finding> {
    let Some(((first, at), others)) = places.split_first() else { return Vec::new() };
    let message = format!("the public type {name:?} is also defined in {first}:{at}: give one another name");
    let finding = |(path, line): &(&str, usize)| (path.to_string(), *line, message.clone());
    others.iter().map(finding).map(|(path, line, message)| Finding { path, line, message }).collect()
}

/// Returns the name of the public type that a line declares.
fn public_type(line: &str) -> Option<&str> {
    let rest = line.trim_start().strip_prefix("pub ")?;
    let rest = ["struct ", "enum ", "trait ", "type ", "union "].iter().find_map(|k| rest.strip_prefix(k))?;
    let end = rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len());
    Some(&rest[..end]).filter(|name| !name.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(path: &str, text: &str) -> Source {
        Source { path: path.to_owned(), text: text.to_owned() }
    }

    #[test]
    fn duplicate_public_types_of_a_half_are_found() {
        let sources = [
            source("receiver/a/src/lib.rs", "pub struct Call<T> {\n}\npub struct Settings;"),
            source("ebpf-probes/b/src/lib.rs", "pub struct Settings;\n    pub enum Call {"),
            source("pipelines/c/src/lib.rs", "pub type Call = u8;\npub(crate) enum Call {}"),
            source("receiver/d/tests/e.rs", "pub struct Call;"),
        ];
        let found = findings(&sources).unwrap();
        assert_eq!(found.len(), 1);
        assert_eq!((found[0].path.as_str(), found[0].line), ("ebpf-probes/b/src/lib.rs", 2));
        assert!(found[0].message.contains("receiver/a/src/lib.rs:1"), "{}", found[0].message);
    }
}
