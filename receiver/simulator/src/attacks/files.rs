//! Files that are mapped: as libraries that are none, very often, or replaced meanwhile.

use std::ffi::CString;
use std::fs::{self, File};
use std::io;
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::FileExt as _;
use std::path::Path;

use super::is_over;

const PAGE: usize = 4096;
const CODE: libc::c_int = libc::PROT_READ | libc::PROT_EXEC;
/// Mappings of one file, unless the kernel allows fewer (`vm.max_map_count`), and those that are left for others.
const MAPPINGS: usize = 100_000;
const MAPPINGS_LEFT: usize = 1_000;
/// Size of the sparse file: a terabyte.
const SPARSE_BYTES: u64 = 1 << 40;
/// Where the tables of ELF files begin.
const TABLES_AT: u64 = 4096;

/// Maps a page of a file as code. Panics if the kernel refuses.
pub fn map(path: &Path) {
    map_page(path, CODE);
}

fn map_page(path: &Path, protection: libc::c_int) -> *mut libc::c_void {
    let file = File::open(path).expect("the file can be read");
    // SAFETY: the kernel chooses the address, and nothing accesses the memory.
    let at =
        unsafe { libc::mmap(std::ptr::null_mut(), PAGE, protection, libc::MAP_PRIVATE, file.as_raw_fd(), 0) };
    assert_ne!(at, libc::MAP_FAILED, "{}", io::Error::last_os_error());
    at
}

pub(super) fn map_all(paths: &[&Path]) {
    paths.iter().for_each(|path| map(path));
}

/// Maps a library and then, as data, very often another file. The kernel does not join mappings of the same page.
pub(super) fn map_many(paths: &[&Path]) {
    let [library, file] = paths else { panic!("expected a library and another file, not {paths:?}") };
    map(library);
    let allowed = fs::read_to_string("/proc/sys/vm/max_map_count").ok();
    let allowed = allowed.and_then(|text| text.trim().parse::<usize>().ok()).unwrap_or(MAPPINGS);
    for _ in 0..MAPPINGS.min(allowed.saturating_sub(MAPPINGS_LEFT)) {
        map_page(file, libc::PROT_READ);
    }
}

/// Maps a number of new files in a directory that have the names of a library, and are none.
pub(super) fn map_junk(paths: &[&Path]) {
    let [dir, count] = paths else { panic!("expected a directory and a number, not {paths:?}") };
    let count: usize = count.to_str().and_then(|count| count.parse().ok()).expect("a number");
    (0..count).for_each(|number| {
        map(&junk(dir, number));
    });
}

/// Creates a file with the name of a library, which is none.
pub(super) fn junk(dir: &Path, number: usize) -> std::path::PathBuf {
    let path = dir.join(format!("libcudart-{:x}{number:03x}.so.12", std::process::id()));
    fs::write(&path, [0; PAGE]).expect("the directory can be written");
    path
}

/// Maps a file, removes it, and leaves a FIFO at the path that the kernel reports of the mapping from then on.
pub(super) fn leave_fifo(paths: &[&Path]) {
    for path in paths {
        map(path);
        fs::remove_file(path).expect("the file is the user's own");
        let fifo = CString::new(format!("{} (deleted)", path.display())).expect("no zero byte");
        // SAFETY: the pointer is to a string that ends with a zero byte.
        let made = unsafe { libc::mkfifo(fifo.as_ptr(), 0o600) };
        assert_eq!(made, 0, "{}", io::Error::last_os_error());
    }
}

/// Until the input ends, replaces a library again and again and maps it each time: by itself, by half of it in the same file, by
/// zeros in another, and by itself with other contents in place of its first functions.
pub(super) fn replace_and_map(paths: &[&Path]) {
    let [library] = paths else { panic!("expected a library, not {paths:?}") };
    let (whole, next) = (fs::read(library).expect("the file can be read"), library.with_extension("next"));
    let replace_by = |content: &[u8]| fs::write(&next, content).and_then(|()| fs::rename(&next, library));
    super::announce();
    while !is_over() {
        let first = map_page(library, CODE);
        let file = File::options().write(true).open(library).expect("the file is the user's own");
        let shortened =
            file.set_len(whole.len() as u64 / 2).and_then(|()| file.write_all_at(&[0xcc; PAGE], PAGE as u64));
        shortened.and_then(|()| replace_by(&[0; PAGE])).expect("the file can be written");
        let second = map_page(library, CODE);
        replace_by(&whole).expect("the file can be written");
        for at in [first, second, map_page(library, CODE)] {
            // SAFETY: the page was mapped above, and nothing refers to it.
            unsafe { libc::munmap(at, PAGE) };
        }
    }
}

/// Writes a sparse file of a terabyte, which is an ELF file whose symbols and names are all of it.
pub fn install_oversized(path: &Path) -> io::Result<()> {
    let all = (TABLES_AT, SPARSE_BYTES - TABLES_AT);
    let file = File::create(path)?;
    file.write_all_at(&elf_headers(all, all), 0)?;
    file.set_len(SPARSE_BYTES)
}

/// Writes an ELF file of 6.5 MB with 100,000 symbols, whose names are of up to 4 MB each: parts of the same bytes.
pub fn install_long_names(path: &Path) -> io::Result<()> {
    let names = vec![b'x'; 4 << 20];
    let symbol = |number: u32| [number * 40, 0x1_0012, 0x1000, 0, 8, 0].map(u32::to_le_bytes).concat();
    let symbols: Vec<u8> = (0..100_000).flat_map(symbol).collect();
    let symbols_at = TABLES_AT + names.len() as u64;
    let file = File::create(path)?;
    file.write_all_at(&elf_headers((symbols_at, symbols.len() as u64), (TABLES_AT, names.len() as u64)), 0)?;
    file.write_all_at(&names, TABLES_AT)?;
    file.write_all_at(&symbols, symbols_at)
}

/// Returns the headers (elf(5)) of a file for x86-64 with exported symbols and their names at these offsets, of these sizes.
fn elf_headers(symbols: (u64, u64), names: (u64, u64)) -> Vec<u8> {
    let mut head = vec![0_u8; 64 + 3 * 64];
    let mut set = |at: usize, value: u64, bytes: usize| {
        head[at..at + bytes].copy_from_slice(&value.to_le_bytes()[..bytes]);
    };
    // Class, byte order and version; machine; offset, size and number of the section headers.
    for (at, value, bytes) in
        [(0, 0x0001_0102_464c_457f, 7), (0x12, 62, 2), (0x28, 64, 8), (0x3a, 64, 2), (0x3c, 3, 2)]
    {
        set(at, value, bytes);
    }
    // Type, offset, size, the section with the names, and the size of an entry.
    for (section, kind, (offset, size)) in [(1, 11, symbols), (2, 3, names)] {
        for (at, value, bytes) in [(4, kind, 4), (24, offset, 8), (32, size, 8), (40, 2, 4), (56, 24, 8)] {
            set(64 + section * 64 + at, value, bytes);
        }
    }
    head
}
