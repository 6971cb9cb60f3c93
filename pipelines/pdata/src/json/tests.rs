//! Round trips through JSON, JSON of other writers, and errors with their positions.

use crate::{Data, Signal, testing};
use opentelemetry_proto::tonic::logs::v1::LogRecord;
use opentelemetry_proto::tonic::metrics::v1::NumberDataPoint;
use opentelemetry_proto::tonic::metrics::v1::number_data_point::Value as NumberValue;
use opentelemetry_proto::tonic::trace::v1::{Span, TracesData};
use proptest::prelude::*;
use prost::Message as _;

use crate::json::{Status, decode, encode, from_slice, to_vec};

fn protobuf(data: &Data) -> Vec<u8> {
    let mut bytes = Vec::new();
    data.encode(&mut bytes);
    bytes
}

/// Adds white space around every bracket, comma and colon.
fn spread(json: &[u8]) -> Vec<u8> {
    let (mut out, mut quoted, mut escaped) = (Vec::new(), false, false);
    for &byte in json {
        let token = !quoted && b"{}[],:".contains(&byte);
        quoted ^= byte == b'"' && !escaped;
        escaped = byte == b'\\' && !escaped;
        match token {
            true => out.extend([b' ', b'\n', byte, b'\t', b'\r']),
            false => out.push(byte),
        }
    }
    out
}

proptest! {
    /// Messages are compared as protobuf bytes, because a NaN is not equal to itself.
    #[test]
    fn json_round_trips_change_nothing(entropy in prop::collection::vec(any::<u8>(), 0..3000)) {
        for signal in Signal::ALL {
            let data = testing::data(signal, &entropy);
            let json = encode(&data);
            let value: serde_json::Value = serde_json::from_slice(&json).expect("what is written is JSON");
            prop_assert!(value.is_object());
            let back = decode(signal, &json).expect("what is written is read");
            prop_assert_eq!(protobuf(&back), protobuf(&data));
            prop_assert_eq!(encode(&back), json, "the same data gives the same bytes");
        }
    }

    #[test]
    fn white_space_between_tokens_is_ignored(entropy in prop::collection::vec(any::<u8>(), 0..1000)) {
        let data = testing::data(Signal::Metrics, &entropy);
        let spread = spread(&encode(&data));
        prop_assert_eq!(protobuf(&decode(Signal::Metrics, &spread).unwrap()), protobuf(&data));
    }

    #[test]
    fn damaged_json_never_panics(entropy in prop::collection::vec(any::<u8>(), 0..600), at in any::<prop::sample::Index>(), byte in any::<u8>(), cut in any::<bool>()) {
        let mut json = encode(&testing::data(Signal::Traces, &entropy));
        let at = at.index(json.len());
        json[at] = byte;
        if cut {
            json.truncate(at);
        }
        let _ = decode(Signal::Traces, &json);
    }
}

#[test]
fn encoded_request_equals_the_example_of_the_specification() {
    let json = br#"{"resourceSpans":[{"resource":{"attributes":[{"key":"service.name","value":{"stringValue":"my.service"}}]},"scopeSpans":[{"scope":{"name":"my.library","version":"1.0.0","attributes":[{"key":"my.scope.attribute","value":{"stringValue":"some scope attribute"}}]},"spans":[{"traceId":"5b8efff798038103d269b633813fc60c","spanId":"eee19b7ec3c1b174","parentSpanId":"eee19b7ec3c1b173","name":"I'm a server span","kind":2,"startTimeUnixNano":"1544712660000000000","endTimeUnixNano":"1544712661000000000","attributes":[{"key":"my.span.attr","value":{"intValue":"-7"}}]}]}]}]}"#;
    let data = decode(Signal::Traces, json).unwrap();
    let Data::Traces(traces) = &data else { panic!("{data:?}") };
    let span = &traces.resource_spans[0].scope_spans[0].spans[0];
    assert_eq!((span.kind, span.start_time_unix_nano), (2, 1_544_712_660_000_000_000));
    assert_eq!(span.trace_id[..4], [0x5b, 0x8e, 0xff, 0xf7]);
    assert_eq!(String::from_utf8(encode(&data)).unwrap(), String::from_utf8(json.to_vec()).unwrap());
}

/// A JSON text, and a property of the decoded span.
type Reads = (&'static str, fn(&Span) -> bool);

/// Reads a span and returns it, or the error's text.
fn span(json: &str) -> Result<Span, String> {
    from_slice(json.as_bytes()).map_err(|e| e.to_string())
}

#[test]
fn json_of_other_writers_is_decoded() {
    let cases: [Reads; 13] = [
        (r#"{"traceId":"5B8EFFF798038103D269B633813FC60C"}"#, |s| s.trace_id[0] == 0x5b),
        (r#"{"traceId":""}"#, |s| s.trace_id.is_empty()),
        (r#"{"startTimeUnixNano":15}"#, |s| s.start_time_unix_nano == 15),
        (r#"{"startTimeUnixNano":"18446744073709551615"}"#, |s| s.start_time_unix_nano == u64::MAX),
        (r#"{"startTimeUnixNano":1e3}"#, |s| s.start_time_unix_nano == 1000),
        (r#"{"flags":"257","kind":99}"#, |s| (s.flags, s.kind) == (257, 99)),
        (r#"{"name":null,"attributes":null,"status":null}"#, |s| *s == Span::default()),
        (r#"{"trace_state":"x","Name":"y"}"#, |s| *s == Span::default()),
        (r#"{"new":{"a":[1,{"b":[]},"\"]",-0.5e+1,true,null]},"name":"n"}"#, |s| s.name == "n"),
        (r#"{"name":"\u00e9\ud83d\ude00\/\b\f\n\r\t\"\\"}"#, |s| {
            s.name == "\u{e9}\u{1f600}/\u{8}\u{c}\n\r\t\"\\"
        }),
        (r#"{"name":"a","name":"b"}"#, |s| s.name == "b"),
        (" { \"name\" :\t\"n\" ,\r\n\"status\" : { } } \n", |s| s.status.is_some()),
        (
            r#"{"attributes":[{"key":"k","value":{"bytesValue":"_-8"}},{"value":{"bytesValue":"/+8="}}]}"#,
            |s| s.attributes[0].value == s.attributes[1].value,
        ),
    ];
    for (json, holds) in cases {
        let span = span(json).unwrap_or_else(|e| panic!("{json}: {e}"));
        assert!(holds(&span), "{json}: {span:?}");
    }
}

#[test]
fn doubles_without_a_json_number_are_strings() {
    for (text, value) in
        [("\"NaN\"", f64::NAN), ("\"Infinity\"", f64::INFINITY), ("\"-Infinity\"", -f64::INFINITY)]
    {
        let json = format!("{{\"asDouble\":{text}}}");
        let point: NumberDataPoint = from_slice(json.as_bytes()).unwrap();
        let Some(NumberValue::AsDouble(read)) = point.value else { panic!("{point:?}") };
        assert_eq!(read.to_bits(), value.to_bits(), "{text}");
        assert_eq!(to_vec(&point), json.into_bytes());
    }
}

#[test]
fn set_values_equal_to_their_default_are_kept() {
    for json in [
        r#"{"body":{}}"#,
        r#"{"body":{"stringValue":""}}"#,
        r#"{"body":{"intValue":"0"}}"#,
        r#"{"body":{"arrayValue":{}}}"#,
        r#"{"body":{"kvlistValue":{}}}"#,
        r#"{"body":{"boolValue":false}}"#,
    ] {
        let record: LogRecord = from_slice(json.as_bytes()).unwrap();
        assert_eq!(String::from_utf8(to_vec(&record)).unwrap(), json);
    }
}

#[test]
fn invalid_json_is_refused_with_its_position() {
    for (json, error) in [
        ("", "at byte 0: expected an object"),
        ("[]", "at byte 0: expected an object"),
        ("{} {}", "at byte 3: expected the end after the value"),
        (r#"{"name":"x""#, "at byte 11: expected ',' or '}'"),
        (r#"{"name":"x",}"#, "at byte 12: expected a string"),
        (r#"{"name":7}"#, "at byte 8: expected a string"),
        ("{\"name\":\"a\nb\"}", "at byte 10: a control character in a string must be escaped"),
        (r#"{"name":"\ud800x"}"#, "at byte 15: half of a surrogate pair in a string"),
        (r#"{"name":"\ud83d\u0041"}"#, "at byte 21: half of a surrogate pair in a string"),
        (r#"{"name":"\ud83d\ue000"}"#, "at byte 21: half of a surrogate pair in a string"),
        (r#"{"name":"\x"}"#, "at byte 11: unknown escape in a string"),
        (r#"{"kind":"SPAN_KIND_SERVER"}"#, "at byte 8: \"SPAN_KIND_SERVER\" is no i32"),
        (r#"{"kind":1.5}"#, "at byte 8: \"1.5\" is no i32"),
        (r#"{"kind":01}"#, "at byte 8: expected a number"),
        (r#"{"flags":-1}"#, "at byte 9: \"-1\" is no u32"),
        (r#"{"startTimeUnixNano":"18446744073709551616"}"#, "at byte 21: \"18446744073709551616\" is no u64"),
        (r#"{"traceId":"5b8e"}"#, "at byte 11: \"5b8e\" is no id of 32 hex digits"),
        (r#"{"spanId":"xyz"}"#, "at byte 10: \"xyz\" is no id of 16 hex digits"),
        (r#"{"events":{}}"#, "at byte 10: expected a list"),
        (r#"{"x":nul}"#, "at byte 5: expected a number"),
    ] {
        assert_eq!(span(json), Err(error.to_owned()), "{json}");
    }
    let not_utf8 = from_slice::<Span>(b"{\"name\":\"a\xff\"}").unwrap_err();
    assert_eq!(not_utf8.to_string(), "at byte 10: the string is no UTF-8");
}

/// A request body may come from anyone: nested brackets must not overflow the stack, and accepted requests must be
/// decodable as protobuf by the next receiver.
#[test]
fn nesting_limit_equals_that_of_protobuf() {
    let nested = |levels: usize| {
        let open = r#"{"arrayValue":{"values":["#.repeat(levels);
        let close = "]}}".repeat(levels);
        let value = format!("{open}{{}}{close}");
        let head = r#"{"resourceSpans":[{"scopeSpans":[{"spans":[{"attributes":[{"key":"k","value":"#;
        format!("{head}{value}}}]}}]}}]}}]}}")
    };
    let deepest = (1..200).take_while(|&n| decode(Signal::Traces, nested(n).as_bytes()).is_ok()).last();
    let Ok(Data::Traces(accepted)) = decode(Signal::Traces, nested(deepest.unwrap()).as_bytes()) else {
        panic!("{deepest:?}")
    };
    assert!(deepest >= Some(40), "{deepest:?} levels");
    TracesData::decode(accepted.encode_to_vec().as_slice()).unwrap();

    for hostile in ["[", "{\"a\":", "{\"a\":["] {
        let json = format!("{{\"unknown\":{}", hostile.repeat(100_000));
        let error = span(&json).unwrap_err();
        assert!(error.contains("nested deeper than 150 brackets"), "{error}");
    }
}

#[test]
fn an_error_is_a_code_and_a_message() {
    let status = Status { code: 14, message: "queue is \"full\"".to_owned() };
    assert_eq!(to_vec(&status), br#"{"code":14,"message":"queue is \"full\""}"#);
    let with_details =
        br#"{"code":14,"message":"queue is \"full\"","details":[{"@type":"x","retryDelay":"1s"}]}"#;
    assert_eq!(from_slice::<Status>(with_details), Ok(status));
}
