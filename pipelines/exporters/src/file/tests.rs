//! The content of the files.

use std::io::Read as _;
use std::path::Path;

use component::testing::{Started, check_problem};
use pdata::{Data, Signal};

use super::FACTORY;
use crate::testing::{span, traces};

/// Sends batches through an exporter and returns the content of the file.
async fn written(more: &str, before: &str, batches: &[Data]) -> Vec<u8> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("otlp");
    std::fs::write(&path, before).unwrap();
    let exporter = Started::exporter(&FACTORY, &format!(r#"{{"path": {path:?}{more}}}"#)).await;
    for batch in batches {
        exporter.input.consume(batch.clone()).await.unwrap();
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
        text.lines().map(|l| pdata::json::decode(Signal::Traces, l.as_bytes()).unwrap()).collect();
    assert_eq!(lines, batches);
}

#[tokio::test]
async fn append_keeps_the_existing_content() {
    let bytes = written(r#", "append": true"#, "before\n", &[span("one")]).await;
    assert!(bytes.starts_with(b"before\n{\"resourceSpans\":["), "{}", String::from_utf8_lossy(&bytes));
}

#[tokio::test]
async fn protobuf_records_follow_their_length() {
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
async fn data_is_written_after_the_flush_interval() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("otlp");
    let settings = format!(r#"{{"path": {path:?}, "flush_interval": "3s"}}"#);
    let exporter = Started::exporter(&FACTORY, &settings).await;
    exporter.input.consume(span("one")).await.unwrap();
    assert_eq!(std::fs::read(&path).unwrap(), b"", "it waits in memory");
    while std::fs::read(&path).unwrap().is_empty() {
        tokio::time::sleep(std::time::Duration::from_secs(1)).await;
    }
    exporter.end().await;
}

#[tokio::test]
async fn a_file_that_cannot_be_opened_fails_the_start() {
    use config::{Node, Section};
    let node: Node = serde_json::from_str(r#"{"path": "/nowhere/at/all"}"#).unwrap();
    let id = component::ComponentId::parse("file").unwrap();
    let context = component::BuildContext { id, version: "1.2.3" };
    let exporter = (FACTORY.build)(&context, Section::new("x", &node)).unwrap();
    let Err(error) = exporter.start(&component::Host::detached(), Default::default()).await else {
        panic!("it started")
    };
    assert!(error.to_string().starts_with("path \"/nowhere/at/all\": "), "{error}");
}

#[tokio::test]
async fn compressed_records_follow_their_length() {
    let batches = [span("one"), span("two")];
    for (format, is_json) in [("json", true), ("proto", false)] {
        let settings =
            format!(r#", "format": "{format}", "compression": "zstd", "compression_params": {{"level": 3}}"#);
        let bytes = written(&settings, "", &batches).await;
        let mut rest = &bytes[..];
        for batch in &batches {
            let (length, tail) = rest.split_first_chunk::<4>().unwrap();
            let (message, tail) = tail.split_at(u32::from_be_bytes(*length) as usize);
            let mut plain = Vec::new();
            ruzstd::decoding::StreamingDecoder::new(message).unwrap().read_to_end(&mut plain).unwrap();
            let read =
                if is_json { pdata::json::decode(Signal::Traces, &plain).unwrap() } else { traces(&plain) };
            assert_eq!(read, *batch, "{format}");
            rest = tail;
        }
        assert!(rest.is_empty());
    }
}

/// Returns the content of all files below a folder, by path.
fn files(folder: &Path) -> Vec<(String, String)> {
    let mut found = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(next) = folders.pop() {
        for entry in std::fs::read_dir(next).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            let name = path.strip_prefix(folder).unwrap().display().to_string();
            found.push((name, std::fs::read_to_string(&path).unwrap()));
        }
    }
    found.sort();
    found
}

/// Returns a span of more than half a mebibyte.
fn large(name: char) -> Data {
    span(&name.to_string().repeat(600 * 1024))
}

#[tokio::test]
async fn full_files_are_rotated_and_the_oldest_removed() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("otlp.json");
    std::fs::write(&path, "before\n").unwrap();
    let settings = format!(r#"{{"path": {path:?}, "rotation": {{"max_megabytes": 1, "max_backups": 2}}}}"#);
    let exporter = Started::exporter(&FACTORY, &settings).await;
    for name in ['a', 'b', 'c', 'd'] {
        exporter.input.consume(large(name)).await.unwrap();
    }
    exporter.end().await;
    let found = files(folder.path());
    let (names, texts): (Vec<_>, Vec<_>) = found.into_iter().unzip();
    assert_eq!(names.len(), 3, "{names:?}");
    use std::os::unix::fs::MetadataExt as _;
    assert_eq!(std::fs::metadata(&path).unwrap().mode() & 0o777, 0o600, "the file after a rotation");
    assert!(names[0] < names[1] && names[1] < names[2] && names[2] == "otlp.json", "{names:?}");
    assert!(names[0].starts_with("otlp-20") && names[0].ends_with("-size.json"), "{names:?}");
    for (text, name) in texts.iter().zip(['b', 'c', 'd']) {
        let lines: Vec<Data> =
            text.lines().map(|line| pdata::json::decode(Signal::Traces, line.as_bytes()).unwrap()).collect();
        assert_eq!(lines, [large(name)], "one record in each, and whole");
    }
}

/// Returns logs of resources with these values of `path`.
fn logs(segments: &[&str]) -> Data {
    let resource = |segment: &&str| {
        format!(r#"{{"resource":{{"attributes":[{{"key":"path","value":{{"stringValue":"{segment}"}}}}]}}}}"#)
    };
    let list: Vec<String> = segments.iter().map(resource).collect();
    let json = format!(r#"{{"resourceLogs":[{},{{}}]}}"#, list.join(","));
    pdata::json::decode(Signal::Logs, json.as_bytes()).unwrap()
}

#[tokio::test]
async fn resources_are_written_to_the_files_they_name() {
    for max_open_files in [1, 100] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("out/*.json");
        let group_by = format!(
            r#"{{"enabled": true, "resource_attribute": "path", "max_open_files": {max_open_files}}}"#
        );
        let settings = format!(r#"{{"path": {path:?}, "group_by": {group_by}}}"#);
        let exporter = Started::exporter(&FACTORY, &settings).await;
        for segments in [&["a", "b", "a"][..], &["b/c"], &["../../etc/passwd", "/root", "a"]] {
            exporter.input.consume(logs(segments)).await.unwrap();
        }
        exporter.end().await;
        let found = files(folder.path());
        let counted: Vec<(&str, usize, usize)> = found
            .iter()
            .map(|(name, text)| (name.as_str(), text.lines().count(), text.matches("stringValue").count()))
            .collect();
        let want = [
            ("out/a.json", 2, 3),
            ("out/b.json", 1, 1),
            ("out/b/c.json", 1, 1),
            ("out/etc/passwd.json", 1, 1),
            ("out/root.json", 1, 1),
        ];
        assert_eq!(counted, want, "{max_open_files} open files");
    }
}

#[tokio::test]
async fn folders_are_created_if_configured() {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a/b/otlp");
    let more = r#""create_directory": true, "directory_permissions": "0700""#;
    let exporter = Started::exporter(&FACTORY, &format!(r#"{{"path": {path:?}, {more}}}"#)).await;
    exporter.input.consume(span("one")).await.unwrap();
    exporter.end().await;
    assert!(std::fs::metadata(&path).unwrap().len() > 0);
    let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(&folder.path().join("a")), mode(&path)), (0o700, 0o600));
}

#[test]
fn inconsistent_settings_are_refused() {
    for (json, want) in [
        (r#"{"path": "x", "append": true, "format": "proto", "flush_interval": "5s"}"#, ""),
        (r#"{"path": "x", "flush_interval": 0, "rotation": null}"#, ""),
        (
            r#"{"path": "x", "rotation": {"max_megabytes": 10, "max_days": 3, "max_backups": 3, "localtime": true},
                "compression": "zstd", "compression_params": {"level": 6}}"#,
            "",
        ),
        ("{}", "x::path: path must be non-empty"),
        (r#"{"path": "x", "flush_interval": "-1s"}"#, "negative"),
        (r#"{"path": "x", "format": "yaml"}"#, "yaml"),
        (
            r#"{"path": "x", "append": true, "rotation": {}}"#,
            "x::rotation: append and rotation enabled at the",
        ),
        (r#"{"path": "x", "compression": "gzip"}"#, "x::compression: compression \"gzip\" is not supported"),
        (
            r#"{"path": "x", "compression": "zstd", "compression_params": {"level": 22}}"#,
            "x::compression_params::level: unsupported parameters {Level:22}",
        ),
        (
            r#"{"path": "x", "encoding": "otlp_encoding"}"#,
            "x::encoding: encoding extension \"otlp_encoding\" is not",
        ),
        (r#"{"path": "x", "directory_permissions": "0700"}"#, "requires create_directory to be true"),
        (
            r#"{"path": "x", "create_directory": true, "directory_permissions": "8"}"#,
            "is not a mode: expected octal",
        ),
        (r#"{"path": "x", "group_by": {"enabled": true}}"#, "x::path: path must contain exactly one *"),
        (r#"{"path": "*x", "group_by": {"enabled": true}}"#, "x::path: path must not start with *"),
        (r#"{"path": "x", "group_by": {"resource_attribute": "", "max_open_files": 0}}"#, ""),
        (
            r#"{"path": "a*", "group_by": {"enabled": true, "max_open_files": 0}}"#,
            "x::group_by::max_open_files: ",
        ),
        (r#"{"path": "x", "rotation": {"max_size": 5}}"#, "invalid keys: max_size"),
    ] {
        check_problem(&FACTORY, json, want);
    }
}
