//! Reaching the other side: where an endpoint points, the connection to it, and its protection by TLS.
//! Both OTLP exporters connect through here; what they say over the connection is theirs.

mod connector;
mod endpoint;
mod tls;

pub(crate) use connector::{Connector, UseTls};
pub(crate) use endpoint::{GrpcEndpoint, HttpEndpoint};
pub use tls::TlsConfig;

use std::error::Error;

/// An error and what it came from, in one line: the outer text of a transport error alone says nothing.
pub(crate) fn chain(error: &(dyn Error + 'static)) -> String {
    let mut line = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let text = cause.to_string();
        if !line.ends_with(&text) {
            line = format!("{line}: {text}");
        }
        source = cause.source();
    }
    line
}

#[cfg(test)]
mod tests;
