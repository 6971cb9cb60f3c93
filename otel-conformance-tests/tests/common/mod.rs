//! Reproducible random data for tests. Every batch has at least one item, since an empty batch is not sent.

use otel_conformance_tests::without_indexes;
use pdata::{Data, Signal};
use proptest::strategy::{Strategy as _, ValueTree as _};
use proptest::test_runner::TestRunner;

/// Returns batches of each signal.
pub fn batches(of_each: usize) -> Vec<Data> {
    Signal::STABLE.into_iter().flat_map(|signal| batches_of(signal, of_each)).collect()
}

/// Returns batches of one signal.
pub fn batches_of(signal: Signal, count: usize) -> Vec<Data> {
    let mut runner = TestRunner::deterministic();
    let entropy = proptest::collection::vec(proptest::num::u8::ANY, 500..2500);
    let runs = std::iter::repeat_with(|| entropy.new_tree(&mut runner).expect("bytes").current());
    let data = runs.map(|run| without_indexes(&pdata::testing::data(signal, &run)));
    data.filter(|data| data.items() > 0).take(count).collect()
}

/// Returns the data as OTLP JSON, in which a NaN is equal to itself.
pub fn json(data: &Data) -> String {
    String::from_utf8(pdata::json::encode(data)).expect("JSON is text")
}
