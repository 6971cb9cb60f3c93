//! Expansion of references. The cases, except those with files and hostile input, were run through the Collector's
//! resolver (confmap v1.65.0) with equal results.

use std::sync::Arc;

use super::{expand, yaml_parse};
use crate::config::testing::{FakeEnvironment, flow};

fn environment() -> FakeEnvironment {
    let env = [
        ("E", "value"),
        ("ONE", "1"),
        ("TWO", "2"),
        ("OCTAL", "0123"),
        ("QUOTED", "\"0123\""),
        ("TAGGED", "!!str 0123"),
        ("EMPTY", ""),
        ("COMMENT", "true # c ${env:hello.world}"),
        ("LIST", "[a, '${E}']"),
        ("MAP", "{k: '${E}'}"),
        ("LINES", "a: [1\nb"),
        ("NAME_OF_E", "E"),
        ("CHAIN", "${NAME_OF_E}"),
        ("DOLLARS", "a$$b$c"),
        ("LOOP", "${LOOP}"),
        ("GROW", "${GROW}${GROW}"),
    ];
    let files = [("part.yaml", b"k: ${ONE}\nl: [x]\n".to_vec()), ("text", b"hello\n".to_vec())];
    FakeEnvironment { env: env.into(), files: files.into() }
}

/// Returns the value of `a` after expansion, or the first problem.
fn run(yaml_value: &str, environment: &FakeEnvironment) -> Result<String, String> {
    let mut root = yaml_parse(&format!("a: {yaml_value}"), &Arc::from("f")).unwrap();
    let findings = expand(&mut root, environment);
    match findings.problems.first() {
        None => Ok(flow(root.get("a").unwrap())),
        Some(problem) => Err(problem.to_string()),
    }
}

#[track_caller]
fn check(yaml_value: &str, want: &str) {
    assert_eq!(run(yaml_value, &environment()), Ok(want.to_owned()), "{yaml_value}");
}

#[track_caller]
fn refuse(yaml_value: &str, want: &str) {
    let error = run(yaml_value, &environment()).unwrap_err();
    assert!(error.starts_with("f:1:4: a: ") && error.contains(want), "{yaml_value}: {error}");
}

#[test]
fn single_reference_has_type_and_text() {
    check("${E}", r#""value""#);
    check("${env:ONE}", "1<1>");
    check("${OCTAL}", "83<0123>");
    check("${QUOTED}", r#""\"0123\"""#);
    check("${TAGGED}", r#""!!str 0123""#);
    check("'${ONE}'", "1<1>");
    check("${yaml:[1, 2]}", "[1, 2]<[1, 2]>");
}

#[test]
fn embedded_reference_is_replaced_by_its_text() {
    check("some${E}text", r#""somevaluetext""#);
    check("${E}${ONE}", r#""value1""#);
    check("x${OCTAL}", r#""x0123""#);
    check("x${QUOTED}", r#""x\"0123\"""#);
    check("${E}-${E}", r#""value-value""#);
    check("x}${E}", r#""x}value""#);
    check("x${yaml:[1,2]}", r#""x[1,2]""#);
}

#[test]
fn references_need_braces() {
    check("$E", r#""$E""#);
    check("${E", r#""${E""#);
    check("E}", r#""E}""#);
}

#[test]
fn double_dollar_is_a_literal_dollar() {
    check("$$E", r#""$E""#);
    check("$$$$E", r#""$$E""#);
    check("text$$", r#""text$""#);
    check("$$${E}", r#""$value""#);
    check("$${E}", r#""${E}""#);
    check("$$$${E}", r#""$${E}""#);
    check("$${ONE}$${TWO}", r#""${ONE}${TWO}""#);
    check("$${1}$${env:2}", r#""${1}${env:2}""#);
    check("$${env:${E}}", r#""${env:value}""#);
    check("'${env:U:-$${env:U}}'", r#""${env:U:-${env:U}}""#);
    check("${DOLLARS}", r#""a$b$c""#);
}

#[test]
fn an_escaped_reference_ends_the_search() {
    check("$${ONE} ${TWO}", r#""${ONE} ${TWO}""#);
}

#[test]
fn references_of_a_shell_are_explained() {
    refuse("${E:-d}", "invalid uri: \"E:-d\": write ${env:E:-d}");
    refuse("${1:-d}", "invalid uri: \"1:-d\"");
    for (value, warning) in [
        ("/x/$E/y", Some("$E is literal text: write ${env:E} for the variable")),
        ("$UNSET", None),
        ("$$E", None),
        ("a$1$b", None),
        ("cost: $5", None),
        ("x$$y$ONE", Some("$ONE is literal text: write ${env:ONE} for the variable")),
    ] {
        let mut root = yaml_parse(&format!("a: '{value}'"), &Arc::from("f")).unwrap();
        let warnings: Vec<String> =
            expand(&mut root, &environment()).warnings.into_iter().map(|w| w.message).collect();
        assert_eq!(warnings, warning.map(str::to_owned).into_iter().collect::<Vec<_>>(), "{value}");
    }
}

#[test]
fn unset_variables_have_a_default_or_are_null() {
    check("${U}", "null<>");
    check("x${U}", r#""x""#);
    check("${EMPTY}", "null<>");
    check("${env:U:-d}", r#""d""#);
    check("${env:U:-12}", "12<12>");
    check("${env:U:-}", r#""""#);
    check("${env:E:-d}", r#""value""#);
    check("${env:EMPTY:-d}", "null<>");
}

#[test]
fn unset_variable_without_default_is_a_warning() {
    for (value, warnings) in [("${U}", 1), ("x${U}", 1), ("${env:U:-d}", 0), ("${EMPTY}", 0), ("$${U}", 0)] {
        let mut root = yaml_parse(&format!("a: {value}"), &Arc::from("f")).unwrap();
        let findings = expand(&mut root, &environment());
        assert_eq!(findings.warnings.len(), warnings, "{value}");
    }
}

#[test]
fn references_nest() {
    check("${env:${NAME_OF_E}}", r#""value""#);
    check("${CHAIN}", r#""E""#);
    check("${env:${CHAIN}}", r#""value""#);
    check("${LIST}", r#"["a", "value"]<[a, 'value']>"#);
    check("${MAP}", r#"{k: "value"}<{k: 'value'}>"#);
}

#[test]
fn comments_belong_to_the_text_only() {
    // The text has an invalid reference: it is an error for a string field, and not for a bool field.
    check("${COMMENT}", "true");
    refuse("x${COMMENT}", r#"environment variable "hello.world" has invalid name"#);
}

#[test]
fn invalid_yaml_is_a_string() {
    check("${LINES}", r#""a: [1\nb""#);
}

#[test]
fn files_have_a_value_and_a_text() {
    check("${file:part.yaml}", "{k: 1<1>, l: [\"x\"]}<k: 1\nl: [x]\n>");
    check("${file:text}", r#""hello\n""#);
    check("x${file:text}", r#""xhello\n""#);
    refuse("${file:absent}", r#"unable to read the file "absent""#);
}

#[test]
fn wrong_references_are_reported() {
    refuse("${}", r#"environment variable "" has invalid name"#);
    refuse("${1x}", r#"environment variable "1x" has invalid name"#);
    refuse("${a b}", r#"environment variable "a b" has invalid name"#);
    refuse(
        "${foo:bar}",
        r#"scheme "foo" is not supported for uri "foo:bar": expected one of env, file, http, https, yaml"#,
    );
    refuse("${a$b}", "contains unsupported characters ('$')");
    refuse("${:x}", r#"invalid uri: ":x""#);
}

#[test]
fn keys_are_not_expanded() {
    let mut root = yaml_parse("'${E}': 1", &Arc::from("f")).unwrap();
    assert!(expand(&mut root, &environment()).problems.is_empty());
    assert_eq!(flow(&root), "{${E}: 1}");
}

#[test]
fn endless_expansions_are_reported() {
    refuse("${LOOP}", "too many recursive expansions");
    refuse("x${GROW}", "expansions come to more than");
}

#[test]
fn file_that_includes_itself_is_reported() {
    for file in ["${file:self}", "[${yaml:1}]", "{a: '${file:self}'}", "['${file:self}', '${file:self}']"] {
        let environment =
            FakeEnvironment { files: [("self", file.as_bytes().to_vec())].into(), ..environment() };
        assert_eq!(run("${file:self}", &environment).is_err(), file.contains("self"), "{file}");
    }
}
