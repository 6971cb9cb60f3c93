//! ELF files that processes map: any bytes are functions and a location of trace contexts, or an error.

#![no_main]

use std::cell::OnceCell;
use std::fs::File;
use std::os::unix::fs::FileExt as _;

use libfuzzer_sys::fuzz_target;

thread_local! {
    /// Reused, since the creation of a file takes longer than its look-up.
    static FILE: OnceCell<File> = const { OnceCell::new() };
}

fuzz_target!(|bytes: &[u8]| {
    FILE.with(|cell| {
        let file = cell.get_or_init(|| tempfile::tempfile_in("/dev/shm").expect("a file in memory"));
        file.set_len(0).and_then(|()| file.write_all_at(bytes, 0)).expect("memory for the file");
        capture::testing::read_elf(file);
    });
});
