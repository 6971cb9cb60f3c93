//! Parsed YAML, compared with the results of go-yaml v3 for the same texts.

use std::sync::Arc;

use config::Node;

use super::parse;
use crate::config::testing::flow;

fn read(text: &str) -> Result<Node, String> {
    parse(text, &Arc::from("f")).map_err(|e| e.to_string())
}

#[track_caller]
fn check(text: &str, want: &str) {
    assert_eq!(read(text).as_ref().map(flow), Ok(want.to_owned()), "{text}");
}

#[track_caller]
fn refuse(text: &str, want: &str) {
    assert_eq!(read(text).unwrap_err(), want, "{text}");
}

#[test]
fn scalars_sequences_and_mappings_nest() {
    check("", "null");
    check("# nothing", "null");
    check(
        "a: 1\nb: [x, 'y', \"z\\n\", 1.5]\nc: {d: ~}",
        r#"{a: 1, b: ["x", "y", "z\n", 1.5], c: {d: null}}"#,
    );
    check("- a\n- b: |\n    two\n    lines\n", r#"["a", {b: "two\nlines\n"}]"#);
    check("a: ${env:X:-y}", r#"{a: "${env:X:-y}"}"#);
}

#[test]
fn quoted_scalars_are_strings() {
    check(r#"['1', "true", 'null', "~"]"#, r#"["1", "true", "null", "~"]"#);
}

#[test]
fn keys_are_strings() {
    check("1: a\ntrue: b\n1.5: c\n0123: d", r#"{1: "a", true: "b", 1.5: "c", 83: "d"}"#);
    refuse("[a]: b", "f:1:1: yaml: invalid map key");
    refuse("{{a: 1}: b}", "f:1:2: yaml: invalid map key");
}

#[test]
fn tags_determine_the_type() {
    check("[!!str 1, !!int '1', !!float 1, !!bool 'true', !!null '']", r#"["1", 1, 1.0, true, null]"#);
    check("[!mine 12, ! 12, !<tag:yaml.org,2002:str> 12]", r#"["12", 12, "12"]"#);
    refuse("a: !!bool yes", "f:1:4: yaml: cannot decode `yes` as a !!bool");
    refuse("a: !!int 1.0", "f:1:4: yaml: cannot decode `1.0` as a !!int");
    refuse("a: !!binary aGk=", "f:1:4: yaml: cannot decode `aGk=` as a !!binary");
}

#[test]
fn anchors_are_copied() {
    check("a: &x {b: 1}\nc: *x\nd: [*x, *x]", "{a: {b: 1}, c: {b: 1}, d: [{b: 1}, {b: 1}]}");
    check("a: &x 1\nb: &x 2\nc: *x", "{a: 1, b: 2, c: 2}");
    check("&k a: 1\nb: *k", r#"{a: 1, b: "a"}"#);
    refuse("a: &x [*x]", "f:1:8: yaml: anchor value contains itself");
    assert!(read("a: *x").unwrap_err().starts_with("f:1:4: yaml: "), "an unknown anchor");
}

#[test]
fn merge_keys_add_absent_entries() {
    check("x: &x {b: 1, c: 2}\na:\n  <<: *x\n  b: 3", "{x: {b: 1, c: 2}, a: {b: 3, c: 2}}");
    check(
        "x: &x {b: 1}\ny: &y {b: 2, d: 4}\na: {<<: [*x, *y]}",
        "{x: {b: 1}, y: {b: 2, d: 4}, a: {b: 1, d: 4}}",
    );
    check("a: {<<: {b: 1}, c: 2}", "{a: {c: 2, b: 1}}");
    check("a: {'<<': {b: 1}}", "{a: {<<: {b: 1}}}");
    check("a: <<", r#"{a: "<<"}"#);
    refuse("a: {<<: 1}", "f:1:9: yaml: map merge requires map or sequence of maps as the value");
    refuse("a: {<<: [1]}", "f:1:9: yaml: map merge requires map or sequence of maps as the value");
}

#[test]
fn duplicate_keys_are_all_reported() {
    refuse(
        "a: 1\nb: 2\na: 3\nc: {d: 1, d: 2}",
        "f:3:1: yaml: mapping key \"a\" already defined at line 1\n\
         f:4:11: yaml: mapping key \"d\" already defined at line 4",
    );
    refuse("{<<: {a: 1}, <<: {b: 1}}", "f:1:14: yaml: mapping key \"<<\" already defined at line 1");
}

#[test]
fn only_the_first_document_is_read() {
    check("---\na: 1\n---\n} not yaml {", "{a: 1}");
    check("a: 1\n...\n} not yaml {", "{a: 1}");
}

#[test]
fn syntax_errors_are_reported_with_their_position() {
    for text in
        ["a: [1", "a: b: c", "a: 'x", "a:\n\tb: 1", "a: 1\n b: 2", "{a", "a: [${env:X}]", "%", "a: - 1"]
    {
        let error = read(text).unwrap_err();
        assert!(error.starts_with("f:") && error.contains(": yaml: "), "{text:?}: {error}");
    }
}

#[test]
fn values_and_keys_have_positions() {
    let root = read("a:\n  - b: x\n    c:\n  - [1,   2]\n").unwrap();
    let place = |node: &Node| node.position.to_string();
    let a = root.get("a").unwrap();
    let config::Value::Sequence(items) = &a.value else { panic!("{a:?}") };
    assert_eq!(root.entries()[0].position.to_string(), "f:1:1");
    assert_eq!((place(a), place(&items[0])), ("f:2:3".to_owned(), "f:2:5".to_owned()));
    assert_eq!(place(items[0].get("b").unwrap()), "f:2:8");
    assert_eq!(place(items[0].get("c").unwrap()), "f:3:5", "an absent value is where its key is");
    let config::Value::Sequence(numbers) = &items[1].value else { panic!() };
    assert_eq!(place(&numbers[1]), "f:4:11");
}

#[test]
fn columns_count_characters() {
    let root = read("{'\u{e4}\u{f6}': 1, b: 2}").unwrap();
    assert_eq!(root.entries()[1].position.to_string(), "f:1:11");
}

#[test]
fn nesting_is_bounded() {
    let nested = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
    assert!(read(&nested(100)).is_ok());
    refuse(&nested(101), "f:1:101: yaml: nested deeper than 100 levels");
}

#[test]
fn nesting_by_anchors_is_bounded() {
    let half = format!("{}{}", "[".repeat(60), "]".repeat(60));
    let error = read(&format!("a: &x {half}\nb: {}*x{}", "[".repeat(60), "]".repeat(60))).unwrap_err();
    assert!(error.contains("nested deeper than 100 levels"), "{error}");
}

#[test]
fn copies_of_copies_are_bounded() {
    let mut text = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n".to_owned();
    for i in 1..10 {
        let copies = vec![format!("*a{}", i - 1); 10].join(", ");
        text += &format!("a{i}: &a{i} [{copies}]\n");
    }
    let error = read(&text).unwrap_err();
    assert!(error.contains("more than 200000 values"), "{error}");
}

#[test]
fn long_texts_are_refused_before_parsing() {
    let error = read(&" ".repeat((4 << 20) + 1)).unwrap_err();
    assert_eq!(error, "f:1:1: 4194305 bytes: expected 4194304 at most");
}
