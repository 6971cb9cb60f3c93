//! exporters
