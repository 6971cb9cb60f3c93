//! The effect of each action, and the actions that are refused. Attributes are written `key=value`, with values in
//! JSON; numbers with a decimal point are doubles.

use component::auth::Identity;
use component::context::{self, Context, Metadata};
use component::testing::{Started, check_problem, problems};
use pdata::Signal;

use crate::resource::FACTORY;
use crate::testing::check as check_batch;

/// Returns attributes in OTLP JSON.
fn attributes(pairs: &str) -> String {
    let pairs = pairs.split_whitespace().map(|pair| {
        let (key, value) = pair.split_once('=').unwrap();
        let value = match value {
            "true" | "false" => format!(r#"{{"boolValue":{value}}}"#),
            "[]" => r#"{"arrayValue":{"values":[{"intValue":1}]}}"#.to_owned(),
            "{}" => "{}".to_owned(),
            text if text.starts_with('"') => format!(r#"{{"stringValue":{text}}}"#),
            double if double.contains('.') => format!(r#"{{"doubleValue":{double}}}"#),
            int => format!(r#"{{"intValue":{int}}}"#),
        };
        format!(r#"{{"key":"{key}","value":{value}}}"#)
    });
    pairs.collect::<Vec<String>>().join(",")
}

/// Checks the effect of one action on attributes.
#[track_caller]
fn check(action: &str, before: &str, after: &str) {
    let batch = |pairs: &str| {
        format!(r#"{{"resourceLogs":[{{"resource":{{"attributes":[{}]}}}}]}}"#, attributes(pairs))
    };
    let settings = format!(r#"{{"attributes": [{action}]}}"#);
    check_batch(&FACTORY, &settings, Signal::Logs, &batch(before), &batch(after));
}

#[test]
fn insert_sets_absent_keys() {
    let action = r#"{"key": "a", "value": 1, "action": "insert"}"#;
    check(action, "b=2", "b=2 a=1");
    check(action, "a=2", "a=2");
    check(r#"{"key": "a", "from_attribute": "b", "action": "INSERT"}"#, "b=2", "b=2 a=2");
    check(r#"{"key": "a", "from_attribute": "c", "action": "insert"}"#, "b=2", "b=2");
    let action = r#"{"key": "a", "from_attribute": "c", "default_value": "d", "action": "insert"}"#;
    check(action, "b=2", r#"b=2 a="d""#);
    check(action, "c=2", "c=2 a=2");
}

#[test]
fn update_sets_present_keys() {
    let action = r#"{"key": "a", "value": "x", "action": "update"}"#;
    check(action, "b=2", "b=2");
    check(action, "a=2 b=2", r#"a="x" b=2"#);
}

#[test]
fn upsert_sets_any_key() {
    let action = r#"{"key": "a", "value": 1.5, "action": "Upsert"}"#;
    check(action, "b=2", "b=2 a=1.5");
    check(action, "a=2 b=2", "a=1.5 b=2");
    check(r#"{"key": "a", "value": [1], "action": "upsert"}"#, "", "a=[]");
}

#[test]
fn delete_removes_a_key_and_all_pattern_matches() {
    check(r#"{"key": "a", "action": "delete"}"#, "a=1 ab=2", "ab=2");
    check(r#"{"pattern": "^a", "action": "delete"}"#, "a=1 b=3 ab=2", "b=3");
    check(r#"{"key": "b", "pattern": "^a", "action": "delete"}"#, "a=1 b=3 ab=2 c=4", "c=4");
}

/// The expected hashes were computed by Python's hashlib, of numbers packed as eight little-endian bytes.
#[test]
fn hash_is_the_sha256_of_the_bytes_in_hex() {
    let action = r#"{"key": "a", "action": "hash"}"#;
    for (value, sum) in [
        (r#""x""#, "2d711642b726b04401627ca9fbac32f5c8530fb1903cc4db02258717921a4881"),
        (r#""""#, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"),
        ("true", "4bf5122f344554c53bde2ebb8cd2b7e3d1600ad631c385a5d7cce23c7785459a"),
        ("42", "ed049108bc18f2c64369e8d0ea42850bdd1a7d1dd340cfde716315579702a76c"),
        ("1.5", "e163f8cb0f7067a7fc78ca859a77f849aea3214f38fb75b884e4a16be725c905"),
    ] {
        check(action, &format!("a={value} b=1"), &format!(r#"a="{sum}" b=1"#));
    }
    check(action, "a=[]", r#"a="""#);
    let x = "2d711642b726b04401627ca9fbac32f5c8530fb1903cc4db02258717921a4881";
    check(
        r#"{"pattern": "a.*", "action": "hash"}"#,
        r#"a="x" ab="x" b="x""#,
        &format!(r#"a="{x}" ab="{x}" b="x""#),
    );
}

#[test]
fn extract_sets_the_keys_named_by_groups() {
    let action = r#"{"key": "url", "pattern": "^(?P<scheme>.*):\\/\\/(?P<host>[^/]*)(?P<path>/.*)?$", "action": "extract"}"#;
    check(action, r#"url="http://h/x" host=7"#, r#"url="http://h/x" host="h" scheme="http" path="/x""#);
    check(action, r#"url="http://h""#, r#"url="http://h" scheme="http" host="h" path="""#);
    check(action, r#"url="no""#, r#"url="no""#);
    check(action, "url=5", "url=5");
    check(action, "a=5", "a=5");
}

#[test]
fn convert_changes_the_type_of_a_value() {
    for (to, before, after) in [
        ("int", r#""12""#, "12"),
        ("int", r#""1.5""#, r#""1.5""#),
        ("int", "-1.9", "-1"),
        ("int", "true", "1"),
        ("int", "[]", "[]"),
        ("double", r#""1e3""#, "1000.0"),
        ("double", r#""x""#, r#""x""#),
        ("double", "7", "7.0"),
        ("double", "false", "0.0"),
        ("string", "7", r#""7""#),
        ("string", "1.5", r#""1.5""#),
        ("string", "true", r#""true""#),
        ("string", "[]", r#""[1]""#),
    ] {
        let action = format!(r#"{{"key": "a", "converted_type": "{to}", "action": "convert"}}"#);
        check(&action, &format!("a={before}"), &format!("a={after}"));
    }
    check(r#"{"key": "a", "converted_type": "int", "action": "convert"}"#, "b=1", "b=1");
}

#[test]
fn values_come_from_headers_and_sender_attributes() {
    let mut metadata = Metadata::default();
    metadata.add("X-Tenant", "a");
    metadata.add("x-tenant", "b");
    let identity = Identity([("username".to_owned(), "u".to_owned())].into());
    let address = Some(std::net::Ipv4Addr::LOCALHOST.into());
    let context = Context { metadata: metadata.into(), identity: identity.into(), address };
    for (from, value) in [
        ("metadata.x-tenant", r#"a="a;b""#),
        ("X-Tenant", r#"a="a;b""#),
        ("metadata.other", ""),
        ("auth.username", r#"a="u""#),
        ("auth.other", ""),
        ("client.address", r#"a="127.0.0.1""#),
    ] {
        let settings =
            format!(r#"{{"attributes": [{{"key": "a", "from_context": "{from}", "action": "upsert"}}]}}"#);
        let started = Started::processor(&FACTORY, &settings);
        let empty = pdata::json::decode(Signal::Logs, br#"{"resourceLogs":[{"resource":{}}]}"#).unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let passed = started.send(empty);
        runtime.block_on(context::scope(context.clone(), passed)).unwrap();
        let want = format!(r#"{{"resourceLogs":[{{"resource":{{"attributes":[{}]}}}}]}}"#, attributes(value));
        let want = pdata::json::decode(Signal::Logs, want.as_bytes()).unwrap();
        assert_eq!(started.sink.take(), [want], "{from}");
    }
}

#[test]
fn actions_are_applied_in_order() {
    let actions =
        r#"{"key": "a", "from_attribute": "b", "action": "insert"}, {"key": "b", "action": "delete"}"#;
    check(actions, "b=1", "a=1");
}

#[test]
fn wrong_actions_are_refused_with_their_path() {
    for (action, want) in [
        (r#"{"key": "a", "action": "insert", "value": 1}"#, ""),
        (r#"{"key": "a", "action": "rename"}"#, "x::attributes[0]::action: unsupported action \"rename\""),
        (r#"{"key": "a"}"#, "x::attributes[0]::action: unsupported action \"\""),
        (r#"{"action": "insert", "value": 1}"#, "x::attributes[0]: missing required field \"key\""),
        (
            r#"{"key": "a", "action": "update"}"#,
            "either field \"value\", \"from_attribute\", \"from_context\" or \"default_value\"",
        ),
        (r#"{"key": "a", "action": "upsert", "value": 1, "from_attribute": "b"}"#, "multiple value sources"),
        (
            r#"{"key": "a", "action": "upsert", "value": 1, "pattern": "b"}"#,
            "x::attributes[0]::pattern: action",
        ),
        (r#"{"key": "a", "action": "upsert", "value": 99999999999999999999}"#, ""),
        (r#"{"action": "delete"}"#, "at least one of \"key\" and \"pattern\" has to be used"),
        (
            r#"{"key": "a", "action": "hash", "value": 1}"#,
            "x::attributes[0]::value: action \"hash\" does not use",
        ),
        (
            r#"{"pattern": "(", "action": "delete"}"#,
            "x::attributes[0]::pattern: invalid pattern: unclosed group",
        ),
        (r#"{"key": "a", "action": "extract"}"#, "missing required field \"pattern\""),
        (r#"{"key": "a", "action": "extract", "pattern": "a.*"}"#, "contains no named matcher groups"),
        (
            r#"{"key": "a", "action": "extract", "pattern": "(?P<x>a)(b)"}"#,
            "at least one unnamed matcher group",
        ),
        (r#"{"key": "a", "action": "convert"}"#, "missing required field \"converted_type\""),
        (
            r#"{"key": "a", "action": "convert", "converted_type": "bool"}"#,
            "invalid value \"bool\": expected string",
        ),
        (r#"{"key": "a", "action": "insert", "from_context": "metadata.x"}"#, ""),
        (r#"{"key": "a", "action": "insert", "from_context": "client.address"}"#, ""),
        (r#"{"key": "a", "action": "insert", "from_context": "x", "value": 1}"#, "multiple value sources"),
        (
            r#"{"key": "a", "action": "convert", "converted_type": "int", "from_context": "x"}"#,
            "x::attributes[0]::from_context: action \"convert\" does not use",
        ),
    ] {
        check_problem(&FACTORY, &format!(r#"{{"attributes": [{action}]}}"#), want);
    }
    let action = r#"{"key": "a", "action": "insert", "from": "x"}"#;
    let found = problems(&FACTORY, &format!(r#"{{"attributes": [{action}]}}"#));
    assert_eq!(found.len(), 2, "decoding and checks report together: {found:?}");
    assert!(found[0].contains("invalid keys: from"), "{found:?}");
    assert!(found[1].contains("must be specified"), "{found:?}");
}
