//! Loading of several locations, merged and expanded.

use super::testing::{FakeEnvironment, flow};
use super::{Loaded, load};

fn run(locations: &[&str], environment: &FakeEnvironment) -> Result<Loaded, String> {
    let locations: Vec<String> = locations.iter().map(|l| (*l).to_owned()).collect();
    load(locations.as_slice(), environment).map_err(|e| e.to_string())
}

fn environment() -> FakeEnvironment {
    let files = [
        ("base.yaml", b"receivers:\n  otlp:\nexporters:\n  debug: {verbosity: basic}\n".to_vec()),
        ("over.yaml", b"exporters::debug::verbosity: ${LEVEL}\n".to_vec()),
        ("bad.yaml", b"a: [1\n".to_vec()),
        ("list.yaml", b"- 1\n".to_vec()),
        ("latin1.yaml", b"a: \xe4\n".to_vec()),
        ("flat.yaml", b"b::c: 1\n".to_vec()),
        ("empty.yaml", Vec::new()),
    ];
    FakeEnvironment { env: [("LEVEL", "detailed"), ("WHOLE", "a: {b: 2}")].into(), files: files.into() }
}

#[track_caller]
fn check(locations: &[&str], want: &str) {
    let got = run(locations, &environment()).map(|loaded| flow(&loaded.root));
    assert_eq!(got, Ok(want.to_owned()), "{locations:?}");
}

#[track_caller]
fn refuse(locations: &[&str], want: &str) {
    let error = run(locations, &environment()).unwrap_err();
    assert!(error.contains(want), "{locations:?}: {error}");
}

#[test]
fn later_locations_take_precedence() {
    check(
        &["base.yaml", "over.yaml"],
        r#"{receivers: {otlp: null}, exporters: {debug: {verbosity: "detailed"}}}"#,
    );
    check(&["yaml:a: {b: 1, c: [1, 2]}", "env:WHOLE", "yaml:a::c: [3]"], "{a: {b: 2, c: [3]}}");
    check(&["yaml:a: {b: 1}", "yaml:a: null"], "{a: null}");
    check(&["file:empty.yaml"], "{}");
    check(&[], "{}");
}

#[test]
fn keys_of_referenced_files_are_nested() {
    check(&["yaml:a: ${file:flat.yaml}"], "{a: {b: {c: 1}}<b::c: 1\n>}");
}

#[test]
fn positions_survive_the_merge() {
    let root = run(&["base.yaml", "over.yaml"], &environment()).unwrap().root;
    let verbosity = root.get("exporters").unwrap().get("debug").unwrap().get("verbosity").unwrap();
    assert_eq!(verbosity.position.to_string(), "over.yaml:1:30");
    assert_eq!(root.get("receivers").unwrap().get("otlp").unwrap().position.to_string(), "base.yaml:2:3");
}

#[test]
fn unreadable_locations_are_reported() {
    refuse(&["absent.yaml"], r#"unable to read the file "absent.yaml""#);
    refuse(&["bad.yaml"], "bad.yaml:2:1: yaml: ");
    refuse(&["list.yaml"], "list.yaml:1:1: expected a mapping of sections, got []interface {}");
    refuse(&["yaml:1"], "yaml:1:1: expected a mapping of sections, got int");
    refuse(&["latin1.yaml"], r#"the file "latin1.yaml" is not UTF-8 at byte 3"#);
    refuse(&["ftp://localhost/x"], r#"scheme "ftp" is not supported"#);
    refuse(
        &["https://localhost/x"],
        r#"unable to download the file via HTTP GET for uri "https://localhost/x": there is no network here"#,
    );
    refuse(&["env:no.name"], r#"environment variable "no.name" has invalid name"#);
}

#[test]
fn problems_of_all_locations_are_reported_together() {
    let error = run(&["absent.yaml", "bad.yaml", "list.yaml"], &environment()).unwrap_err();
    assert_eq!(error.lines().count(), 3, "{error}");
}

#[test]
fn problems_of_all_values_are_reported_together() {
    let error = run(&["yaml:{a: '${1}', b: ['${file:absent}'], c: 1}"], &environment()).unwrap_err();
    let lines: Vec<&str> = error.lines().collect();
    assert_eq!(lines.len(), 2, "{error}");
    assert!(lines[0].starts_with("yaml:1:5: a: ") && lines[1].starts_with("yaml:1:17: b[0]: "), "{error}");
}
