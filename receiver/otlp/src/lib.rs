//! otlp
