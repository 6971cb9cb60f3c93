//! The section `auth`: the extension that authenticates incoming requests or adds credentials to outgoing ones.

use component::ComponentId;
use component::context::Metadata;
use config::Problems;
use http::HeaderMap;

config::section! {
    /// The section `auth`.
    #[derive(Clone, Debug, PartialEq)]
    pub struct AuthConfig {
        /// Id of the authentication extension, such as `basic_auth`.
        pub authenticator: String,
    }

    /// The section `auth` of an HTTP server.
    #[derive(Clone, Debug, PartialEq)]
    pub struct HttpAuthConfig {
        /// Id of the authentication extension, such as `basic_auth`.
        pub authenticator: String,
        /// Query parameters that the extension reads as if they were headers.
        pub request_params: Vec<String>,
    }
}

/// Parses the id in the key `authenticator`; an invalid one is a problem with the section at `path`.
pub fn authenticator(path: &str, text: &str, problems: &mut Problems<'_>) -> Option<ComponentId> {
    ComponentId::parse(text).map_err(|e| problems.add(&format!("{path}::authenticator"), e.to_string())).ok()
}

/// Returns the headers of a request as components access them. Values that are not text are omitted.
pub fn metadata(headers: &HeaderMap) -> Metadata {
    let mut metadata = Metadata::default();
    for (name, value) in headers {
        if let Ok(value) = value.to_str() {
            metadata.add(name.as_str(), value);
        }
    }
    metadata
}
