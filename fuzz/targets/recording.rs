//! Recordings: any bytes are read to an end or an error, and the events can be written and read again.
//!
//! Since a fuzzer does not guess checksums, the bytes are also read as payloads of valid frames.

#![no_main]

use recording::{Info, Reader, Writer};
use event::{Event, EventSource};
use libfuzzer_sys::fuzz_target;

fn read(bytes: &[u8]) -> Vec<Event> {
    let mut events = Vec::new();
    let Ok(mut reader) = Reader::open(bytes) else { return events };
    while let Ok(true) = reader.read(&mut events) {}
    assert!(matches!(reader.read(&mut events), Ok(false)), "there are no events after the end or an error");
    events
}

fn written(events: &[Event]) -> Vec<u8> {
    let mut writer = Writer::begin(Vec::new(), &Info::default()).expect("memory takes all");
    for event in events {
        writer.write(event).expect("memory takes all");
    }
    writer.finish().expect("memory takes all")
}

/// Returns the bytes as frames, each from a kind, a length and a payload.
fn framed(mut bytes: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    drop(Writer::begin(&mut out, &Info::default()).expect("memory takes all"));
    while let Some(([kind, low, high], rest)) = bytes.split_first_chunk() {
        let length = usize::from(u16::from_le_bytes([*low, *high])).min(rest.len());
        let (payload, rest) = rest.split_at(length);
        let mut frame = (length as u32).to_le_bytes().to_vec();
        frame.extend([kind % 32, 0, 0, 0]);
        frame.extend(payload);
        out.extend(&frame);
        out.extend(crc32fast::hash(&frame).to_le_bytes());
        bytes = rest;
    }
    out
}

fuzz_target!(|bytes: &[u8]| {
    read(bytes);
    let events = read(&framed(bytes));
    let again = written(&events);
    assert_eq!(again, written(&read(&again)), "events are read as written");
});
