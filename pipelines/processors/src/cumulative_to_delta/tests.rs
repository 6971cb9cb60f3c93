//! Conversion of successive points of a series.

use component::testing::{Started, check_problem};
use config::GoDuration;
use pdata::Signal;

use super::FACTORY;

/// A processor, and access to its output.
struct Pipe(Started);

impl Pipe {
    fn new(settings: &str) -> Self {
        Pipe(Started::processor(&FACTORY, settings))
    }

    /// Sends one metric; returns its output without the name, or `None` if it was dropped.
    async fn send(&self, name: &str, metric: &str) -> Option<serde_json::Value> {
        let batch = format!(
            r#"{{"resourceMetrics":[{{"resource":{{"attributes":[{{"key":"host"}}]}},"scopeMetrics":[{{"metrics":[{{"name":"{name}",{metric}}}]}}]}}]}}"#
        );
        let data = pdata::json::decode(Signal::Metrics, batch.as_bytes()).unwrap();
        self.0.send(data).await.unwrap();
        let kept = self.0.sink.take().pop()?;
        let json: serde_json::Value = serde_json::from_slice(&pdata::json::encode(&kept)).unwrap();
        Some(json["resourceMetrics"][0]["scopeMetrics"][0]["metrics"][0].clone())
    }

    /// Sends a cumulative sum of one point; returns start, time, value and whether it is a delta.
    async fn sum(&self, start: u64, time: u64, value: &str) -> Option<(u64, u64, serde_json::Value)> {
        let sum = format!(
            r#""sum":{{"isMonotonic":true,"aggregationTemporality":2,"dataPoints":[{{"startTimeUnixNano":"{start}","timeUnixNano":"{time}",{value}}}]}}"#
        );
        let made = self.send("s", &sum).await?;
        assert_eq!(made["sum"]["aggregationTemporality"], 1);
        let point = &made["sum"]["dataPoints"][0];
        let nanos = |key: &str| point[key].as_str().map_or(0, |n| n.parse().unwrap());
        let value = [&point["asInt"], &point["asDouble"]].into_iter().find(|v| !v.is_null());
        Some((nanos("startTimeUnixNano"), nanos("timeUnixNano"), value.cloned().unwrap_or_default()))
    }
}

/// A time after the start of any test.
const LATER: u64 = 9_000_000_000_000_000_000;

#[tokio::test]
async fn a_sum_becomes_its_increase() {
    let pipe = Pipe::new(r#"{"initial_value": "keep"}"#);
    assert_eq!(pipe.sum(5, 10, r#""asInt":"7""#).await, Some((5, 10, "7".into())), "the first one as it is");
    assert_eq!(pipe.sum(5, 20, r#""asInt":"9""#).await, Some((10, 20, "2".into())));
    assert_eq!(pipe.sum(5, 30, r#""asInt":"9""#).await, Some((20, 30, "0".into())));
    assert_eq!(pipe.sum(5, 40, r#""asInt":"3""#).await, None, "a reset");
    assert_eq!(pipe.sum(5, 50, r#""asInt":"4""#).await, Some((40, 50, "1".into())), "from the reset on");
    assert_eq!(
        pipe.sum(45, 60, r#""asInt":"1""#).await,
        Some((45, 60, "1".into())),
        "a start is a new series"
    );
    assert_eq!(pipe.sum(5, 70, r#""asDouble":1.5"#).await, Some((5, 70, 1.5.into())), "so is another type");
    assert_eq!(pipe.sum(5, 80, r#""asDouble":4.0"#).await, Some((70, 80, 2.5.into())));
    assert_eq!(pipe.sum(5, 85, r#""asDouble":"NaN""#).await, Some((5, 85, "NaN".into())), "left as it is");
    assert_eq!(pipe.sum(5, 90, r#""asDouble":5.0"#).await, Some((80, 90, 1.0.into())));
    assert_eq!(pipe.sum(5, 95, r#""asDouble":6.0,"flags":1"#).await, None, "no value, no point");
}

#[tokio::test]
async fn treatment_of_the_first_point_is_configurable() {
    for (initial, start, time, is_kept) in [
        ("keep", 0, 10, true),
        ("drop", LATER, LATER + 1, false),
        ("auto", LATER, LATER + 1, true),
        ("auto", LATER, LATER, false),
        ("auto", 5, LATER, false),
        ("auto", 0, LATER, false),
    ] {
        let pipe = Pipe::new(&format!(r#"{{"initial_value": "{initial}"}}"#));
        let first = pipe.sum(start, time, r#""asInt":"7""#).await;
        assert_eq!(first.is_some(), is_kept, "{initial} {start} {time}");
        let second = pipe.sum(start, time + 1, r#""asInt":"8""#).await;
        assert_eq!(second, Some((time, time + 1, "1".into())), "{initial} {start} {time}");
    }
}

fn histogram(time: u64, count: u64, counts: &str, more: &str) -> String {
    format!(
        r#""histogram":{{"aggregationTemporality":2,"dataPoints":[{{"startTimeUnixNano":"5","timeUnixNano":"{time}","count":"{count}","bucketCounts":{counts},"min":1,"max":9,{more}}}]}}"#
    )
}

#[tokio::test]
async fn a_histogram_becomes_its_increase_without_extremes() {
    let pipe = Pipe::new(r#"{"initial_value": "keep"}"#);
    let send = async |time, count, counts: &str, more: &str| {
        let made = pipe.send("h", &histogram(time, count, counts, more)).await?;
        let point = made["histogram"]["dataPoints"][0].clone();
        assert!(point["min"].is_null() && point["max"].is_null());
        Some((point["count"].clone(), point["bucketCounts"].clone(), point["sum"].clone()))
    };
    let bounds = r#""explicitBounds":[2],"sum":5"#;
    let list = |counts: [&str; 2]| serde_json::json!(counts);
    let null = serde_json::Value::Null;
    assert_eq!(send(10, 3, r#"["1","2"]"#, bounds).await, Some(("3".into(), list(["1", "2"]), 5.0.into())));
    let more = r#""explicitBounds":[2],"sum":7.5"#;
    assert_eq!(send(20, 6, r#"["3","3"]"#, more).await, Some(("3".into(), list(["2", "1"]), 2.5.into())));
    assert_eq!(send(30, 7, r#"["2","5"]"#, more).await, None, "a bucket fell");
    let without = r#""explicitBounds":[2]"#;
    assert_eq!(send(40, 9, r#"["3","6"]"#, without).await, Some(("2".into(), list(["1", "1"]), null)));
    let other = r#""explicitBounds":[3],"sum":9"#;
    assert_eq!(send(50, 12, r#"["4","8"]"#, other).await, None, "other bounds");
    assert_eq!(send(60, 13, r#"["4","9"]"#, other).await, Some(("1".into(), list(["0", "1"]), 0.0.into())));
}

/// Returns an exponential histogram of one sign, from the text `scale zero threshold offset counts…`.
fn exponential(time: u64, text: &str) -> String {
    let words: Vec<&str> = text.split(' ').collect();
    let [scale, zero, threshold, offset, counts @ ..] = &words[..] else { panic!("{text}") };
    let total: u64 = counts.iter().chain([zero]).map(|n| n.parse::<u64>().unwrap()).sum();
    let counts: Vec<String> = counts.iter().map(|n| format!(r#""{n}""#)).collect();
    format!(
        r#""exponentialHistogram":{{"aggregationTemporality":2,"dataPoints":[{{"startTimeUnixNano":"5","timeUnixNano":"{time}","count":"{total}","scale":{scale},"zeroCount":"{zero}","zeroThreshold":{threshold},"positive":{{"offset":{offset},"bucketCounts":[{}]}},"negative":{{}}}}]}}"#,
        counts.join(",")
    )
}

/// Checks the difference of two histograms; `None` if the point is dropped.
async fn check_exponential(last: &str, now: &str, want: Option<&str>) {
    let pipe = Pipe::new(r#"{"initial_value": "drop"}"#);
    assert!(pipe.send("e", &exponential(10, last)).await.is_none());
    let made = pipe.send("e", &exponential(20, now)).await;
    let text = made.map(|metric| {
        let p = &metric["exponentialHistogram"]["dataPoints"][0];
        let number = |v: &serde_json::Value| match v {
            serde_json::Value::Null => "0".to_owned(),
            serde_json::Value::String(text) => text.clone(),
            other => other.to_string(),
        };
        let counts = p["positive"]["bucketCounts"].as_array().cloned().unwrap_or_default();
        let head = [&p["scale"], &p["zeroCount"], &p["zeroThreshold"], &p["positive"]["offset"]];
        head.into_iter().chain(&counts).map(number).collect::<Vec<_>>().join(" ")
    });
    assert_eq!(text.as_deref(), want, "{last} -> {now}");
}

#[tokio::test]
async fn exponential_histograms_of_different_scales_are_subtracted() {
    for (last, now, want) in [
        ("0 1 0.0 0 1 2", "0 3 0.0 0 1 5", Some("0 2 0 1 3")),
        ("0 0 0.0 2 1", "0 0 0.0 0 4 0 1", Some("0 0 0 0 4")),
        ("0 0 0.0 0 1 1", "0 0 0.0 0 1 1", Some("0 0 0 0")),
        // Coarser by one: buckets 0 and 1 become 0, 2 and 3 become 1; negative ones likewise.
        ("1 0 0.0 0 1 1 1 1", "0 0 0.0 0 2 3", Some("0 0 0 1 1")),
        ("2 0 0.0 -3 1 1 1", "0 0 0.0 -1 4", Some("0 0 0 -1 1")),
        // A zero bucket up to 2 includes bucket 0, which ends there, but not bucket 1.
        ("0 1 0.0 0 2 3", "0 3 2.0 1 4", Some("0 0 2.0 1 1")),
        // A series that decreased, or with finer or narrower buckets, has restarted.
        ("0 0 0.0 0 2", "0 0 0.0 0 1 5", None),
        ("0 0 0.0 0 2 1", "0 0 0.0 0 5", None),
        ("0 0 0.0 0 1", "1 0 0.0 0 2", None),
        ("0 0 1.0 0 1", "0 0 0.5 0 2", None),
        ("0 2 0.0 0 1", "0 1 0.0 0 5", None),
    ] {
        check_exponential(last, now, want).await;
    }
}

#[tokio::test]
async fn unselected_metrics_are_unchanged() {
    let point = r#""dataPoints":[{"timeUnixNano":"1","asInt":"1"}]"#;
    let sum = format!(r#""sum":{{"isMonotonic":true,"aggregationTemporality":2,{point}}}"#);
    let temporality = async |settings: &str, metric: &str| {
        let made = Pipe::new(settings).send("gpu.calls", metric).await.unwrap();
        made["sum"]["aggregationTemporality"].clone()
    };
    let keep = |more: &str| format!(r#"{{"initial_value": "keep"{more}}}"#);
    for (more, is_converted) in [
        ("", true),
        (r#", "include": {"metrics": ["gpu.calls"], "match_type": "strict"}"#, true),
        (r#", "include": {"metrics": ["^cpu"], "match_type": "regexp"}"#, false),
        (r#", "include": {"metric_types": ["Sum"]}"#, true),
        (r#", "include": {"metric_types": ["histogram"]}"#, false),
        (
            r#", "exclude": {"metrics": ["^gpu"], "match_type": "regexp", "regexp": {"cacheenabled": true}}"#,
            false,
        ),
        (r#", "exclude": {"metric_types": ["sum", "histogram"]}"#, false),
        (r#", "exclude": {"metric_types": ["histogram"]}"#, true),
    ] {
        let want = if is_converted { 1 } else { 2 };
        assert_eq!(temporality(&keep(more), &sum).await, want, "{more}");
    }
    let falling = format!(r#""sum":{{"aggregationTemporality":2,{point}}}"#);
    assert_eq!(temporality(&keep(""), &falling).await, 2, "not monotonic");
    let delta = format!(r#""sum":{{"isMonotonic":true,"aggregationTemporality":1,{point}}}"#);
    let same = Pipe::new("{}").send("s", &delta).await.unwrap();
    assert_eq!(same["sum"]["dataPoints"][0]["asInt"], "1", "a delta is one");
    assert!(Pipe::new("{}").send("g", &format!(r#""gauge":{{{point}}}"#)).await.is_some());
}

#[tokio::test(start_paused = true)]
async fn a_stale_series_is_evicted() {
    let pipe = Pipe::new(r#"{"initial_value": "keep", "max_staleness": "10s"}"#);
    let second = GoDuration::from_secs(1);
    pipe.sum(5, 10, r#""asInt":"7""#).await;
    tokio::time::sleep(*second * 5).await;
    assert_eq!(pipe.sum(5, 20, r#""asInt":"8""#).await, Some((10, 20, "1".into())));
    tokio::time::sleep(*second * 25).await;
    assert_eq!(pipe.sum(5, 30, r#""asInt":"9""#).await, Some((5, 30, "9".into())), "a first one again");
}

#[test]
fn wrong_settings_are_refused() {
    for (json, want) in [
        (r#"{"max_staleness": "24h", "initial_value": "auto"}"#, ""),
        (r#"{"include": {"metrics": ["a"]}}"#, "x::include::match_type: match_type must be set"),
        (r#"{"exclude": {"match_type": "strict"}}"#, "x::exclude::metrics: metrics must be supplied"),
        (r#"{"include": {"metrics": ["a"], "match_type": "expr"}}"#, "x::include::match_type: unrecognized"),
        (
            r#"{"include": {"metrics": ["("], "match_type": "regexp"}}"#,
            "x::include::metrics: invalid pattern",
        ),
        (
            r#"{"include": {"metric_types": ["gauge"]}}"#,
            "x::include::metric_types[0]: found invalid metric type",
        ),
        (r#"{"initial_value": "maybe"}"#, "maybe"),
        (r#"{"metrics": ["a"]}"#, "invalid keys: metrics"),
    ] {
        check_problem(&FACTORY, json, want);
    }
}
