//! Sampled items and their sampling state. Trace ids end in the randomness for which they are named.

use component::testing::{Started, check_problem};
use pdata::Signal;
use proptest::prelude::*;

use super::FACTORY;

/// Sends one item through a sampler; returns the item if it was kept.
fn sample(settings: &str, signal: Signal, item: &str) -> Option<serde_json::Value> {
    let (resources, scopes, items) = match signal {
        Signal::Traces => ("resourceSpans", "scopeSpans", "spans"),
        _ => ("resourceLogs", "scopeLogs", "logRecords"),
    };
    let batch = format!(r#"{{"{resources}":[{{"{scopes}":[{{"{items}":[{item}]}}]}}]}}"#);
    let started = Started::processor(&FACTORY, settings);
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let data = pdata::json::decode(signal, batch.as_bytes()).unwrap();
    runtime.block_on(started.send(data)).unwrap();
    let kept = started.sink.take().pop()?;
    let json: serde_json::Value = serde_json::from_slice(&pdata::json::encode(&kept)).unwrap();
    Some(json[resources][0][scopes][0][items][0].clone())
}

fn span(randomness: &str, state: &str, more: &str) -> String {
    format!(r#"{{"traceId":"00000000000000ff00{randomness}","traceState":"{state}"{more}}}"#)
}

/// Checks the tracestate of a span after a sampler; `None` if it is dropped.
#[track_caller]
fn check(settings: &str, span: &str, state: Option<&str>) {
    let kept = sample(settings, Signal::Traces, span);
    let kept = kept.map(|span| span["traceState"].as_str().unwrap_or_default().to_owned());
    assert_eq!(kept.as_deref(), state, "{settings} {span}");
}

const EQUALIZING: &str = r#"{"mode": "equalizing", "sampling_percentage": 50}"#;
const PROPORTIONAL: &str = r#"{"mode": "proportional", "sampling_percentage": 50}"#;
const LOW: &str = "7fffffffffffff";
const HIGH: &str = "c0000000000000";

#[test]
fn equalizing_samples_by_the_higher_threshold() {
    check(EQUALIZING, &span(LOW, "", ""), None);
    check(EQUALIZING, &span(HIGH, "", ""), Some("ot=th:8"));
    check(EQUALIZING, &span(HIGH, "a=b", ""), Some("ot=th:8,a=b"));
    check(EQUALIZING, &span(HIGH, "ot=th:4", ""), Some("ot=th:8"));
    check(EQUALIZING, &span(HIGH, "ot=th:c", ""), Some("ot=th:c"));
    check(EQUALIZING, &span(LOW, "ot=rv:80000000000000;th:4;x:y", ""), Some("ot=rv:80000000000000;th:8;x:y"));
    check(EQUALIZING, &span(HIGH, "ot=rv:7fffffffffffff", ""), None);
}

#[test]
fn proportional_samples_a_share_of_the_arriving_items() {
    check(PROPORTIONAL, &span(HIGH, "", ""), Some("ot=th:8"));
    check(PROPORTIONAL, &span(HIGH, "ot=th:8", ""), Some("ot=th:c"));
    check(PROPORTIONAL, &span("bfffffffffffff", "ot=th:8", ""), None);
    check(PROPORTIONAL, &span("ffffffffffffff", "ot=th:ffffffffffffff", ""), None);
}

#[test]
fn unsampleable_items_are_dropped_or_kept_as_configured() {
    let open = r#"{"mode": "equalizing", "sampling_percentage": 50, "fail_closed": false}"#;
    for (span, state) in [
        // By its own threshold it should have been dropped.
        (span(LOW, "ot=th:8", ""), "ot=th:0"),
        (span(HIGH, "ot=th:zz", ""), "ot=th:zz"),
        (span(HIGH, "broken", ""), "broken"),
        (r#"{"name":"no id"}"#.to_owned(), "ot=th:0"),
    ] {
        check(EQUALIZING, &span, None);
        check(open, &span, Some(state));
    }
}

#[test]
fn priority_of_a_span_overrides_its_randomness() {
    let with = |value: &str| format!(r#","attributes":[{{"key":"sampling.priority","value":{{{value}}}}}]"#);
    let none = r#"{"sampling_percentage": 0}"#;
    for (value, low, high) in [
        (r#""intValue":0"#, None, None),
        (r#""intValue":1"#, Some("ot=th:0"), Some("ot=th:0")),
        (r#""doubleValue":0.5"#, Some("ot=th:0"), Some("ot=th:0")),
        (r#""stringValue":"2""#, Some("ot=th:0"), Some("ot=th:0")),
        (r#""stringValue":"x""#, None, Some("ot=th:8")),
        (r#""intValue":-1"#, None, Some("ot=th:8")),
    ] {
        check(EQUALIZING, &span(LOW, "", &with(value)), low);
        check(EQUALIZING, &span(HIGH, "", &with(value)), high);
    }
    check(none, &span(HIGH, "", ""), None);
    check(none, &span(LOW, "", &with(r#""intValue":1"#)), Some("ot=th:0"));
    // The threshold of an item sampled before is not lowered.
    check(EQUALIZING, &span(HIGH, "ot=th:4", &with(r#""intValue":1"#)), Some("ot=th:4"));
}

#[test]
fn hash_decides_per_trace_and_leaves_randomness() {
    let settings = r#"{"sampling_percentage": 100}"#;
    let kept = sample(settings, Signal::Traces, &span(LOW, "", "")).unwrap();
    let state = kept["traceState"].as_str().unwrap().to_owned();
    assert!(state.starts_with("ot=rv:") && state.ends_with(";th:0"), "{state}");
    for in_use in ["ot=rv:80000000000000", "ot=th:8"] {
        check(settings, &span(HIGH, in_use, ""), None);
        check(r#"{"sampling_percentage": 1, "fail_closed": false}"#, &span(HIGH, in_use, ""), Some(in_use));
    }
    check(settings, r#"{"name":"no id"}"#, None);
}

/// The decisions of the Collector's own processor (v0.158) for these trace ids.
#[test]
fn hash_equals_that_of_the_collector() {
    for (settings, id, state) in [
        (
            r#"{"sampling_percentage": 33.3}"#,
            "abaca7ddaabab66102f434f8037a764d",
            "ot=rv:f5483365da42ad;th:aac4",
        ),
        (
            r#"{"sampling_percentage": 33.3, "hash_seed": 22}"#,
            "dc03e94b91a253c6a8a7f83464a4c1cb",
            "ot=rv:ecc83797e684cd;th:aac4",
        ),
        (r#"{"sampling_percentage": 100}"#, "1faa9dde6e7015ba4e0102b0aff159ee", "ot=rv:c2243044120f76;th:0"),
    ] {
        check(settings, &format!(r#"{{"traceId":"{id}"}}"#), Some(state));
    }
}

#[test]
fn hash_samples_the_configured_share_and_depends_on_the_seed() {
    let kept = |settings: &str| -> Vec<bool> {
        let ids = (0..2000_u64).map(|n| format!("{:014x}", n.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 8));
        ids.map(|id| sample(settings, Signal::Traces, &span(&id, "", "")).is_some()).collect()
    };
    let (one, two) = (
        kept(r#"{"mode": "hash_seed", "sampling_percentage": 25}"#),
        kept(r#"{"mode": "hash_seed", "sampling_percentage": 25, "hash_seed": 22}"#),
    );
    for choice in [&one, &two] {
        let share = choice.iter().filter(|kept| **kept).count();
        assert!((400..600).contains(&share), "{share} of 2000");
    }
    assert_ne!(one, two);
}

/// Returns a log record with string attributes, `key=value`.
fn record(id: &str, attributes: &[(&str, &str)]) -> String {
    let pairs: Vec<String> =
        attributes.iter().map(|(key, value)| format!(r#"{{"key":"{key}","value":{{{value}}}}}"#)).collect();
    format!(r#"{{"traceId":"{id}","attributes":[{}]}}"#, pairs.join(","))
}

fn check_record(settings: &str, record: &str, attributes: Option<&[(&str, &str)]>) {
    let kept = sample(settings, Signal::Logs, record);
    let kept = kept.map(|record| {
        let list = record["attributes"].as_array().cloned().unwrap_or_default();
        let pair = |a: &serde_json::Value| (a["key"].as_str().unwrap().to_owned(), a["value"].to_string());
        list.iter().map(pair).collect::<Vec<_>>()
    });
    let want = attributes
        .map(|list| list.iter().map(|(k, v)| ((*k).to_owned(), format!("{{{v}}}"))).collect::<Vec<_>>());
    assert_eq!(kept, want, "{settings} {record}");
}

const HIGH_ID: &str = "00000000000000ff00c0000000000000";

#[test]
fn log_records_have_sampling_attributes() {
    let threshold = ("sampling.threshold", r#""stringValue":"8""#);
    check_record(EQUALIZING, &record(HIGH_ID, &[]), Some(&[threshold]));
    check_record(EQUALIZING, &record("00000000000000ff007fffffffffffff", &[]), None);
    let own = ("sampling.randomness", r#""stringValue":"80000000000000""#);
    check_record(EQUALIZING, &record("", &[own]), Some(&[own, threshold]));
    check_record(EQUALIZING, &record(HIGH_ID, &[("sampling.threshold", r#""stringValue":"x""#)]), None);
    check_record(EQUALIZING, &record("", &[]), None);
}

#[test]
fn log_records_without_trace_are_hashed_by_an_attribute() {
    let id = ("id", r#""intValue":"7""#);
    for settings in [
        r#"{"sampling_percentage": 100, "from_attribute": "id"}"#,
        r#"{"sampling_percentage": 100, "from_attribute": "id", "attribute_source": "record"}"#,
    ] {
        assert!(sample(settings, Signal::Logs, &record("", &[id])).is_some(), "{settings}");
        assert!(sample(settings, Signal::Logs, &record("", &[])).is_none(), "{settings}");
    }
    let by_record = r#"{"sampling_percentage": 100, "attribute_source": "record"}"#;
    assert!(sample(by_record, Signal::Logs, &record(HIGH_ID, &[id])).is_none());
}

#[test]
fn priority_of_a_log_record_is_its_own_percentage() {
    let settings = r#"{"mode": "equalizing", "sampling_percentage": 1, "sampling_priority": "p"}"#;
    let p = ("p", r#""intValue":"100""#);
    check_record(
        settings,
        &record(HIGH_ID, &[p]),
        Some(&[p, ("sampling.threshold", r#""stringValue":"0""#)]),
    );
    let p = ("p", r#""doubleValue":25.0"#);
    check_record(
        settings,
        &record(HIGH_ID, &[p]),
        Some(&[p, ("sampling.threshold", r#""stringValue":"c""#)]),
    );
    for p in [r#""intValue":"0""#, r#""intValue":"200""#, r#""stringValue":"100""#] {
        check_record(settings, &record(HIGH_ID, &[("p", p)]), None);
    }
}

#[test]
fn wrong_settings_are_refused() {
    for (json, want) in [
        (r#"{"sampling_percentage": 15, "hash_seed": 22}"#, ""),
        (r#"{"sampling_percentage": 150.5, "mode": "proportional", "sampling_precision": 14}"#, ""),
        (
            r#"{"sampling_percentage": 1, "mode": "", "attribute_source": "record", "from_attribute": "x"}"#,
            "",
        ),
        (r#"{"sampling_percentage": -1}"#, "x::sampling_percentage: sampling rate is negative: -1%"),
        (r#"{"sampling_percentage": 1e-30}"#, "x::sampling_percentage: sampling rate is too small"),
        (r#"{"sampling_precision": 0}"#, "x::sampling_precision: 0 is out of range: expected 1 to 14"),
        (r#"{"sampling_precision": 15}"#, "x::sampling_precision: 15 is out of range: expected 1 to 14"),
        (r#"{"mode": "random"}"#, "random"),
        (r#"{"attribute_source": "spanID"}"#, "spanID"),
        (r#"{"percentage": 15}"#, "invalid keys: percentage"),
    ] {
        check_problem(&FACTORY, json, want);
    }
}

proptest! {
    #[test]
    fn randomness_of_sampled_items_reaches_their_threshold(
        randomness in 0_u64..1 << 56, before in prop::option::of(0_u64..1 << 56), percentage in 0.01_f64..100.0,
        mode in prop::sample::select(vec!["equalizing", "proportional"]),
    ) {
        let settings = format!(r#"{{"mode": "{mode}", "sampling_percentage": {percentage}}}"#);
        let state = before.map(|b| format!("ot=th:{:014x}", b)).unwrap_or_default();
        let kept = sample(&settings, Signal::Traces, &span(&format!("{randomness:014x}"), &state, ""));
        let Some(kept) = kept else { return Ok(()) };
        let digits = kept["traceState"].as_str().unwrap().strip_prefix("ot=th:").unwrap().to_owned();
        let threshold = u64::from_str_radix(&format!("{digits:0<14}"), 16).unwrap();
        prop_assert!(threshold <= randomness && threshold >= before.unwrap_or(0), "{digits}");
    }
}
