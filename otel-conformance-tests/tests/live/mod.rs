//! Common parts of live tests: the real binary that traces stub processes, and an OTLP receiver for its output.
#![allow(dead_code, reason = "each test binary uses a part of it")]

pub mod agent;
pub mod binary;
pub mod inbox;
