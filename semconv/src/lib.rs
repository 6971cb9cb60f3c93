//! semconv
