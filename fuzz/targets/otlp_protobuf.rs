//! Any bytes as OTLP's protobuf, as a sender's export request: data or an error; and what was read is written
//! in the size it says, read the same, and has a JSON.

#![no_main]

use pdata::{Data, Signal};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let Some((choice, bytes)) = bytes.split_first() else { return };
    let signal = Signal::ALL[usize::from(*choice) % Signal::ALL.len()];
    let Ok(data) = Data::decode(signal, bytes) else { return };
    let encoded = |data: &Data| {
        let mut bytes = Vec::new();
        data.encode(&mut bytes);
        assert_eq!(bytes.len(), data.encoded_len());
        bytes
    };
    let written = encoded(&data);
    let back = Data::decode(signal, &written[..]).expect("what is written is read");
    assert_eq!(encoded(&back), written);
    assert!(pdata::json::encode(&data).starts_with(b"{"));
    let _ = data.items();
});
