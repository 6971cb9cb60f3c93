//! Printed configurations, and that they can be parsed.

use config::GoDuration;
use config::{Headers, Optional, Secret, Section, Seen};
use proptest::prelude::*;
use serde::Deserialize;

use super::{PrintMode, Printed};
use crate::config::testing::{FakeEnvironment, flow};
use crate::config::yaml_out::to_text;
use crate::config::{Sources, load};

#[derive(Default, Deserialize)]
#[serde(default)]
struct Config {
    text: String,
    number: u64,
    wait: GoDuration,
    words: Vec<String>,
    token: Secret,
    tokens: Vec<Secret>,
    headers: Headers,
    queue: Optional<Box<Config>>,
    ignored: serde::de::IgnoredAny,
}

fn environment() -> FakeEnvironment {
    FakeEnvironment {
        env: [("OCTAL", "0123"), ("TOKEN", "123456"), ("MAP", "{a: 1}")].into(),
        ..FakeEnvironment::default()
    }
}

/// Returns the printed form of a component's section in one line.
fn print(section: &str, mode: PrintMode) -> String {
    let locations = [format!("yaml:receivers::x: {section}")];
    let loaded = load(Sources::from(&locations), &environment()).unwrap();
    let seen = Seen::default();
    let node = loaded.root.get("receivers").unwrap().get("x").unwrap();
    // A section with errors is printed, too.
    let _ = Section::new("x", node).noting(&seen).decode::<Config>();
    let text = Printed { root: &loaded.root, seen: &seen, mode }.to_yaml().unwrap();
    let again =
        load(&[format!("yaml:{}", text.replace('$', "$$"))], &FakeEnvironment::default()).expect(&text);
    flow(again.root.get("receivers").unwrap().get("x").unwrap())
}

#[track_caller]
fn check(section: &str, redacted: &str, unredacted: &str) {
    assert_eq!(print(section, PrintMode::Redacted), redacted, "{section}");
    assert_eq!(print(section, PrintMode::Unredacted), unredacted, "{section}");
}

#[track_caller]
fn check_same(section: &str, want: &str) {
    check(section, want, want);
}

#[test]
fn values_are_printed_as_decoded() {
    check_same("{text: '${OCTAL}', number: '${OCTAL}'}", r#"{text: "0123", number: 83}"#);
    check_same("{wait: 90000000000}", r#"{wait: "1m30s"}"#);
    check_same("{wait: 1500ms}", r#"{wait: "1.5s"}"#);
    check_same("{text: '${MAP}'}", r#"{text: "{a: 1}"}"#);
    check_same("{text: , number: '${UNSET}', wait: }", r#"{text: "", number: 0, wait: "0s"}"#);
    check_same("{words: 'a,b'}", r#"{words: ["a", "b"]}"#);
    check_same("{queue: {enabled: false, text: a}}", r#"{queue: {enabled: false, text: "a"}}"#);
    check_same("", "null");
}

#[test]
fn secrets_are_not_printed() {
    check("{token: abc}", r#"{token: "[REDACTED]"}"#, r#"{token: "abc"}"#);
    check("{token: '${TOKEN}'}", r#"{token: "[REDACTED]"}"#, r#"{token: "123456"}"#);
    check("{token: '${MAP}'}", r#"{token: "[REDACTED]"}"#, r#"{token: "{a: 1}"}"#);
    check("{tokens: [a, b]}", r#"{tokens: ["[REDACTED]", "[REDACTED]"]}"#, r#"{tokens: ["a", "b"]}"#);
    check("{tokens: 'a,b'}", r#"{tokens: "[REDACTED]"}"#, r#"{tokens: "a,b"}"#);
    check("{headers: {k: v}}", r#"{headers: {k: "[REDACTED]"}}"#, r#"{headers: {k: "v"}}"#);
    check(
        "{headers: [{name: k, value: v}]}",
        r#"{headers: [{name: "k", value: "[REDACTED]"}]}"#,
        r#"{headers: [{name: "k", value: "v"}]}"#,
    );
    check(
        "{queue: {queue: {token: abc}}}",
        r#"{queue: {queue: {token: "[REDACTED]"}}}"#,
        r#"{queue: {queue: {token: "abc"}}}"#,
    );
}

#[test]
fn unread_values_may_be_secrets() {
    check(
        "{unknown: {a: b, c: 1, d: true}}",
        r#"{unknown: {a: "[REDACTED]", c: "[REDACTED]", d: true}}"#,
        r#"{unknown: {a: "b", c: 1, d: true}}"#,
    );
    check("{ignored: abc}", r#"{ignored: "[REDACTED]"}"#, r#"{ignored: "abc"}"#);
    check(
        "{number: abc, token: x}",
        r#"{number: "[REDACTED]", token: "[REDACTED]"}"#,
        r#"{number: "abc", token: "x"}"#,
    );
}

#[test]
fn secrets_in_urls_are_redacted() {
    check(
        r#"{text: "http://user:pass@host/?api_key=k", words: ["http://host/a", "http://u:p@h"]}"#,
        r#"{text: "http://[REDACTED]@host/?api_key=[REDACTED]", words: ["http://host/a", "http://[REDACTED]@h"]}"#,
        r#"{text: "http://user:pass@host/?api_key=k", words: ["http://host/a", "http://u:p@h"]}"#,
    );
}

#[test]
fn ambiguous_texts_are_quoted() {
    for text in [
        "0123",
        "0o17",
        "0b1",
        "1_000",
        "0x_1",
        "089",
        "yes",
        "~",
        "",
        "1e3",
        ".5",
        "+1",
        "-.inf",
        "<<",
        "=",
        "2026-01-01",
        "a: b",
        "# a",
        "- a",
        "null",
        "Null",
        "TRUE",
        "${x}",
        "a\nb\n",
        " a ",
    ] {
        let yaml = to_text(&text.into());
        let again = crate::config::yaml::parse(&yaml, &std::sync::Arc::from("x")).unwrap();
        assert_eq!(flow(&again), format!("{text:?}"), "{yaml}");
    }
}

proptest! {
    #[test]
    fn every_text_is_parsed_unchanged(text in "[-+.0-9_oxbeE:#'\"\\[\\]{}, \na-fyns~\u{85}\u{2028}\u{feff}é]{0,8}") {
        let yaml = to_text(&text.as_str().into());
        let again = crate::config::yaml::parse(&yaml, &std::sync::Arc::from("x")).unwrap();
        prop_assert_eq!(flow(&again), format!("{text:?}"));
    }
}
