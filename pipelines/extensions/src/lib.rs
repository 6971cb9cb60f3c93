//! Extensions: what looks after the collector, and what speaks for it to others.
//!
//! The one idea: an extension takes no part in pipelines; it offers something to components that name it, or
//! shows to whoever asks what the collector does. Which extensions there are is the binary's table; one that
//! stores state has a crate of its own.

pub mod basic_auth;
pub mod bearer_token_auth;
pub mod headers_setter;
pub mod health_check;
mod secret_file;
mod server;
#[cfg(test)]
mod testing;
mod time;
pub mod zpages;
