//! Small sections that the Collector gives to servers and clients alike, wherever they stand.

use config::{GoDuration, Headers, Problems};
use http::{HeaderMap, HeaderName, HeaderValue};
use serde::Deserialize;

/// The section `cors`: what pages of other sites may do.
#[derive(Clone, Debug, Default, Deserialize, PartialEq)]
#[serde(default)]
pub struct CorsConfig {
    /// Sites that may send; `*` stands for any text. Without any, nothing else of the section counts.
    pub allowed_origins: Vec<String>,
    /// Headers that their requests may have beside the harmless ones; `*` alone is any.
    pub allowed_headers: Vec<String>,
    /// Headers of answers that their pages may look at.
    pub exposed_headers: Vec<String>,
    /// How long a browser may remember all this, in seconds.
    pub max_age: i64,
}

/// The section `dialer`.
#[derive(Clone, Debug, Default, Deserialize, PartialEq)]
#[serde(default)]
pub struct DialerConfig {
    /// How long a connection may take to come about. Of a server it is unused.
    pub timeout: GoDuration,
}

/// One of the list `middlewares`.
#[derive(Clone, Debug, Default, Deserialize, PartialEq)]
#[serde(default)]
pub struct Middleware {
    /// The extension that would do it.
    pub id: String,
}

impl Middleware {
    /// There are none here: each of the list at `path` is a problem.
    pub fn refuse(list: &[Middleware], path: &str, problems: &mut Problems<'_>) {
        for Middleware { id } in list {
            problems.add(path, format!("middleware {id:?} is not supported: expected none"));
        }
    }
}

/// Adds the headers of the key `headers` to those of every request. `kind` is what they are headers of.
pub fn add_headers(into: &mut HeaderMap, from: &Headers, kind: &str, problems: &mut Problems<'_>) {
    for (name, value) in from.iter() {
        match (HeaderName::try_from(name), HeaderValue::try_from(value)) {
            (Ok(name), Ok(value)) => drop(into.insert(name, value)),
            (Err(_), _) => problems.add("headers", format!("{name:?} is no name of {kind} header")),
            (_, Err(_)) => problems.add("headers", format!("the value of header {name:?} cannot be sent")),
        }
    }
}

/// A header as it is sent; none where name or value cannot be.
pub fn header(name: &str, value: &str) -> Option<(HeaderName, HeaderValue)> {
    Some((HeaderName::try_from(name).ok()?, HeaderValue::try_from(value).ok()?))
}
