//! Selection of the items to change.

use component::testing::problems;
use pdata::Signal;

use super::FACTORY;
use crate::testing::check as check_batch;

const SPANS: &str = r#"{"resourceSpans":[
    {"resource":{"attributes":[{"key":"service.name","value":{"stringValue":"vllm"}}]},"scopeSpans":[
        {"scope":{"name":"gpu","version":"1.0"},"spans":[{"name":"decode","kind":2,"attributes":[A,{"key":"n","value":{"intValue":"7"}}]},{"name":"prefill","attributes":[B]}]}]},
    {"scopeSpans":[{"spans":[{"name":"decode","attributes":[C]}]}]}]}"#;

const LOGS: &str = r#"{"resourceLogs":[{"scopeLogs":[{"logRecords":[
    {"severityNumber":17,"severityText":"ERROR","body":{"stringValue":"out of memory"},"attributes":[A]},
    {"severityNumber":9,"severityText":"INFO","body":{"kvlistValue":{"values":[{"key":"k","value":{"intValue":1}}]}},"attributes":[B]},
    {"attributes":[C]}]}]}]}"#;

const METRICS: &str = r#"{"resourceMetrics":[{"scopeMetrics":[{"metrics":[
    {"name":"a.gauge","gauge":{"dataPoints":[{"attributes":[A]},{"attributes":[A]}]}},
    {"name":"b.sum","sum":{"dataPoints":[{"attributes":[B]}]}},
    {"name":"b.histogram","histogram":{"dataPoints":[{"attributes":[B]}]}},
    {"name":"c.exponential","exponentialHistogram":{"dataPoints":[{"attributes":[C]}]}},
    {"name":"c.summary","summary":{"dataPoints":[{"attributes":[C]}]}},
    {"name":"none"}]}]}]}"#;

/// Checks which of A, B and C in a batch a selection changes.
#[track_caller]
fn check(signal: Signal, selection: &str, changed: &str) {
    let batch = [LOGS, METRICS, SPANS][signal as usize];
    let attribute =
        |letter: char, value: &str| format!(r#"{{"key":"{letter}","value":{{"stringValue":"{value}"}}}}"#);
    let write = |mark: &dyn Fn(char) -> &'static str| {
        ['A', 'B', 'C'].into_iter().fold(batch.to_owned(), |text, letter| {
            let written = attribute(letter, mark(letter));
            text.replace(&format!("[{letter}]"), &format!("[{written}]"))
                .replace(&format!("[{letter},"), &format!("[{written},"))
        })
    };
    let before = write(&|_| "old");
    let after = write(&|letter| if changed.contains(letter) { "new" } else { "old" });
    let updates = ['A', 'B', 'C'].map(|l| format!(r#"{{"key": "{l}", "value": "new", "action": "update"}}"#));
    let settings = format!(r#"{{{selection} "actions": [{}]}}"#, updates.join(","));
    check_batch(&FACTORY, &settings, signal, &before, &after);
}

#[test]
fn without_a_selection_everything_is_changed() {
    for signal in Signal::STABLE {
        check(signal, "", "ABC");
    }
}

#[test]
fn spans_are_selected_by_their_properties() {
    for (selection, changed) in [
        (r#""match_type": "strict", "span_names": ["decode", "x"]"#, "AC"),
        (r#""match_type": "strict", "span_names": ["dec"]"#, ""),
        (r#""match_type": "regexp", "span_names": ["^dec", "x"]"#, "AC"),
        (r#""match_type": "strict", "span_kinds": ["SPAN_KIND_SERVER"]"#, "A"),
        (r#""match_type": "strict", "services": ["vllm"]"#, "AB"),
        (r#""match_type": "regexp", "services": [".*nil-service.*"]"#, "C"),
        (r#""match_type": "strict", "services": ["vllm"], "span_names": ["decode"]"#, "A"),
        (r#""match_type": "strict", "attributes": [{"key": "n"}]"#, "A"),
        (r#""match_type": "strict", "attributes": [{"key": "n", "value": 7}]"#, "A"),
        (r#""match_type": "strict", "attributes": [{"key": "n", "value": "7"}]"#, ""),
        (r#""match_type": "regexp", "attributes": [{"key": "n", "value": "^[0-9]$"}]"#, "A"),
        (r#""match_type": "strict", "attributes": [{"key": "n"}, {"key": "m"}]"#, ""),
        (r#""match_type": "strict", "resources": [{"key": "service.name", "value": "vllm"}]"#, "AB"),
        (r#""match_type": "strict", "libraries": [{"name": "gpu"}]"#, "AB"),
        (r#""match_type": "strict", "libraries": [{"name": "gpu", "version": "1.0"}]"#, "AB"),
        (r#""match_type": "strict", "libraries": [{"name": "gpu", "version": ""}]"#, ""),
        (r#""match_type": "strict", "metric_names": ["decode"]"#, ""),
    ] {
        check(Signal::Traces, &format!(r#""include": {{{selection}}},"#), changed);
        let others: String = "ABC".chars().filter(|c| !changed.contains(*c)).collect();
        check(Signal::Traces, &format!(r#""exclude": {{{selection}}},"#), &others);
    }
}

#[test]
fn log_records_are_selected_by_body_and_severity() {
    for (selection, changed) in [
        (r#""match_type": "regexp", "log_bodies": ["^out of"]"#, "A"),
        (r#""match_type": "strict", "log_bodies": ["{\"k\":1}"]"#, "B"),
        (r#""match_type": "strict", "log_severity_texts": ["INFO"]"#, "B"),
        (r#""match_type": "strict", "log_severity_number": {"min": 9}"#, "AB"),
        (r#""match_type": "strict", "log_severity_number": {"min": 10, "match_undefined": true}"#, "AC"),
        (r#""match_type": "strict", "span_names": ["decode"]"#, ""),
    ] {
        check(Signal::Logs, &format!(r#""include": {{{selection}}},"#), changed);
    }
}

#[test]
fn metrics_are_selected_by_name() {
    check(Signal::Metrics, r#""include": {"match_type": "regexp", "metric_names": ["^[ab]\\."]},"#, "AB");
    check(Signal::Metrics, r#""include": {"match_type": "strict", "metric_names": ["a.gauge"]},"#, "A");
    let both = r#""include": {"match_type": "regexp", "metric_names": ["^[ab]"]},
                  "exclude": {"match_type": "regexp", "metric_names": ["^b"]},"#;
    check(Signal::Metrics, both, "A");
}

#[test]
fn wrong_selections_are_refused_with_their_path() {
    let action = r#""actions": [{"key": "a", "action": "delete"}]"#;
    for (settings, want) in [
        (r#""include": {"match_type": "strict", "span_names": ["a"]}"#, vec![]),
        (r#""include": {"match_type": "strict"}"#, vec!["x::include: nothing is named to match"]),
        (
            r#""exclude": {"span_names": ["a"]}"#,
            vec!["x::exclude::match_type: unrecognized match_type: \"\", valid"],
        ),
        (
            r#""include": {"match_type": "regexp", "span_names": ["("]}"#,
            vec!["x::include::span_names: invalid pattern"],
        ),
        (
            r#""include": {"match_type": "strict", "span_kinds": ["SERVER"]}"#,
            vec!["x::include::span_kinds: unknown span kind \"SERVER\": expected one of SPAN_KIND_CLIENT"],
        ),
        (
            r#""include": {"match_type": "regexp", "attributes": [{"key": "a"}, {"key": "n", "value": 7}]}"#,
            vec!["x::include::attributes[1]: match_type=regexp for \"n\" only supports Str, but found Int"],
        ),
        (
            r#""exclude": {"match_type": "strict", "resources": [{"value": 7}]}"#,
            vec!["x::exclude::resources[0]: can't have empty key"],
        ),
        (
            r#""include": {"match_type": "strict", "names": ["a"]}"#,
            vec!["invalid keys: names", "x::include: nothing is named to match"],
        ),
    ] {
        let found = problems(&FACTORY, &format!("{{{settings}, {action}}}"));
        assert_eq!(found.len(), want.len(), "{settings}: {found:?}");
        assert!(found.iter().zip(&want).all(|(f, w)| f.contains(w)), "{settings}: {found:?}");
    }
    assert_eq!(problems(&FACTORY, "{}"), ["x: missing required field \"actions\""]);
}
