//! The instruments of one process: their scope, and the expected number of values of each attribute.

use instrumentation::Instruments;
use opentelemetry::InstrumentationScope;
use semconv::attribute;

/// Name of the scope of all telemetry of this receiver.
pub(crate) const SCOPE: &str = "warptap/receiver/gpu";

/// Returns the instruments of one process. Its resource is added on export.
pub(crate) fn instruments() -> Instruments {
    Instruments::new(scope(), values_expected)
}

/// Returns the scope of all telemetry of this receiver.
pub(crate) fn scope() -> InstrumentationScope {
    instrumentation::scope(SCOPE)
}

/// Returns the expected number of values of an attribute without a fixed set, in one process. Further values share
/// a series.
fn values_expected(key: &str) -> usize {
    match key {
        attribute::ERROR_TYPE => 8,
        attribute::GPU_CUDA_OPERATION_NAME => 16,
        attribute::GEN_AI_REQUEST_MODEL => 2,
        _ => 1,
    }
}
