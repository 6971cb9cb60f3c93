//! A queue whose requests live in a storage.

mod claims;
mod harness;
mod model;
mod world;
