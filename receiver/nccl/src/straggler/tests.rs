//! Tests of `straggler`.
