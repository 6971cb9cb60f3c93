//! The extensions that authenticate requests or show the state of the collector.
//!
//! An extension is not part of a pipeline: it offers a capability to components that name it, or serves pages.
//! The binary's table lists all extensions; `file_storage` has a crate of its own.

pub mod basic_auth;
pub mod bearer_token_auth;
pub mod headers_setter;
pub mod health_check;
mod secret_file;
mod server;
#[cfg(test)]
mod testing;
pub mod zpages;

/// The extensions of this crate, sorted by type.
pub const EXTENSIONS: &[component::ExtensionFactory] = &[
    basic_auth::FACTORY,
    bearer_token_auth::FACTORY,
    headers_setter::FACTORY,
    health_check::FACTORY,
    zpages::FACTORY,
];
