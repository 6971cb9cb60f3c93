//! Separate debug files, as distributions install them: `/usr/lib/debug/.build-id/ab/cdef….debug`.
//!
//! The file of a process only says which build it is. Its debug file must be root's, may not be writable by others and must be of the
//! same build. Files by name (`.gnu_debuglink`) are not used: the name is relative to directories that a process chooses, and
//! their checksum is of the whole file.

use std::fmt::Write as _;
use std::fs::File;
use std::os::unix::fs::{FileExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use object::elf::{NT_GNU_BUILD_ID, SHT_NOTE};
use object::read::elf::SectionHeader as _;

use super::Elf;

/// The directory that debuggers look in.
const ROOT: &str = "/usr/lib/debug";
const ROOT_USER: u32 = 0;
/// Bytes of notes that are read; a build id needs 36.
const NOTES_BYTES_MAX: u64 = 4_096;
/// Sections of notes that are read.
const SECTIONS_MAX: usize = 16;
/// Bytes of a build id: those of GNU ld have 20, others 8 to 32.
const ID_BYTES: std::ops::RangeInclusive<usize> = 4..=64;

/// Opens the debug file of a file.
pub(super) fn open(elf: &Elf<'_>) -> Option<File> {
    open_below(Path::new(ROOT), ROOT_USER, elf)
}

pub(super) fn open_below(root: &Path, owner: u32, elf: &Elf<'_>) -> Option<File> {
    let id = build_id(elf)?;
    let path = path(root, &id);
    // A path that leads elsewhere is not opened: a FIFO would wait for a writer.
    let is_trusted =
        |meta: &std::fs::Metadata| meta.is_file() && meta.uid() == owner && meta.mode() & 0o022 == 0;
    std::fs::metadata(&path).ok().filter(&is_trusted)?;
    let flags = rustix::fs::OFlags::NONBLOCK.bits() as i32;
    let file = File::options().read(true).custom_flags(flags).open(path).ok()?;
    file.metadata().ok().filter(&is_trusted)?;
    let is_same = Elf::read(&file).ok().and_then(|debug| build_id(&debug)).is_some_and(|its| its == id);
    is_same.then_some(file)
}

fn path(root: &Path, id: &[u8]) -> PathBuf {
    let mut hex = String::new();
    for byte in id {
        let _ = write!(hex, "{byte:02x}");
    }
    let (directory, name) = hex.split_at(2);
    root.join(".build-id").join(directory).join(format!("{name}.debug"))
}

fn build_id(elf: &Elf<'_>) -> Option<Vec<u8>> {
    let notes = elf.sections.iter().filter(|section| section.sh_type(elf.endian) == SHT_NOTE);
    notes.take(SECTIONS_MAX).find_map(|section| {
        let mut bytes = vec![0; section.sh_size(elf.endian).min(NOTES_BYTES_MAX) as usize];
        elf.file.read_exact_at(&mut bytes, section.sh_offset(elf.endian)).ok()?;
        id_of(&bytes)
    })
}

/// Returns the build id in a section of notes: each has the size of its name, of its contents and its type, and pads both.
fn id_of(mut notes: &[u8]) -> Option<Vec<u8>> {
    let word = |notes: &[u8], at: usize| Some(u32::from_le_bytes(*notes.get(at..)?.first_chunk()?));
    loop {
        let (name_bytes, bytes) = (word(notes, 0)? as usize, word(notes, 4)? as usize);
        let contents = 12usize.checked_add(name_bytes)?.checked_next_multiple_of(4)?;
        let id = notes.get(contents..contents.checked_add(bytes)?)?;
        let is_id = word(notes, 8)? == NT_GNU_BUILD_ID.0 && notes.get(12..16) == Some(b"GNU\0");
        if is_id && name_bytes == 4 && ID_BYTES.contains(&id.len()) {
            return Some(id.to_vec());
        }
        notes = notes.get(contents.checked_add(bytes)?.checked_next_multiple_of(4)?..)?;
    }
}
