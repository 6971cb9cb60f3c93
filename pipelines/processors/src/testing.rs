//! The comparison that most tests of processors make. Data is OTLP JSON, settings are JSON.

use component::ProcessorFactory;
use component::testing::Started;
use pdata::Signal;

/// Asserts what a processor sends for one batch, and that a shared copy of the batch is unchanged.
#[track_caller]
pub(crate) fn check(factory: &ProcessorFactory, settings: &str, signal: Signal, before: &str, after: &str) {
    let given = pdata::json::decode(signal, before.as_bytes()).unwrap();
    let kept = given.clone();
    let started = Started::processor(factory, settings);
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(started.send(given)).unwrap();
    let [made] = &started.sink.take()[..] else { panic!("one batch in, one batch out") };
    let made = String::from_utf8(pdata::json::encode(made)).unwrap();
    let after = pdata::json::decode(signal, after.as_bytes()).unwrap();
    assert_eq!(made, String::from_utf8(pdata::json::encode(&after)).unwrap(), "{settings}");
    assert_eq!(kept, pdata::json::decode(signal, before.as_bytes()).unwrap(), "the shared copy is unchanged");
}
