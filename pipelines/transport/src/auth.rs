//! The section `auth`: which extension checks the requests that come in, or signs those that go out.

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

    /// The section `auth` of a server that speaks HTTP.
    #[derive(Clone, Debug, PartialEq)]
    pub struct HttpAuthConfig {
        /// Id of the authentication extension, such as `basic_auth`.
        pub authenticator: String,
        /// Query parameters that the extension reads as if they were headers.
        pub request_params: Vec<String>,
    }
}

/// The id in the key `authenticator`; a problem with the section at `path` where it is none.
pub fn authenticator(path: &str, text: &str, problems: &mut Problems<'_>) -> Option<ComponentId> {
    ComponentId::parse(text).map_err(|e| problems.add(&format!("{path}::authenticator"), e.to_string())).ok()
}

/// The headers of a request as components see them. What is no text is left out.
pub fn metadata(headers: &HeaderMap) -> Metadata {
    let mut metadata = Metadata::default();
    for (name, value) in headers {
        if let Ok(value) = value.to_str() {
            metadata.add(name.as_str(), value);
        }
    }
    metadata
}
