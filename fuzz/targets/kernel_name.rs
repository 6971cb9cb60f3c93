//! Names of kernels, which processes choose: any text has a short form within its bounds.

#![no_main]

use functions::name::{LENGTH_MAX, demangled, short};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let name = String::from_utf8_lossy(bytes);
    let short = short(&name);
    assert!((1..=LENGTH_MAX).contains(&short.len()) && !short.chars().any(char::is_control));
    let _ = demangled(&name);
});
