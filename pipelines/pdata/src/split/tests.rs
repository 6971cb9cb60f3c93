//! A split loses no item, changes no item, and returns the requested size.

use opentelemetry_proto::tonic::metrics::v1::Metric;
use proptest::prelude::*;

use crate::shape::{Group, Record};
use crate::{Data, ItemRef, Signal, Unit, json, with_payload, with_points};

/// Returns a batch with numbered items; `shape` is the number of items of each part of each scope of each resource.
fn numbered(signal: Signal, shape: &[Vec<Vec<u8>>]) -> Data {
    let mut number = 0;
    let mut items = |count: u8, make: &dyn Fn(u32) -> String| {
        let items: Vec<String> = (0..count)
            .map(|_| {
                number += 1;
                make(number)
            })
            .collect();
        items.join(",")
    };
    let resources: Vec<String> = shape.iter().enumerate().map(|(r, scopes)| {
        let scopes: Vec<String> = scopes.iter().enumerate().map(|(s, parts)| match signal {
            Signal::Logs => {
                let records = items(parts.iter().sum(), &|n| format!(r#"{{"severityNumber":{n}}}"#));
                format!(r#"{{"scope":{{"name":"{r}{s}"}},"schemaUrl":"s","logRecords":[{records}]}}"#)
            }
            Signal::Traces => {
                let spans = items(parts.iter().sum(), &|n| format!(r#"{{"kind":{n}}}"#));
                format!(r#"{{"scope":{{"name":"{r}{s}"}},"schemaUrl":"s","spans":[{spans}]}}"#)
            }
            Signal::Metrics => {
                let metrics: Vec<String> = parts.iter().enumerate().map(|(m, count)| {
                    let (kind, more) = [
                        ("gauge", ""), ("sum", r#""isMonotonic":true,"aggregationTemporality":2,"#),
                        ("histogram", r#""aggregationTemporality":1,"#),
                        ("exponentialHistogram", r#""aggregationTemporality":2,"#), ("summary", ""),
                    ][m % 5];
                    let points = items(*count, &|n| format!(r#"{{"timeUnixNano":{n}}}"#));
                    format!(r#"{{"name":"m{m}","unit":"s","description":"d","metadata":[{{"key":"k"}}],"{kind}":{{{more}"dataPoints":[{points}]}}}}"#)
                }).collect();
                format!(r#"{{"scope":{{"name":"{r}{s}"}},"schemaUrl":"s","metrics":[{}]}}"#, metrics.join(","))
            }
            Signal::Profiles => unreachable!("profiles are not split"),
        }).collect();
        let list = ["scopeLogs", "scopeMetrics", "scopeSpans"][signal as usize];
        format!(r#"{{"resource":{{"droppedAttributesCount":{r}}},"schemaUrl":"r","{list}":[{}]}}"#, scopes.join(","))
    }).collect();
    let list = ["resourceLogs", "resourceMetrics", "resourceSpans"][signal as usize];
    let json = format!(r#"{{"{list}":[{}]}}"#, resources.join(","));
    json::decode(signal, json.as_bytes()).unwrap()
}

/// Formats every item, or point of a metric, with its scope, resource and metric, one per line.
fn flat(data: &Data) -> Vec<String> {
    let mut lines = Vec::new();
    with_payload!(data, d => for r in d.parts() {
        for s in r.parts() {
            let around = format!("{:?} {} {:?} {}", r.resource, r.schema_url, s.scope, s.schema_url);
            for item in s.parts() {
                match item.as_item() {
                    ItemRef::Metric(metric) => flat_metric(metric, &around, &mut lines),
                    item => lines.push(format!("{around} {item:?}")),
                }
            }
        }
    });
    lines
}

fn flat_metric(metric: &Metric, around: &str, lines: &mut Vec<String>) {
    let Some(data) = &metric.data else { return };
    let metric = Metric { data: None, ..metric.clone() };
    with_points!(data, points => {
        let points_of = points.without_parts();
        lines.extend(points.parts().iter().map(|point| format!("{around} {metric:?} {points_of:?} {point:?}")));
    });
}

fn shapes() -> impl Strategy<Value = Vec<Vec<Vec<u8>>>> {
    use prop::collection::vec;
    vec(vec(vec(0u8..5, 0..6), 0..4), 1..4)
}

proptest! {
    #[test]
    fn a_split_returns_exactly_the_requested_items(shape in shapes(), at in any::<prop::sample::Index>()) {
        for signal in Signal::STABLE {
            let whole = numbered(signal, &shape);
            if whole.items() < 2 {
                continue;
            }
            let items = 1 + at.index(whole.items() - 1);
            let mut rest = whole.clone();
            let front = rest.split_front(items, Unit::Items);
            prop_assert_eq!((front.items(), rest.items()), (items, whole.items() - items));
            prop_assert_eq!([flat(&front), flat(&rest)].concat(), flat(&whole));
        }
    }

    #[test]
    fn a_split_by_bytes_exceeds_the_limit_only_for_one_item(shape in shapes(), most in 1usize..400) {
        for signal in Signal::STABLE {
            let (whole, mut pieces) = (numbered(signal, &shape), Vec::new());
            let mut rest = whole.clone();
            while rest.encoded_len() > most {
                pieces.push(rest.split_front(most, Unit::Bytes));
            }
            pieces.push(rest);
            for piece in &pieces {
                prop_assert!(piece.encoded_len() <= most || piece.items() <= 1, "{most} {piece:?}");
            }
            let all: Vec<String> = pieces.iter().flat_map(flat).collect();
            prop_assert_eq!(all, flat(&whole));
        }
    }

    #[test]
    fn appended_items_follow_the_items_before(one in shapes(), two in shapes()) {
        for signal in Signal::STABLE {
            let (mut held, more) = (numbered(signal, &one), numbered(signal, &two));
            let want = [flat(&held), flat(&more)].concat();
            held.append(more).unwrap();
            prop_assert_eq!(flat(&held), want);
        }
    }
}

#[test]
fn both_sides_of_a_split_metric_retain_its_fields() {
    let mut rest = numbered(Signal::Metrics, &[vec![vec![0, 3]]]);
    let front = rest.split_front(1, Unit::Items);
    let text = |data| String::from_utf8(json::encode(data)).unwrap();
    let want = |metrics: &str| {
        format!(
            r#"{{"resourceMetrics":[{{"resource":{{}},"scopeMetrics":[{{"scope":{{"name":"00"}},"metrics":[{metrics}],"schemaUrl":"s"}}],"schemaUrl":"r"}}]}}"#
        )
    };
    let sum = |points: &str| {
        format!(
            r#"{{"name":"m1","description":"d","unit":"s","metadata":[{{"key":"k"}}],"sum":{{"dataPoints":[{points}],"aggregationTemporality":2,"isMonotonic":true}}}}"#
        )
    };
    let empty = r#"{"name":"m0","description":"d","unit":"s","metadata":[{"key":"k"}],"gauge":{}},"#;
    let point = |n: u32| format!(r#"{{"timeUnixNano":"{n}"}}"#);
    assert_eq!(text(&front), want(&format!("{empty}{}", sum(&point(1)))));
    assert_eq!(text(&rest), want(&sum(&format!("{},{}", point(2), point(3)))));
}
