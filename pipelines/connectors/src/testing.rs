//! The output of a connector for one batch. Data is OTLP JSON, settings are JSON.

use component::ConnectorFactory;
use component::testing::Started;
use pdata::Signal;

/// Returns the batches that a connector sends for one batch.
pub(crate) fn pass(
    factory: &ConnectorFactory,
    settings: &str,
    ends: (Signal, Signal),
    batch: &str,
) -> Vec<String> {
    let connector = Started::connector(factory, settings, ends);
    let data = pdata::json::decode(ends.0, batch.as_bytes()).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(connector.send(data)).unwrap();
    let got = connector.sink.take();
    got.iter().map(|data| String::from_utf8(pdata::json::encode(data)).unwrap()).collect()
}
