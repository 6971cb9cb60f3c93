//! Control groups, status and mounts of a process, whose names it chooses: any bytes are facts within their limits, or none.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    capture::testing::read_process(bytes);
    let text = String::from_utf8_lossy(bytes);
    if let Some(id) = process_info::container_id(&text) {
        assert!(id.len() == 64 && id.bytes().all(|byte| byte.is_ascii_hexdigit()));
    }
    if let Some(uid) = process_info::pod_uid(&text) {
        assert!(uid.len() == 36 && uid.bytes().all(|byte| byte == b'-' || byte.is_ascii_hexdigit()));
    }
});
