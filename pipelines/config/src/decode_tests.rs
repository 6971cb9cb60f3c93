//! Decoded sections, and the problems of wrong ones.

use std::collections::BTreeMap;

use serde::Deserialize;

use crate::{ConfigError, GoDuration, Headers, Node, NullIsNone, Optional, Section};

#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(default)]
struct Config {
    endpoint: String,
    insecure: bool,
    limit: u16,
    offset: i64,
    ratio: f64,
    timeout: GoDuration,
    level: Level,
    fields: Vec<String>,
    labels: BTreeMap<String, String>,
    headers: Headers,
    queue: Optional<Queue>,
    batch: Optional<Queue>,
    cors: Optional<Queue, NullIsNone>,
    actions: Vec<Action>,
    note: Option<String>,
}

impl Default for Config {
    fn default() -> Self {
        Config {
            endpoint: "localhost:4317".to_owned(),
            insecure: false,
            limit: 7,
            offset: -1,
            ratio: 0.5,
            timeout: GoDuration::from_secs(5),
            level: Level::Basic,
            fields: vec!["a".to_owned()],
            labels: BTreeMap::new(),
            headers: Headers::default(),
            queue: Optional::some(Queue::default()),
            batch: Optional::none(),
            cors: Optional::none(),
            actions: Vec::new(),
            note: Some("kept".to_owned()),
        }
    }
}

#[derive(Clone, Copy, Debug, Deserialize, PartialEq)]
#[serde(rename_all = "lowercase")]
enum Level {
    Basic,
    Normal,
    Detailed,
}

#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(default)]
struct Queue {
    queue_size: u64,
    num_consumers: u64,
}

impl Default for Queue {
    fn default() -> Self {
        Queue { queue_size: 1000, num_consumers: 10 }
    }
}

#[derive(Clone, Debug, Deserialize, PartialEq)]
struct Action {
    key: String,
    #[serde(default)]
    value: i64,
}

fn decode(json: &str) -> Result<Config, ConfigError> {
    let node: Node = serde_json::from_str(json).unwrap();
    Section::new("exporters::x", &node).decode()
}

/// Checks that a text decodes to the defaults changed by `change`.
#[track_caller]
fn check(json: &str, change: impl FnOnce(&mut Config)) {
    let mut want = Config::default();
    change(&mut want);
    assert_eq!(decode(json).unwrap(), want, "{json}");
}

/// Checks the exact problems of a text.
#[track_caller]
fn refuse(json: &str, problems: &[&str]) {
    let error = decode(json).unwrap_err().to_string();
    let lines: Vec<&str> = error.lines().map(|l| l.strip_prefix("configuration: ").unwrap()).collect();
    assert_eq!(lines, problems, "{json}");
}

#[test]
fn absent_keys_have_their_default() {
    check("{}", |_| {});
    check("null", |_| {});
}

#[test]
fn values_of_the_right_type_replace_the_default() {
    check(r#"{"endpoint": "h:1", "insecure": true}"#, |c| {
        c.endpoint = "h:1".to_owned();
        c.insecure = true;
    });
    check(r#"{"limit": 65535, "offset": -9, "ratio": 2}"#, |c| {
        c.limit = 65535;
        c.offset = -9;
        c.ratio = 2.0;
    });
    check(r#"{"limit": 3.0}"#, |c| c.limit = 3);
    check(r#"{"level": "detailed"}"#, |c| c.level = Level::Detailed);
    check(r#"{"note": "x"}"#, |c| c.note = Some("x".to_owned()));
}

#[test]
fn null_keeps_the_default_of_lists_maps_and_sections() {
    check(
        r#"{"level": null, "fields": null, "note": null, "headers": null, "labels": null, "queue": {}}"#,
        |_| {},
    );
    check(r#"{"fields": []}"#, |c| c.fields.clear());
    check(r#"{"endpoint": ""}"#, |c| c.endpoint.clear());
}

#[test]
fn null_is_the_zero_of_a_plain_type() {
    check(r#"{"endpoint": null, "insecure": null, "limit": null, "ratio": null, "timeout": null}"#, |c| {
        c.endpoint.clear();
        c.limit = 0;
        c.ratio = 0.0;
        c.timeout = GoDuration::default();
    });
}

#[test]
fn comma_separated_texts_are_lists() {
    check(r#"{"fields": "a,b c,"}"#, |c| c.fields = vec!["a".into(), "b c".into(), String::new()]);
    check(r#"{"fields": ""}"#, |c| c.fields.clear());
}

#[test]
fn durations_are_texts_with_units_or_integers() {
    check(r#"{"timeout": "200ms"}"#, |c| c.timeout = GoDuration::from_millis(200));
    check(r#"{"timeout": 2000000}"#, |c| c.timeout = GoDuration::from_millis(2));
    check(r#"{"timeout": "0"}"#, |c| c.timeout = GoDuration::default());
    refuse(r#"{"timeout": "5"}"#, &[r#"exporters::x::timeout: time: missing unit in duration "5""#]);
    refuse(
        r#"{"timeout": -5}"#,
        &[r#"exporters::x::timeout: duration "-5" is negative: expected zero or more"#],
    );
    refuse(
        r#"{"timeout": true}"#,
        &["exporters::x::timeout: expected type 'time.Duration', got unconvertible type 'bool'"],
    );
}

#[test]
fn types_are_not_coerced() {
    let wrong = |key: &str, want: &str, got: &str| {
        format!("exporters::x::{key}: expected type '{want}', got unconvertible type '{got}'")
    };
    refuse(r#"{"endpoint": 4317}"#, &[&wrong("endpoint", "string", "int")]);
    refuse(r#"{"endpoint": true}"#, &[&wrong("endpoint", "string", "bool")]);
    refuse(r#"{"insecure": 1}"#, &[&wrong("insecure", "bool", "int")]);
    refuse(r#"{"insecure": "maybe"}"#, &[&wrong("insecure", "bool", "string")]);
    refuse(
        r#"{"insecure": "yes"}"#,
        &[&format!("{}: write true without quotes", wrong("insecure", "bool", "string"))],
    );
    refuse(r#"{"limit": "7"}"#, &[&wrong("limit", "uint16", "string")]);
    refuse(r#"{"limit": 70000}"#, &["exporters::x::limit: 70000 overflows uint16"]);
    refuse(r#"{"limit": -1}"#, &["exporters::x::limit: -1 is negative: expected 0 or more"]);
    refuse(r#"{"limit": 1.5}"#, &["exporters::x::limit: expected type 'uint16', got the fraction 1.5"]);
    refuse(r#"{"ratio": "1"}"#, &[&wrong("ratio", "float64", "string")]);
    refuse(r#"{"fields": 1}"#, &["exporters::x::fields: source data must be an array or slice, got int"]);
    refuse(r#"{"labels": "x"}"#, &[r#"exporters::x::labels: expected a map or struct, got "string""#]);
    refuse("[]", &[r#"exporters::x: expected a map or struct, got "[]interface {}""#]);
}

#[test]
fn unknown_choice_is_reported_with_the_choices() {
    refuse(
        r#"{"level": "detaild"}"#,
        &[concat!(
            r#"exporters::x::level: unsupported value "detaild": expected one of "basic", "normal", "detailed""#,
            r#" (did you mean "detailed"?)"#
        )],
    );
}

#[test]
fn unknown_keys_of_one_mapping_are_reported_together() {
    refuse(
        r#"{"endpont": "x", "foo": 1, "queue": {"queue_sise": 1}}"#,
        &[
            r#"exporters::x: has invalid keys: endpont, foo (did you mean "endpoint"?)"#,
            r#"exporters::x::queue: has invalid keys: queue_sise (did you mean "queue_size"?)"#,
        ],
    );
    refuse(
        r#"{"Endpoint": "x"}"#,
        &[r#"exporters::x: has invalid keys: Endpoint (did you mean "endpoint"?)"#],
    );
}

#[test]
fn keys_that_the_collector_had_once_are_explained() {
    refuse(
        r#"{"num_workers": 4}"#,
        &[
            "exporters::x: has invalid keys: num_workers (num_workers was removed: write sending_queue: {num_consumers: N})",
        ],
    );
}

#[test]
fn every_problem_is_reported_at_once() {
    refuse(
        r#"{"insecure": 1, "limit": null, "actions": [{"key": 1}, {"value": 2}, {"key": "k", "valeu": 3}],
            "queue": {"enabled": "no", "num_consumers": []}, "bar": 0}"#,
        &[
            "exporters::x: has invalid keys: bar",
            "exporters::x::insecure: expected type 'bool', got unconvertible type 'int'",
            "exporters::x::actions[0]::key: expected type 'string', got unconvertible type 'int'",
            r#"exporters::x::actions[1]: requires the key "key""#,
            r#"exporters::x::actions[2]: has invalid keys: valeu (did you mean "value"?)"#,
            concat!(
                "exporters::x::queue::enabled: expected type 'bool', got unconvertible type 'string'",
                ": write false without quotes"
            ),
            "exporters::x::queue::num_consumers: expected type 'uint64', got unconvertible type '[]interface {}'",
        ],
    );
}

#[test]
fn null_for_a_required_choice_is_reported() {
    #[derive(Debug, Deserialize)]
    struct Chosen {
        #[expect(dead_code, reason = "what matters is whether it can be read")]
        level: Level,
    }
    let node: Node = serde_json::from_str(r#"{"level": null}"#).unwrap();
    let error = Section::new("x", &node).decode::<Chosen>().unwrap_err().to_string();
    assert_eq!(error, r#"configuration: x: requires the key "level""#);
}

#[test]
fn problems_are_bounded() {
    let actions = vec!["{}"; 1000].join(",");
    let error = decode(&format!(r#"{{"actions": [{actions}]}}"#)).unwrap_err();
    assert_eq!(error.problems().len(), 100);
}

#[test]
fn nulls_are_bounded() {
    let nulls = |count: usize| format!(r#"{{"actions": [{}]}}"#, vec!["null"; count].join(","));
    check(&nulls(900), |_| {});
    refuse(&nulls(1001), &["exporters::x: more than 1000 nulls where a value is expected"]);
}

#[test]
fn optional_sections_accept_enabled() {
    let queue = |size, consumers| Optional::some(Queue { queue_size: size, num_consumers: consumers });
    check(r#"{"queue": {"queue_size": 5}}"#, |c| c.queue = queue(5, 10));
    check(r#"{"queue": {"enabled": true, "num_consumers": 1}}"#, |c| c.queue = queue(1000, 1));
    check(r#"{"queue": {"enabled": false, "num_consumers": 1}}"#, |c| c.queue = Optional::none());
    check(r#"{"batch": {}}"#, |c| c.batch = queue(1000, 10));
    check(r#"{"batch": {"enabled": null}}"#, |c| c.batch = queue(1000, 10));
    refuse(r#"{"enabled": true}"#, &["exporters::x: has invalid keys: enabled"]);
    refuse(
        r#"{"queue": {"enabled": 1}}"#,
        &["exporters::x::queue::enabled: expected type 'bool', got unconvertible type 'int'"],
    );
    refuse(r#"{"queue": true}"#, &[r#"exporters::x::queue: expected a map or struct, got "bool""#]);
}

#[test]
fn null_enables_an_optional_section_by_default() {
    check(r#"{"queue": null}"#, |_| {});
    check(r#"{"batch": null}"#, |c| c.batch = Optional::some(Queue::default()));
    check(r#"{"cors": null}"#, |_| {});
    check(r#"{"cors": {}}"#, |c| c.cors = Optional::some(Queue::default()));
}

#[test]
fn headers_are_a_map_or_a_list() {
    for json in [
        r#"{"headers": {"a": "1", "B": "2"}}"#,
        r#"{"headers": [{"name": "a", "value": "1"}, {"name": "B", "value": "2"}]}"#,
    ] {
        let config = decode(json).unwrap();
        assert_eq!(config.headers.iter().collect::<Vec<_>>(), [("a", "1"), ("B", "2")], "{json}");
    }
    refuse(
        r#"{"headers": [{"name": "a", "value": "1"}, {"name": "A", "value": "2"}]}"#,
        &[r#"exporters::x::headers: duplicate name "A": each header may be set once"#],
    );
    refuse(
        r#"{"headers": {"a": 1}}"#,
        &["exporters::x::headers::a: expected type 'string', got unconvertible type 'int'"],
    );
    refuse(
        r#"{"headers": [{"nam": "a"}]}"#,
        &[r#"exporters::x::headers[0]: has invalid keys: nam (did you mean "name"?)"#],
    );
}

#[test]
fn header_values_are_not_printed() {
    let config = decode(r#"{"headers": {"authorization": "hunter2"}}"#).unwrap();
    let printed = format!("{config:?}");
    assert!(printed.contains("[REDACTED]") && !printed.contains("hunter2"), "{printed}");
}

#[test]
fn expanded_scalars_are_text_for_strings_only() {
    let mut node: Node = serde_json::from_str(r#"{"endpoint": 83, "limit": 83, "note": true}"#).unwrap();
    let crate::Value::Mapping(entries) = &mut node.value else { unreachable!() };
    for (entry, text) in entries.iter_mut().zip(["0123", "0123", "\"0123\""]) {
        entry.value.text = Some(text.to_owned());
    }
    let config: Config = Section::new("x", &node).decode().unwrap();
    assert_eq!((config.endpoint.as_str(), config.limit), ("0123", 83));
    assert_eq!(config.note.as_deref(), Some("\"0123\""));
}

#[test]
fn an_unset_variable_is_the_zero_of_a_plain_type() {
    let json = r#"{"endpoint": null, "limit": null, "insecure": null, "ratio": null, "timeout": null, "fields": null,
        "queue": null}"#;
    let mut node: Node = serde_json::from_str(json).unwrap();
    let crate::Value::Mapping(entries) = &mut node.value else { unreachable!() };
    for entry in entries {
        entry.value.text = Some(String::new());
    }
    let config: Config = Section::new("x", &node).decode().unwrap();
    assert_eq!((config.endpoint.as_str(), config.limit, config.insecure, config.ratio), ("", 0, false, 0.0));
    assert_eq!((config.timeout, config.fields), (GoDuration::default(), Vec::new()));
    assert!(config.queue.is_some(), "a section keeps its default");
}

#[test]
fn a_component_adds_problems_at_a_key_path() {
    let node: Node = serde_json::from_str(r#"{"queue": {"queue_size": 0}}"#).unwrap();
    let mut problems = Section::new("exporters::x", &node).problems();
    problems.require(true, "queue", "never reported");
    problems.require(false, "queue::queue_size", "must be positive, got 0");
    problems.add("", "requires a non-empty \"endpoint\"");
    let error = problems.finish().unwrap_err().to_string();
    assert_eq!(
        error,
        "configuration: exporters::x::queue::queue_size: must be positive, got 0\n\
         configuration: exporters::x: requires a non-empty \"endpoint\""
    );
}
