//! Look-up of names in string tables.

use std::collections::HashMap;

use aho_corasick::{AhoCorasick, AhoCorasickKind};

use super::{Elf, ElfError, Section};

/// Maximum number of places at which names are found. A name occurs a few times at most: by itself, with versions, and at
/// the end of other names, since linkers store a name that ends another one only once.
pub(crate) const POSITIONS_MAX: usize = 16_384;

/// Names that are looked for.
pub(crate) struct Names {
    automaton: AhoCorasick,
    longest: usize,
}

impl Names {
    /// Prepares to look for names, each known by its index.
    pub fn new(names: &[&str]) -> Result<Names, ElfError> {
        let kind = Some(AhoCorasickKind::NoncontiguousNFA);
        let automaton = AhoCorasick::builder().kind(kind).build(names);
        let automaton = automaton.map_err(|e| ElfError::Unreadable(e.to_string()))?;
        Ok(Names { automaton, longest: names.iter().map(|name| name.len()).max().unwrap_or(0) })
    }

    /// Returns the positions in a string table at which names begin, with the index of each. A name ends where its string
    /// does, or at the `@` before its version.
    pub fn positions(&self, elf: &Elf<'_>, strings: &Section) -> Result<HashMap<u32, usize>, ElfError> {
        let mut positions = HashMap::new();
        elf.windows(strings, self.longest + 1, |first, window| {
            for found in self.automaton.find_overlapping_iter(window) {
                if matches!(window.get(found.end()), Some(b'\0' | b'@')) {
                    positions.insert((first + found.start()) as u32, found.pattern().as_usize());
                }
            }
            if positions.len() > POSITIONS_MAX { Err(ElfError::Repetitive) } else { Ok(()) }
        })?;
        Ok(positions)
    }
}
