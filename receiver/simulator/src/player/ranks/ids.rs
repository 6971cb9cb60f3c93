//! The ids of communicators, which a communicator's first rank creates and its other ranks read from a shared file.
//!
//! Every id has a place of its own in the file, by the name and the number of the communicator. A mark behind the id is
//! written last.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::Path;

use crate::nccl::abi::NcclId;
use crate::ranks::{RankAction, RankScript, RankStatement};

const ID_BYTES: usize = 128;
/// An id and its mark.
const ENTRY_BYTES: usize = ID_BYTES + 1;
/// Communicators of one name. The file is sparse.
const GENERATIONS: u64 = 1 << 20;

/// The shared file.
pub(super) struct Ids {
    file: File,
    names: Vec<String>,
}

impl Ids {
    /// Opens the file that the ranks of a script share.
    pub(super) fn share(path: &Path, script: &RankScript) -> io::Result<Ids> {
        let file = File::options().read(true).write(true).create(true).truncate(false).open(path)?;
        let mut names = Vec::new();
        add_names(&script.body, &mut names);
        Ok(Ids { file, names })
    }

    /// Stores the id of the `generation`-th communicator of a name.
    pub(super) fn put(&self, name: &str, generation: u32, id: &NcclId) -> io::Result<()> {
        let at = self.offset(name, generation);
        self.file.write_all_at(&id.0, at)?;
        self.file.write_all_at(&[1], at + ID_BYTES as u64)
    }

    /// Returns the id of the `generation`-th communicator of a name, once it is stored.
    pub(super) fn get(&self, name: &str, generation: u32) -> Option<NcclId> {
        let mut entry = [0; ENTRY_BYTES];
        self.file.read_exact_at(&mut entry, self.offset(name, generation)).ok()?;
        let [id @ .., 1] = entry else { return None };
        Some(NcclId(id))
    }

    fn offset(&self, name: &str, generation: u32) -> u64 {
        let name = self.names.iter().position(|known| known == name).unwrap_or(self.names.len());
        (name as u64 * GENERATIONS + u64::from(generation) % GENERATIONS) * ENTRY_BYTES as u64
    }
}

/// Adds the names of the communicators that statements create.
fn add_names(body: &[RankStatement], names: &mut Vec<String>) {
    for statement in body {
        match &statement.action {
            RankAction::Comm(name, _) if !names.contains(name) => names.push(name.clone()),
            RankAction::Group(body) | RankAction::Capture(_, body) => add_names(body, names),
            RankAction::Repeat(repeat) => add_names(&repeat.body, names),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_shared_by_name_and_number() {
        let script = crate::ranks::parse("ranks 2\ncomm a\nrepeat 2\ngroup\ncomm b\nend\nend\n").unwrap();
        let path = std::env::temp_dir().join(format!("stubs-ids-{}", std::process::id()));
        let [first, other] = [(); 2].map(|()| Ids::share(&path, &script).unwrap());
        std::fs::remove_file(&path).unwrap();
        let id = |byte| NcclId([byte; 128]);
        first.put("a", 1, &id(1)).unwrap();
        first.put("b", 1, &id(2)).unwrap();
        first.put("b", 2, &id(3)).unwrap();
        let got = |name, generation| other.get(name, generation).map(|id| id.0[0]);
        assert_eq!([got("a", 1), got("b", 1), got("b", 2)], [Some(1), Some(2), Some(3)]);
        assert_eq!([got("a", 2), got("b", 3)], [None, None]);
    }
}
