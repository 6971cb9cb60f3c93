//! The check accepts what the decoder accepts, and counts the same items.

use opentelemetry_proto::tonic::common::v1::{AnyValue, ArrayValue, any_value};
use opentelemetry_proto::tonic::logs::v1::{LogRecord, LogsData, ResourceLogs, ScopeLogs};
use opentelemetry_proto::tonic::metrics::v1::{Metric, MetricsData};
use opentelemetry_proto::tonic::profiles::v1development::{Profile, Sample};
use opentelemetry_proto::tonic::trace::v1::{Span, TracesData};
use proptest::collection::vec;
use proptest::prelude::*;
use prost::Message;

use super::{WireError, check};
use crate::{Data, Signal};

/// Returns the number of items that the decoder finds, or none if it refuses the bytes.
fn decoded(signal: Signal, bytes: &[u8]) -> Option<usize> {
    let data = match signal {
        Signal::Logs => Data::Logs(LogsData::decode(bytes).ok()?.into()),
        Signal::Metrics => Data::Metrics(MetricsData::decode(bytes).ok()?.into()),
        _ => Data::Traces(TracesData::decode(bytes).ok()?.into()),
    };
    Some(data.items())
}

fn same(signal: Signal, bytes: &[u8]) {
    let walked = check(signal, bytes, usize::MAX);
    assert_eq!(walked.ok(), decoded(signal, bytes), "{signal:?} {bytes:02x?}: {walked:?}");
}

/// Generates a field of any number and wire type, with matching or other bytes.
fn field(depth: u32) -> BoxedStrategy<Vec<u8>> {
    let number = prop_oneof![8 => 1u64..17, 1 => Just(0), 1 => 17u64..40];
    let varint = any::<u64>().prop_map(|n| {
        let mut bytes = Vec::new();
        prost::encoding::encode_varint(n, &mut bytes);
        bytes
    });
    let scalar = (
        number.clone(),
        prop_oneof![
            (Just(0u64), varint),
            (Just(1u64), vec(any::<u8>(), 8..9)),
            (Just(5u64), vec(any::<u8>(), 4..5)),
            (0u64..8, vec(any::<u8>(), 0..10)),
        ],
    )
        .prop_map(|(number, (wire, bytes))| tagged(number, wire, &bytes));
    let text = (number.clone(), "[a-z]{0,9}").prop_map(|(number, text)| delimited(number, text.as_bytes()));
    if depth == 0 {
        return prop_oneof![scalar, text].boxed();
    }
    let nested = (number, vec(field(depth - 1), 0..4))
        .prop_map(|(number, fields)| delimited(number, &fields.concat()));
    prop_oneof![1 => scalar, 1 => text, 6 => nested].boxed()
}

fn tagged(number: u64, wire: u64, bytes: &[u8]) -> Vec<u8> {
    let mut all = Vec::new();
    prost::encoding::encode_varint(number << 3 | wire, &mut all);
    all.extend(bytes);
    all
}

fn delimited(number: u64, bytes: &[u8]) -> Vec<u8> {
    let mut inside = Vec::new();
    prost::encoding::encode_varint(bytes.len() as u64, &mut inside);
    inside.extend(bytes);
    tagged(number, 2, &inside)
}

/// Wraps fields in the messages that every signal starts with.
fn wrapped(fields: &[u8]) -> Vec<u8> {
    delimited(1, &delimited(2, &delimited(2, fields)))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 20_000, ..ProptestConfig::default() })]

    #[test]
    fn the_check_accepts_what_the_decoder_accepts(fields in vec(field(5), 0..4), is_wrapped: bool, cut: prop::sample::Index) {
        let bytes = if is_wrapped { wrapped(&fields.concat()) } else { fields.concat() };
        let cut = &bytes[..cut.index(bytes.len() + 1)];
        for signal in Signal::STABLE {
            same(signal, &bytes);
            same(signal, cut);
        }
    }

    #[test]
    fn arbitrary_bytes_are_accepted_as_by_the_decoder(bytes in vec(any::<u8>(), 0..40)) {
        for signal in Signal::STABLE {
            same(signal, &bytes);
            same(signal, &wrapped(&bytes));
        }
    }
}

/// Returns the smallest limit with which `decode` accepts.
fn needed(decode: impl Fn(usize) -> bool) -> usize {
    let (mut refused, mut accepted) = (0, 1 << 30);
    assert!(decode(accepted));
    while accepted - refused > 1 {
        let middle = refused.midpoint(accepted);
        *(if decode(middle) { &mut accepted } else { &mut refused }) = middle;
    }
    accepted
}

#[test]
fn empty_items_take_the_memory_of_their_type() {
    const ITEMS: usize = 100_000;
    let items = delimited(2, &[]).repeat(ITEMS);
    let samples = wrapped(&items);
    let spans = delimited(1, &delimited(2, &items));
    let texts = delimited(2, &delimited(5, &[]).repeat(ITEMS));
    for (signal, bytes, item_bytes) in [
        (Signal::Traces, &spans, size_of::<Span>()),
        (Signal::Logs, &spans, size_of::<LogRecord>()),
        (Signal::Metrics, &spans, size_of::<Metric>()),
        (Signal::Profiles, &spans, size_of::<Profile>()),
        (Signal::Profiles, &samples, size_of::<Sample>()),
        (Signal::Profiles, &texts, size_of::<String>()),
    ] {
        let decode = |max| Data::decode_within(signal, &bytes[..], max);
        let memory = needed(|max| decode(max).is_ok());
        assert!((ITEMS * item_bytes..ITEMS * item_bytes + 1_000).contains(&memory), "{signal:?} {memory}");
        assert!(decode(memory - 1).unwrap_err().is_too_large());
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, ..ProptestConfig::default() })]

    #[test]
    fn protobuf_takes_as_much_memory_as_json(entropy in vec(any::<u8>(), 0..400)) {
        for signal in Signal::STABLE {
            let data = crate::testing::data(signal, &entropy);
            let (mut proto, json) = (Vec::new(), crate::json::encode(&data));
            data.encode(&mut proto);
            let of_json = needed(|max| crate::json::decode_within(signal, &json, max).is_ok());
            let of_proto = needed(|max| Data::decode_within(signal, &proto[..], max).is_ok());
            // Of protobuf, the lists of numbers and texts count, too.
            let lists = of_proto.saturating_sub(of_json);
            prop_assert!(of_proto >= of_json && lists <= 24 * json.len(), "{signal:?}: {of_proto} {of_json}");
        }
    }
}

/// Returns a log record whose body is nested `times` times.
fn nested(times: usize) -> Vec<u8> {
    let array =
        |value| AnyValue { value: Some(any_value::Value::ArrayValue(ArrayValue { values: vec![value] })) };
    let body = (0..times).fold(AnyValue::default(), |value, _| array(value));
    let log_records = vec![LogRecord { body: Some(body), ..LogRecord::default() }];
    let scope_logs = vec![ScopeLogs { log_records, ..ScopeLogs::default() }];
    LogsData { resource_logs: vec![ResourceLogs { scope_logs, ..ResourceLogs::default() }] }.encode_to_vec()
}

#[test]
fn the_nesting_limit_is_that_of_the_decoder() {
    (44..52).for_each(|times| same(Signal::Logs, &nested(times)));
    assert_eq!(check(Signal::Logs, &nested(10), usize::MAX), Ok(1));
    assert_eq!(check(Signal::Logs, &nested(60), usize::MAX), Err(WireError::Depth));
}

#[test]
fn the_last_of_two_point_kinds_in_a_metric_counts() {
    let point = delimited(1, &[]);
    let (gauge, sum) = (delimited(5, &point), delimited(7, &[point.clone(), point].concat()));
    for metric in [[gauge.clone(), sum.clone()], [sum.clone(), gauge.clone()], [gauge.clone(), gauge]] {
        same(Signal::Metrics, &wrapped(&metric.concat()));
    }
    // What belongs to the metric itself excludes nothing.
    same(Signal::Metrics, &wrapped(&[delimited(5, &delimited(1, &[])), delimited(12, &[])].concat()));
}

#[test]
fn groups_are_skipped_with_their_contents() {
    let group = |inner: &[u8], end| [tagged(9, 3, inner), tagged(end, 4, &[])].concat();
    for bytes in [
        group(&[], 9),
        group(&delimited(3, b"x"), 9),
        group(&group(&[], 9), 9),
        group(&[], 8),
        tagged(9, 3, &[]),
    ] {
        same(Signal::Logs, &bytes);
    }
}
