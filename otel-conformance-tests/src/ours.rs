//! Our own processors, run as a pipeline runs them. Settings are those of users, in JSON.

use component::ProcessorFactory;
use component::testing::Started;
use pdata::Data;

/// Returns the output of a processor for batches, from its start to its end.
pub async fn processed(factory: &ProcessorFactory, settings: &str, batches: &[Data]) -> Vec<Data> {
    let processor = Started::processor(factory, settings);
    for batch in batches {
        processor.send(batch.clone()).await.expect("it takes the batch");
    }
    let sink = processor.sink.clone();
    processor.end().await;
    sink.got()
}
