//! The instruments of one process, as this receiver has them: their scope, and how many values their attributes may have.

use instrumentation::Instruments;
use opentelemetry::InstrumentationScope;
use semconv::attribute;

/// The name of the scope of everything that this receiver emits.
pub(crate) const SCOPE: &str = "warptap/receiver/gpu";

/// A meter of one process. The process's resource is added where points leave.
pub(crate) fn instruments() -> Instruments {
    Instruments::new(scope(), values_expected)
}

/// The scope of everything that this receiver emits.
pub(crate) fn scope() -> InstrumentationScope {
    instrumentation::scope(SCOPE)
}

/// Values that one process is expected to give to an attribute without a fixed set. Further ones share a series.
fn values_expected(key: &str) -> usize {
    match key {
        attribute::ERROR_TYPE => 8,
        attribute::GPU_CUDA_OPERATION_NAME => 16,
        attribute::GEN_AI_REQUEST_MODEL => 2,
        _ => 1,
    }
}
