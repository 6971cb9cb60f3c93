//! OTLP JSON in comparison with Google's protobuf: each decodes the other's JSON to the same data.

mod common;

use common::{batches, json};
use otel_conformance_tests::json_by_python;
use pdata::Data;

#[test]
fn python_and_we_decode_each_others_json() {
    let cases: Vec<(Data, Vec<u8>)> =
        batches(60).into_iter().map(|data| (data.clone(), pdata::json::encode(&data))).collect();
    let answers = match json_by_python(&cases) {
        Ok(answers) => answers.unwrap_or_else(|difference| panic!("{difference}")),
        Err(reason) => return println!("skipped: {reason}"),
    };
    for ((data, _), python) in cases.iter().zip(answers) {
        let read = pdata::json::decode(data.signal(), &python);
        let read = read.unwrap_or_else(|e| panic!("{e}: {}", String::from_utf8_lossy(&python)));
        assert_eq!(json(&read), json(data));
    }
}
