//! What stands in the file.

use component::{Data, Signal};

use super::FACTORY;
use crate::testing::{Started, problems, span, traces};

/// Sends batches through an exporter and returns what the file holds afterwards.
async fn written(more: &str, before: &str, batches: &[Data]) -> Vec<u8> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("otlp");
    std::fs::write(&path, before).unwrap();
    let exporter = Started::by(&FACTORY, &format!(r#"{{"path": {path:?}{more}}}"#)).await;
    for batch in batches {
        exporter.front.consume(batch.clone()).await.unwrap();
    }
    exporter.end().await;
    std::fs::read(&path).unwrap()
}

#[tokio::test]
async fn a_line_of_json_is_an_export_request() {
    let batches = [span("one"), span("two\n")];
    let text = String::from_utf8(written("", "what was there before", &batches).await).unwrap();
    assert!(text.ends_with('\n'));
    let lines: Vec<Data> =
        text.lines().map(|l| otlp_json::decode(Signal::Traces, l.as_bytes()).unwrap()).collect();
    assert_eq!(lines, batches);
}

#[tokio::test]
async fn appending_keeps_what_was_there() {
    let bytes = written(r#", "append": true"#, "before\n", &[span("one")]).await;
    assert!(bytes.starts_with(b"before\n{\"resourceSpans\":["), "{}", String::from_utf8_lossy(&bytes));
}

#[tokio::test]
async fn a_message_of_protobuf_stands_after_its_length() {
    let batches = [span("one"), span("two")];
    let bytes = written(r#", "format": "proto""#, "", &batches).await;
    let mut rest = &bytes[..];
    for batch in batches {
        let (length, tail) = rest.split_first_chunk::<4>().unwrap();
        let (message, tail) = tail.split_at(u32::from_be_bytes(*length) as usize);
        assert_eq!(traces(message), batch);
        rest = tail;
    }
    assert!(rest.is_empty());
}

#[tokio::test(start_paused = true)]
async fn data_is_in_the_file_after_the_flush_interval_and_not_only_at_the_end() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("otlp");
    let settings = format!(r#"{{"path": {path:?}, "flush_interval": "3s"}}"#);
    let exporter = Started::by(&FACTORY, &settings).await;
    exporter.front.consume(span("one")).await.unwrap();
    assert_eq!(std::fs::read(&path).unwrap(), b"", "it waits in memory");
    while std::fs::read(&path).unwrap().is_empty() {
        tokio::time::sleep(std::time::Duration::from_secs(1)).await;
    }
    exporter.end().await;
}

#[tokio::test]
async fn a_file_that_cannot_be_opened_stops_the_start() {
    use component::config::{Node, Section};
    let node: Node = serde_json::from_str(r#"{"path": "/nowhere/at/all"}"#).unwrap();
    let id = component::ComponentId::parse("file").unwrap();
    let context = component::BuildContext { id, version: "1.2.3" };
    let exporter = (FACTORY.build)(&context, Section::new("x", &node)).unwrap();
    let Err(error) = exporter.start(&component::Host::detached(), Default::default()).await else {
        panic!("it started")
    };
    assert!(error.to_string().starts_with("path \"/nowhere/at/all\": "), "{error}");
}

#[test]
fn settings_that_make_no_sense_are_refused() {
    for (json, want) in [
        (r#"{"path": "x", "append": true, "format": "proto", "flush_interval": "5s"}"#, ""),
        ("{}", "x::path: path must be non-empty"),
        (
            r#"{"path": "x", "flush_interval": 0}"#,
            "x::flush_interval: flush_interval must be larger than zero",
        ),
        (r#"{"path": "x", "format": "yaml"}"#, "yaml"),
        (r#"{"path": "x", "rotation": {}}"#, "invalid keys: rotation"),
    ] {
        let found = problems(&FACTORY, json);
        assert_eq!(found.len(), usize::from(!want.is_empty()), "{json}: {found:?}");
        assert!(found.iter().all(|p| p.contains(want)), "{json}: {found:?}");
    }
}
