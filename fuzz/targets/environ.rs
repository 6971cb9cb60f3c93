//! Environment and command line of a process: any bytes are arguments, attributes and variables of launchers, within their
//! limits.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let command = process_info::command(bytes);
    assert!(command.len() <= 64 && command.iter().map(String::len).sum::<usize>() <= 8_192);
    let attributes = process_info::environment(bytes);
    let texts = attributes.iter().flat_map(|(key, value)| [key, value]);
    assert!(attributes.len() <= 64 && texts.map(String::len).sum::<usize>() <= 4_096);
    assert!(attributes.iter().all(|(key, _)| !key.is_empty()));
    capture::testing::read_environment(bytes);
});
