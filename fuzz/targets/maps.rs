//! /proc/PID/maps, whose paths any process chooses: any bytes are mappings, the same as those of their text.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| capture::testing::read_maps(bytes));
