//! A queue whose requests live in a storage.
#![allow(clippy::unwrap_used, reason = "a test: a panic is the report")]

mod claims;
mod harness;
mod model;
mod world;
