//! Tests of `streams`.
