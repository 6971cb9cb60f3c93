//! ELF files of traced processes, read in pieces.
//!
//! Such a file may be hostile, or change while it is read. It is never mapped, the number of its headers and the size of its
//! tables are bounded, and tables are read through a buffer of fixed size: nothing but what was looked for is kept.

pub(crate) mod addresses;
mod code;
mod debug_file;
pub(crate) mod functions;
pub(crate) mod names;
pub(crate) mod names_at;
mod registrations;

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;

use object::Endianness;
use object::elf::{FileHeader64, Machine, ProgramHeader64, SectionHeader64, SectionType};
use object::pod::{self, Pod};
use object::read::elf::{FileHeader as _, SectionHeader as _};

/// Maximum size of the tables of one kind in a library; those of libcuda are about 2 MB.
const TABLES_BYTES_MAX: u64 = 256 << 20;
/// Maximum number of section headers, and of program headers; a library has some tens.
const HEADERS_MAX: u16 = 4_096;
/// Bytes of a table that are read at a time.
const WINDOW_BYTES: usize = 64 << 10;

/// An error in reading a file.
#[derive(Debug, thiserror::Error)]
pub enum ElfError {
    /// The file is not an ELF file, or is malformed.
    #[error("not a readable ELF file: {0}")]
    Unreadable(String),
    /// The tables are larger than those of any library.
    #[error("tables of {bytes} bytes: expected at most {TABLES_BYTES_MAX}")]
    TooLarge {
        /// Size of the tables.
        bytes: u64,
    },
    /// The names that are looked for occur more often than in any library.
    #[error(
        "a string table contains the names of functions more than {} times: expected each a few times",
        names::POSITIONS_MAX
    )]
    Repetitive,
}

impl From<io::Error> for ElfError {
    fn from(error: io::Error) -> Self {
        ElfError::Unreadable(error.to_string())
    }
}

impl From<object::Error> for ElfError {
    fn from(error: object::Error) -> Self {
        ElfError::Unreadable(error.to_string())
    }
}

/// A header of a section.
pub(crate) type Section = SectionHeader64<Endianness>;
/// A header of a program.
pub(crate) type Program = ProgramHeader64<Endianness>;

/// A file and its headers.
pub(crate) struct Elf<'f> {
    file: &'f File,
    /// Byte order of the file.
    pub endian: Endianness,
    /// Instruction set of the file.
    pub machine: Machine,
    /// Program headers.
    pub programs: Vec<Program>,
    /// Section headers; the position of a section is its index.
    pub sections: Vec<Section>,
}

impl<'f> Elf<'f> {
    /// Reads the headers of a file.
    pub fn read(file: &'f File) -> Result<Elf<'f>, ElfError> {
        let mut buffer = Buffer::default();
        let header = *FileHeader64::<Endianness>::parse(buffer.read(
            file,
            0,
            size_of::<FileHeader64<Endianness>>(),
        )?)?;
        let endian = header.endian()?;
        let (programs, sections) = (header.e_phnum(endian), header.e_shnum(endian));
        // A file with more headers than fit has their number elsewhere.
        let is_extended = sections == 0 && header.e_shoff(endian) != 0;
        if programs > HEADERS_MAX || sections > HEADERS_MAX || is_extended {
            return Err(ElfError::Unreadable("more headers than any library has".to_owned()));
        }
        Ok(Elf {
            file,
            endian,
            machine: header.e_machine(endian),
            programs: buffer.read_all(file, header.e_phoff(endian), programs.into())?.to_vec(),
            sections: buffer.read_all(file, header.e_shoff(endian), sections.into())?.to_vec(),
        })
    }

    /// Returns the sections of a kind. Refuses a file in which they are larger than those of any library: a sparse file may
    /// be of any length.
    pub fn sections_of(&self, kind: SectionType) -> Result<Vec<&Section>, ElfError> {
        let sections: Vec<&Section> =
            self.sections.iter().filter(|s| s.sh_type(self.endian) == kind).collect();
        let bytes = sections.iter().map(|s| s.sh_size(self.endian)).fold(0, u64::saturating_add);
        if bytes > TABLES_BYTES_MAX { Err(ElfError::TooLarge { bytes }) } else { Ok(sections) }
    }

    /// Returns the section that another one links to.
    pub fn linked(&self, section: &Section) -> Option<&Section> {
        self.sections.get(section.sh_link(self.endian) as usize)
    }

    /// Passes every entry of a table to `look`, with its index.
    pub fn entries<T: Pod>(&self, table: &Section, mut look: impl FnMut(usize, &T)) -> Result<(), ElfError> {
        let (at, bytes) = (table.sh_offset(self.endian), table.sh_size(self.endian) as usize);
        let (count, step) = (bytes / size_of::<T>(), WINDOW_BYTES / size_of::<T>());
        let mut buffer = Buffer::default();
        for first in (0..count).step_by(step) {
            let offset = at.saturating_add((first * size_of::<T>()) as u64);
            let entries = buffer.read_all::<T>(self.file, offset, step.min(count - first))?;
            (first..).zip(entries).for_each(|(index, entry)| look(index, entry));
        }
        Ok(())
    }

    /// Passes the bytes of a table in windows to `look`, each with its position in the table. Each contains the first
    /// `overlap` bytes of the next one, too.
    pub fn windows(
        &self,
        table: &Section,
        overlap: usize,
        mut look: impl FnMut(usize, &[u8]) -> Result<(), ElfError>,
    ) -> Result<(), ElfError> {
        let (at, bytes) = (table.sh_offset(self.endian), table.sh_size(self.endian));
        if bytes > TABLES_BYTES_MAX {
            return Err(ElfError::TooLarge { bytes });
        }
        let (bytes, mut buffer) = (bytes as usize, Buffer::default());
        for first in (0..bytes).step_by(WINDOW_BYTES) {
            let here = (bytes - first).min(WINDOW_BYTES + overlap);
            look(first, buffer.read(self.file, at.saturating_add(first as u64), here)?)?;
        }
        Ok(())
    }
}

/// Bytes read from a file, aligned for every entry of a table.
#[derive(Default)]
struct Buffer(Vec<u64>);

impl Buffer {
    fn read(&mut self, file: &File, at: u64, bytes: usize) -> io::Result<&[u8]> {
        self.0.resize(bytes.div_ceil(size_of::<u64>()), 0);
        let read = &mut pod::bytes_of_slice_mut(&mut self.0)[..bytes];
        file.read_exact_at(read, at)?;
        Ok(read)
    }

    fn read_all<T: Pod>(&mut self, file: &File, at: u64, count: usize) -> io::Result<&[T]> {
        let bytes = self.read(file, at, count * size_of::<T>())?;
        pod::slice_from_all_bytes(bytes).map_err(|()| io::ErrorKind::InvalidData.into())
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;

    /// Returns a file with these bytes, which has no name.
    pub(crate) fn file(bytes: &[u8]) -> File {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("warptap-elf-{}-{number}", std::process::id()));
        let file = File::options().create_new(true).read(true).write(true).open(&path).unwrap();
        std::fs::remove_file(path).unwrap();
        file.write_all_at(bytes, 0).unwrap();
        file
    }

    /// An ELF file for x86-64 with a code segment at address 0, and these symbols: position of the name, and address.
    #[derive(Clone, Copy)]
    pub(crate) struct Image<'a> {
        pub strings: &'a [u8],
        pub exported: &'a [(u32, u64)],
        pub others: &'a [(u32, u64)],
        pub symbol_kind: u8,
    }

    impl Default for Image<'_> {
        fn default() -> Self {
            Image { strings: b"\0", exported: &[], others: &[], symbol_kind: object::elf::STT_FUNC.0 }
        }
    }

    const HEADER_BYTES: usize = 64;
    const PROGRAM_BYTES: usize = 56;

    impl Image<'_> {
        /// Returns where the header of a section is: 1 for the exported symbols, 2 for the strings, 3 for other symbols.
        pub(crate) fn section_header(section: usize) -> usize {
            HEADER_BYTES + PROGRAM_BYTES + 64 * section
        }

        pub(crate) fn bytes(&self) -> Vec<u8> {
            let mut bytes = b"\x7fELF\x02\x01\x01".to_vec();
            bytes.resize(HEADER_BYTES, 0);
            let set = |bytes: &mut Vec<u8>, at: usize, value: u64, width: usize| {
                bytes[at..at + width].copy_from_slice(&value.to_le_bytes()[..width]);
            };
            for (at, value, width) in [
                (0x12, 62, 2),
                (0x14, 1, 4),
                (0x20, HEADER_BYTES, 8),
                (0x28, Image::section_header(0), 8),
                (0x36, PROGRAM_BYTES, 2),
                (0x38, 1, 2),
                (0x3a, 64, 2),
                (0x3c, 4, 2),
            ] {
                set(&mut bytes, at, value as u64, width);
            }
            let segment: [u64; 7] = [0x5_0000_0001, 0, 0, 0, 1 << 20, 1 << 20, 1 << 12];
            bytes.extend(segment.iter().flat_map(|word| word.to_le_bytes()));
            bytes.resize(Image::section_header(4), 0);
            let tables = [
                (1, 11, self.symbols(self.exported)),
                (2, 3, self.strings.to_vec()),
                (3, 2, self.symbols(self.others)),
            ];
            for (section, kind, table) in tables {
                let at = Image::section_header(section);
                for (field, value, width) in
                    [(4, kind, 4), (24, bytes.len(), 8), (32, table.len(), 8), (40, 2, 4), (56, 24, 8)]
                {
                    set(&mut bytes, at + field, value as u64, width);
                }
                bytes.extend(table);
            }
            bytes
        }

        fn symbols(&self, symbols: &[(u32, u64)]) -> Vec<u8> {
            let symbol = |(name, address): &(u32, u64)| {
                let section = u64::from(*address != 0) << 16;
                let head = u64::from(*name) | (u64::from(self.symbol_kind | 0x10) | section) << 32;
                [head, *address, 8].into_iter().flat_map(u64::to_le_bytes)
            };
            symbols.iter().flat_map(symbol).collect()
        }
    }
}
