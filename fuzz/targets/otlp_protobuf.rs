//! Decodes arbitrary bytes as an OTLP export request in protobuf. The result is data or an error; data has its
//! declared size when encoded, is decoded to the same data, and has a JSON form.

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
