//! Cross-origin requests (the CORS protocol of the Fetch standard), by the Collector's section `cors`.

use bytes::Bytes;
use http::header::{
    ACCESS_CONTROL_ALLOW_CREDENTIALS, ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS,
    ACCESS_CONTROL_ALLOW_ORIGIN, ACCESS_CONTROL_EXPOSE_HEADERS, ACCESS_CONTROL_MAX_AGE,
    ACCESS_CONTROL_REQUEST_HEADERS, ACCESS_CONTROL_REQUEST_METHOD, ORIGIN, VARY,
};
use http::{HeaderMap, HeaderName, HeaderValue, Method, Response, StatusCode};
use http_body_util::Full;

use transport::keys::CorsConfig;

/// The methods that a page may use.
const METHODS: [Method; 3] = [Method::GET, Method::POST, Method::HEAD];

/// The headers that a page may set by default.
const HEADERS: [&str; 3] = ["accept", "content-type", "x-requested-with"];

/// The rules for cross-origin requests.
#[derive(Clone, Debug)]
pub(super) struct Cors {
    origins: Vec<String>,
    headers: Vec<String>,
    exposed: Option<HeaderValue>,
    max_age: Option<HeaderValue>,
}

impl Cors {
    /// Returns the rules, or `None` if no origin is allowed, which disables CORS.
    pub(super) fn new(config: &CorsConfig) -> Option<Self> {
        let lower = |texts: &[String]| texts.iter().map(|t| t.to_ascii_lowercase()).collect::<Vec<_>>();
        let mut headers = lower(&config.allowed_headers);
        if headers.is_empty() {
            headers = HEADERS.map(str::to_owned).to_vec();
        }
        let max_age = match config.max_age {
            0 => None,
            // A negative age disables caching.
            seconds => Some(HeaderValue::from(seconds.max(0))),
        };
        let cors = Cors {
            origins: lower(&config.allowed_origins),
            headers,
            exposed: HeaderValue::try_from(config.exposed_headers.join(", ")).ok().filter(|v| !v.is_empty()),
            max_age,
        };
        Some(cors).filter(|cors| !cors.origins.is_empty())
    }

    /// Returns the response to a preflight request, or `None` for other requests.
    pub(super) fn preflight(&self, method: &Method, headers: &HeaderMap) -> Option<Response<Full<Bytes>>> {
        let asked = headers.get(ACCESS_CONTROL_REQUEST_METHOD).filter(|_| method == Method::OPTIONS)?;
        let mut response = Response::new(Full::default());
        *response.status_mut() = StatusCode::NO_CONTENT;
        let answer = response.headers_mut();
        let vary = "Origin, Access-Control-Request-Method, Access-Control-Request-Headers";
        answer.insert(VARY, HeaderValue::from_static(vary));
        if let Some(granted) = self.grant(asked, headers) {
            answer.extend(granted);
        }
        Some(response)
    }

    fn grant(&self, method: &HeaderValue, headers: &HeaderMap) -> Option<HeaderMap> {
        let origin = self.origin(headers)?;
        METHODS.iter().find(|m| m.as_str().as_bytes() == method.as_bytes())?;
        let wanted = headers.get(ACCESS_CONTROL_REQUEST_HEADERS);
        let allowed = wanted.is_none_or(|wanted| self.allows(wanted));
        let pairs = [
            (ACCESS_CONTROL_ALLOW_ORIGIN, Some(origin)),
            (ACCESS_CONTROL_ALLOW_METHODS, Some(method.clone())),
            (ACCESS_CONTROL_ALLOW_HEADERS, wanted.cloned()),
            (ACCESS_CONTROL_ALLOW_CREDENTIALS, Some(HeaderValue::from_static("true"))),
            (ACCESS_CONTROL_MAX_AGE, self.max_age.clone()),
        ];
        allowed.then(|| present(pairs))
    }

    /// Returns the headers of the response to a request that is not a preflight.
    pub(super) fn headers(&self, headers: &HeaderMap) -> HeaderMap {
        let vary = (VARY, Some(HeaderValue::from_static("Origin")));
        match self.origin(headers) {
            None => present([vary]),
            Some(origin) => present([
                vary,
                (ACCESS_CONTROL_ALLOW_ORIGIN, Some(origin)),
                (ACCESS_CONTROL_EXPOSE_HEADERS, self.exposed.clone()),
                (ACCESS_CONTROL_ALLOW_CREDENTIALS, Some(HeaderValue::from_static("true"))),
            ]),
        }
    }

    /// Returns the value of `Access-Control-Allow-Origin` if the request's origin is allowed.
    fn origin(&self, headers: &HeaderMap) -> Option<HeaderValue> {
        let origin = headers.get(ORIGIN)?;
        if self.origins.iter().any(|allowed| allowed == "*") {
            return Some(HeaderValue::from_static("*"));
        }
        let text = origin.to_str().ok()?.to_ascii_lowercase();
        let is_allowed = self.origins.iter().any(|pattern| matches(pattern, &text));
        Some(origin.clone()).filter(|_| is_allowed)
    }

    fn allows(&self, wanted: &HeaderValue) -> bool {
        let Ok(wanted) = wanted.to_str() else { return false };
        let names = wanted.split(',').map(|name| name.trim().to_ascii_lowercase());
        let allows = |name: String| name.is_empty() || self.headers.contains(&name);
        self.headers.iter().any(|h| h == "*") || names.into_iter().all(allows)
    }
}

fn present<const N: usize>(pairs: [(HeaderName, Option<HeaderValue>); N]) -> HeaderMap {
    pairs.into_iter().filter_map(|(name, value)| Some((name, value?))).collect()
}

/// Returns true if the origin matches a pattern with at most one `*` for any text.
fn matches(pattern: &str, origin: &str) -> bool {
    match pattern.split_once('*') {
        None => pattern == origin,
        Some((begin, end)) => {
            let rest = origin.strip_prefix(begin).filter(|rest| rest.len() >= end.len());
            rest.is_some_and(|rest| rest.ends_with(end))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cors(origins: &[&str], headers: &[&str]) -> Option<Cors> {
        let owned = |texts: &[&str]| texts.iter().map(|t| (*t).to_owned()).collect();
        Cors::new(&CorsConfig {
            allowed_origins: owned(origins),
            allowed_headers: owned(headers),
            exposed_headers: owned(&["X-One", "X-Two"]),
            max_age: 600,
        })
    }

    fn asked(origin: &str, method: &str, headers: &str) -> HeaderMap {
        let pairs = [
            (ORIGIN, origin),
            (ACCESS_CONTROL_REQUEST_METHOD, method),
            (ACCESS_CONTROL_REQUEST_HEADERS, headers),
        ];
        let pairs = pairs.into_iter().filter(|(_, value)| !value.is_empty());
        pairs.map(|(name, value)| (name, HeaderValue::from_str(value).unwrap())).collect()
    }

    #[test]
    fn a_preflight_is_granted_for_allowed_requests_only() {
        let cors = |headers| cors(&["https://a.example", "https://*.b.example"], headers).unwrap();
        for (origin, method, wanted, headers, granted) in [
            ("https://a.example", "POST", "", &[][..], true),
            ("https://A.example", "POST", "content-type", &[], true),
            ("https://x.b.example", "POST", "Content-Type,Accept", &[], true),
            ("https://a.example", "POST", "x-own", &[], false),
            ("https://a.example", "POST", "X-Own", &["x-own"], true),
            ("https://a.example", "POST", "x-any, x-other", &["*"], true),
            ("https://a.example", "DELETE", "", &[], false),
            ("https://b.example", "POST", "", &[], false),
            ("https://a.example.evil", "POST", "", &[], false),
        ] {
            let answer = cors(headers).preflight(&Method::OPTIONS, &asked(origin, method, wanted)).unwrap();
            assert_eq!(answer.status(), StatusCode::NO_CONTENT);
            let allowed = answer.headers().get(ACCESS_CONTROL_ALLOW_ORIGIN).map(|v| v.to_str().unwrap());
            assert_eq!(allowed, granted.then_some(origin), "{origin} {method} {wanted} {headers:?}");
            assert_eq!(answer.headers().get(ACCESS_CONTROL_MAX_AGE).is_some(), granted);
        }
    }

    #[test]
    fn only_a_preflight_is_answered_without_the_receiver() {
        let cors = cors(&["*"], &[]).unwrap();
        assert!(cors.preflight(&Method::POST, &asked("https://a", "POST", "")).is_none());
        assert!(cors.preflight(&Method::OPTIONS, &asked("https://a", "", "")).is_none());
        let headers = cors.headers(&asked("https://a", "", ""));
        assert_eq!(headers[ACCESS_CONTROL_ALLOW_ORIGIN], "*");
        assert_eq!(headers[ACCESS_CONTROL_EXPOSE_HEADERS], "X-One, X-Two");
        assert_eq!(headers[VARY], "Origin");
    }

    #[test]
    fn without_origins_there_is_no_cors() {
        assert!(cors(&[], &["x-own"]).is_none());
    }
}
