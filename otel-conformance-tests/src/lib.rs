//! otel-conformance-tests
