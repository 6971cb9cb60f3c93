//! The persistent queue.
#![allow(clippy::unwrap_used, reason = "a test: a panic is the report")]

mod claims;
mod harness;
mod model;
mod observed;
mod world;
