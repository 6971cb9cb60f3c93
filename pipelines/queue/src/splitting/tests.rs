//! A cut loses nothing, moves nothing and takes exactly what was asked for.

use pdata::Payload;
use pdata::{Data, Signal};
use proptest::prelude::*;

use super::{Unit, append, split_front, split_front_by};

/// A batch whose items are numbered: `shape` says how many items each part of each scope of each resource has.
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
            Signal::Profiles => unreachable!("only what is stable is cut"),
        }).collect();
        let list = ["scopeLogs", "scopeMetrics", "scopeSpans"][signal as usize];
        format!(r#"{{"resource":{{"droppedAttributesCount":{r}}},"schemaUrl":"r","{list}":[{}]}}"#, scopes.join(","))
    }).collect();
    let list = ["resourceLogs", "resourceMetrics", "resourceSpans"][signal as usize];
    let json = format!(r#"{{"{list}":[{}]}}"#, resources.join(","));
    pdata::json::decode(signal, json.as_bytes()).unwrap()
}

/// Every item with all that it belongs to, as one line each: what a cut must not change.
fn flat(data: &Data) -> Vec<String> {
    let mut lines = Vec::new();
    match data {
        Data::Logs(d) => {
            for r in &d.resource_logs {
                for s in &r.scope_logs {
                    for i in &s.log_records {
                        lines.push(format!(
                            "{:?} {} {:?} {} {i:?}",
                            r.resource, r.schema_url, s.scope, s.schema_url
                        ));
                    }
                }
            }
        }
        Data::Traces(d) => {
            for r in &d.resource_spans {
                for s in &r.scope_spans {
                    for i in &s.spans {
                        lines.push(format!(
                            "{:?} {} {:?} {} {i:?}",
                            r.resource, r.schema_url, s.scope, s.schema_url
                        ));
                    }
                }
            }
        }
        Data::Metrics(d) => {
            for r in &d.resource_metrics {
                for s in &r.scope_metrics {
                    for m in &s.metrics {
                        // A metric of one point, for each of its points.
                        let mut rest = Data::Metrics(Payload::new(super::MetricsData {
                            resource_metrics: vec![super::ResourceMetrics {
                                scope_metrics: vec![super::ScopeMetrics {
                                    metrics: vec![m.clone()],
                                    ..s.clone()
                                }],
                                ..r.clone()
                            }],
                        }));
                        while rest.items() > 1 {
                            lines.push(format!("{:?}", split_front(&mut rest, 1)));
                        }
                        if rest.items() == 1 {
                            lines.push(format!("{rest:?}"));
                        }
                    }
                }
            }
        }
        Data::Profiles(_) => unreachable!("only what is stable is cut"),
    }
    lines
}

fn shapes() -> impl Strategy<Value = Vec<Vec<Vec<u8>>>> {
    use prop::collection::vec;
    vec(vec(vec(0u8..5, 0..6), 0..4), 1..4)
}

proptest! {
    #[test]
    fn a_cut_takes_exactly_so_many_items_and_loses_none(shape in shapes(), at in any::<prop::sample::Index>()) {
        for signal in Signal::STABLE {
            let whole = numbered(signal, &shape);
            if whole.items() < 2 {
                continue;
            }
            let items = 1 + at.index(whole.items() - 1);
            let mut rest = whole.clone();
            let front = split_front(&mut rest, items);
            prop_assert_eq!((front.items(), rest.items()), (items, whole.items() - items));
            prop_assert_eq!([flat(&front), flat(&rest)].concat(), flat(&whole));
        }
    }

    #[test]
    fn a_cut_by_bytes_takes_no_more_than_asked_unless_one_item_is_more(shape in shapes(), most in 1usize..400) {
        for signal in Signal::STABLE {
            let (whole, mut pieces) = (numbered(signal, &shape), Vec::new());
            let mut rest = whole.clone();
            while rest.encoded_len() > most {
                pieces.push(split_front_by(&mut rest, most, Unit::Bytes));
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
    fn what_is_appended_comes_after(one in shapes(), two in shapes()) {
        for signal in Signal::STABLE {
            let (mut held, more) = (numbered(signal, &one), numbered(signal, &two));
            let want = [flat(&held), flat(&more)].concat();
            append(&mut held, more);
            prop_assert_eq!(flat(&held), want);
        }
    }
}

#[test]
fn a_metric_that_is_cut_keeps_what_it_is_on_both_sides() {
    let mut rest = numbered(Signal::Metrics, &[vec![vec![0, 3]]]);
    let front = split_front(&mut rest, 1);
    let json = |data| String::from_utf8(pdata::json::encode(data)).unwrap();
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
    assert_eq!(json(&front), want(&format!("{empty}{}", sum(&point(1)))));
    assert_eq!(json(&rest), want(&sum(&format!("{},{}", point(2), point(3)))));
}
