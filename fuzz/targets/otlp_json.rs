//! Any bytes as OTLP's JSON: data or an error; and what was read is written as what is read the same.

#![no_main]

use pdata::Signal;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let Some((choice, bytes)) = bytes.split_first() else { return };
    let signal = Signal::ALL[usize::from(*choice) % Signal::ALL.len()];
    let Ok(data) = pdata::json::decode(signal, bytes) else { return };
    let json = pdata::json::encode(&data);
    let back = pdata::json::decode(signal, &json).expect("what is written is read");
    assert_eq!(pdata::json::encode(&back), json);
    let mut proto = Vec::new();
    data.encode(&mut proto);
    pdata::Data::decode(signal, &proto[..]).expect("the next hop reads it too");
});
