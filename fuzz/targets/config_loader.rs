//! Any bytes as a configuration: text, variables and files. See `warptap::hostile` for what must hold.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| warptap::hostile::check(data));
