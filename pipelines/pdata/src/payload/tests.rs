//! The encoded and the decoded form of a message agree.

use opentelemetry_proto::tonic::logs::v1::{LogRecord, LogsData, ResourceLogs, ScopeLogs};
use prost::Message;

use super::Payload;
use crate::{Data, Signal};

fn logs(name: &str, items: usize) -> LogsData {
    let scope_logs =
        vec![ScopeLogs { log_records: vec![LogRecord::default(); items], ..ScopeLogs::default() }];
    LogsData {
        resource_logs: vec![ResourceLogs {
            schema_url: name.to_owned(),
            scope_logs,
            ..ResourceLogs::default()
        }],
    }
}

fn wire(message: &LogsData) -> Payload<LogsData> {
    let Ok(Data::Logs(payload)) = Data::decode(Signal::Logs, &message.encode_to_vec()[..]) else {
        panic!("a valid message")
    };
    payload
}

#[test]
fn received_bytes_are_sent_unchanged() {
    let message = logs("a", 3);
    let payload = wire(&message);
    let mut out = Vec::new();
    payload.encode(&mut out);
    assert_eq!(out, message.encode_to_vec());
    assert_eq!((payload.items(), payload.encoded_len()), (Some(3), out.len()));
    assert!(payload.0.message.get().is_none(), "it was not decoded");
    assert_eq!(*payload, message);
}

#[test]
fn appended_bytes_decode_to_the_appended_messages() {
    let (mut a, b) = (wire(&logs("a", 1)), wire(&logs("b", 2)));
    // Decoded before, and shared: neither the decoded form nor the copy changes.
    let held = a.clone();
    assert_eq!(a.resource_logs.len(), 1);
    a.append(b.clone());
    assert_eq!((a.items(), a.resource_logs.len(), a.resource_logs[1].schema_url.as_str()), (Some(3), 2, "b"));
    assert_eq!(held.resource_logs.len(), 1);
    // A decoded message has no bytes to append.
    a.append(Payload::new(logs("c", 1)));
    assert_eq!((a.items(), a.resource_logs.len()), (None, 3));
}

#[test]
fn a_change_is_encoded_and_is_in_no_other_copy() {
    let mut payload = wire(&logs("a", 1));
    let held = payload.clone();
    payload.make_mut().resource_logs[0].schema_url = "changed".to_owned();
    let mut out = Vec::new();
    payload.encode(&mut out);
    assert_eq!(LogsData::decode(&out[..]).unwrap(), logs("changed", 1));
    assert_eq!(held.into_inner(), logs("a", 1));
    assert_eq!(payload.holders(), 1);
}
