//! The web server of extensions that serve pages: the Collector's server keys, and pages that are made on
//! request.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use bytes::Bytes;
use component::auth::ServerAuth;
use component::{ComponentId, Host, StartResult};
use config::unused::{self, Unused};
use config::{GoDuration, Headers, Problems, Section};
use http::{HeaderName, HeaderValue, Request, Response, StatusCode, header};
use http_body_util::Full;
use hyper::body::Incoming;
use tokio_util::sync::CancellationToken;
use transport::auth::metadata;
use transport::keys::{self, Middleware};
use transport::listen::{Listener, Transport};
use transport::query::parameters;
use transport::serve::{Handler, ServerSettings};
use transport::tls::{ServerTls, ServerTlsConfig};

/// Defines the section of an extension that serves pages: its own keys and those of every server. serde's
/// `flatten` would lose the strictness of the decoder.
macro_rules! served_section {
    ($(#[$doc:meta])* $section:ident { $($(#[$key_doc:meta])* $key:ident: $type:ty,)* }) => {
        $(#[$doc])*
        #[derive(Clone, Debug, serde::Deserialize, PartialEq)]
        #[serde(default)]
        pub struct $section {
            $($(#[$key_doc])* pub $key: $type,)*
            /// The host and the port to listen at; of the transport `unix`, a socket file.
            pub endpoint: String,
            /// What to listen at.
            pub transport: transport::listen::Transport,
            /// Unused: it is a client's.
            pub dialer: transport::keys::DialerConfig,
            /// Protection of the connections.
            pub tls: config::Optional<transport::tls::ServerTlsConfig, config::NullIsNone>,
            /// Unused: no page here is for other sites.
            pub cors: config::Optional<transport::keys::CorsConfig, config::NullIsNone>,
            /// Who may ask.
            pub auth: config::Optional<transport::auth::HttpAuthConfig, config::NullIsNone>,
            /// Unused: no body is read.
            pub max_request_body_size: i64,
            /// Unused: requests go no further.
            pub include_metadata: bool,
            /// Headers of every answer.
            pub response_headers: config::Headers,
            /// Unused: no body is read.
            pub compression_algorithms: Vec<String>,
            /// How long a request may take to arrive; counts where `read_header_timeout` is 0.
            pub read_timeout: config::GoDuration,
            /// How long its head may take; 0 is for ever.
            pub read_header_timeout: config::GoDuration,
            /// Unused: answers are at hand at once.
            pub write_timeout: config::GoDuration,
            /// How long a connection may wait for its next request; 0 is for ever.
            pub idle_timeout: config::GoDuration,
            /// False: a connection serves one request.
            pub keep_alives_enabled: bool,
            /// Refused where there are any.
            pub middlewares: Vec<transport::keys::Middleware>,
        }

        impl $section {
            pub(crate) fn server(&self) -> $crate::server::ServerConfig<'_> {
                $crate::server::ServerConfig {
                    endpoint: &self.endpoint,
                    transport: self.transport,
                    tls: self.tls.get(),
                    authenticator: self.auth.get().map(|auth| auth.authenticator.as_str()),
                    request_params: self.auth.get().map(|auth| auth.request_params.as_slice()).unwrap_or_default(),
                    response_headers: &self.response_headers,
                    read_timeout: self.read_timeout,
                    read_header_timeout: self.read_header_timeout,
                    idle_timeout: self.idle_timeout,
                    keep_alives_enabled: self.keep_alives_enabled,
                    middlewares: &self.middlewares,
                }
            }
        }
    };
}
pub(crate) use served_section;

/// Keys without effect.
const UNUSED: [Unused; 6] = [
    ("compression_algorithms", "no body is read"),
    ("cors", "no page here is for other sites"),
    ("dialer", "it is a client's"),
    ("include_metadata", "requests go no further"),
    ("max_request_body_size", "no body is read"),
    ("write_timeout", "answers are at hand at once"),
];

/// Warns about configured keys that have no effect.
pub(crate) fn warn_unused(section: &Section<'_>) {
    unused::warn(section, &UNUSED);
}

/// The keys of every server.
#[derive(Debug)]
pub(crate) struct ServerConfig<'a> {
    pub(crate) endpoint: &'a str,
    pub(crate) transport: Transport,
    pub(crate) tls: Option<&'a ServerTlsConfig>,
    pub(crate) authenticator: Option<&'a str>,
    pub(crate) request_params: &'a [String],
    pub(crate) response_headers: &'a Headers,
    pub(crate) read_timeout: GoDuration,
    pub(crate) read_header_timeout: GoDuration,
    pub(crate) idle_timeout: GoDuration,
    pub(crate) keep_alives_enabled: bool,
    pub(crate) middlewares: &'a [Middleware],
}

impl ServerConfig<'_> {
    /// Checks the values. A missing endpoint is left to the extension, since the messages differ.
    pub(crate) fn check(&self, problems: &mut Problems<'_>) {
        if !self.endpoint.is_empty() {
            self.transport.check("endpoint", self.endpoint, problems);
        }
        if let Some(tls) = self.tls {
            tls.check("tls", problems);
        }
        if let Some(authenticator) = self.authenticator {
            transport::auth::authenticator("auth", authenticator, problems);
        }
        for (name, value) in self.response_headers.iter() {
            let problem = format!("header {name:?} is not a valid header");
            problems.require(keys::header(name, value).is_some(), "response_headers", problem);
        }
        Middleware::refuse(self.middlewares, "middlewares", problems);
    }

    fn settings(&self, name: &str) -> ServerSettings {
        let limited = |duration: GoDuration| Some(*duration).filter(|d| !d.is_zero());
        ServerSettings {
            head_max: limited(self.read_header_timeout).or(limited(self.read_timeout)),
            keeps_connections: self.keep_alives_enabled,
            idle_max: limited(self.idle_timeout).or(limited(self.read_timeout)),
            ..ServerSettings::named(name)
        }
    }
}

/// The response to a request.
#[derive(Clone, Debug)]
pub(crate) struct Page {
    pub(crate) status: StatusCode,
    pub(crate) content_type: &'static str,
    pub(crate) body: String,
    /// The target of a redirect.
    pub(crate) location: Option<&'static str>,
}

pub(crate) const TEXT: &str = "text/plain; charset=utf-8";
pub(crate) const HTML: &str = "text/html; charset=utf-8";
pub(crate) const JSON: &str = "application/json";

impl Page {
    pub(crate) fn new(status: StatusCode, content_type: &'static str, body: impl Into<String>) -> Self {
        Page { status, content_type, body: body.into(), location: None }
    }

    /// Returns the page of Go's server for an unknown path.
    pub(crate) fn not_found() -> Self {
        Page::new(StatusCode::NOT_FOUND, TEXT, "404 page not found\n")
    }

    /// Returns a redirect.
    pub(crate) fn redirect(location: &'static str) -> Self {
        Page { location: Some(location), ..Page::new(StatusCode::FOUND, TEXT, "") }
    }
}

/// A set of pages.
pub(crate) trait Pages: Send + Sync + 'static {
    /// Returns the page for a path and a query.
    fn page(&self, path: &str, query: &str) -> Page;
}

/// A server that listens and does not serve yet.
pub(crate) struct Bound {
    listener: Listener,
    tls: Option<ServerTls>,
    settings: ServerSettings,
    access: Access,
}

/// The access check, and the headers of every response.
struct Access {
    auth: Option<Arc<dyn ServerAuth>>,
    request_params: Vec<String>,
    headers: Vec<(HeaderName, HeaderValue)>,
}

impl Bound {
    /// Opens the listener of a section. `name` is the extension's name in the log.
    pub(crate) async fn open(config: ServerConfig<'_>, name: &str, host: &Host) -> StartResult<Self> {
        let id = config.authenticator.map(ComponentId::parse).transpose()?;
        let auth = id.map(|id| host.server_auth(&id)).transpose()?;
        let tls = config.tls.map(|tls| ServerTls::open(tls, &["h2", "http/1.1"])).transpose()?;
        let listener = Listener::bind(config.endpoint, config.transport).await?;
        tracing::info!(extension = name, endpoint = %listener.address(), "Starting HTTP server");
        let headers = config.response_headers.iter().filter_map(|(name, value)| keys::header(name, value));
        let access =
            Access { auth, request_params: config.request_params.to_vec(), headers: headers.collect() };
        Ok(Bound { listener, tls, settings: config.settings(name), access })
    }

    /// Returns the address of the listener.
    #[cfg(test)]
    pub(crate) fn address(&self) -> String {
        self.listener.address().to_string()
    }

    /// Serves pages until `stop`.
    pub(crate) async fn run(self, pages: impl Pages, stop: CancellationToken) {
        let service = Service(Arc::new((pages, self.access)));
        transport::serve::run(self.listener, self.tls, self.settings, service, stop).await;
    }
}

struct Service<P>(Arc<(P, Access)>);

impl<P> Clone for Service<P> {
    fn clone(&self) -> Self {
        Service(self.0.clone())
    }
}

impl<P: Pages> Handler for Service<P> {
    type Body = Full<Bytes>;

    async fn handle(
        &self,
        request: Request<Incoming>,
        _: Option<SocketAddr>,
    ) -> io::Result<Response<Self::Body>> {
        let (pages, access) = &*self.0;
        let (path, query) = (request.uri().path(), request.uri().query().unwrap_or_default());
        let page = match access.authorize(&request) {
            Ok(()) => pages.page(path, query),
            Err(why) => Page::new(StatusCode::UNAUTHORIZED, TEXT, why + "\n"),
        };
        Ok(access.response(page))
    }
}

impl Access {
    /// Authenticates a request if an authenticator is configured.
    fn authorize(&self, request: &Request<Incoming>) -> Result<(), String> {
        let Some(auth) = &self.auth else { return Ok(()) };
        let mut attributes = metadata(request.headers());
        for (name, value) in parameters(request.uri().query().unwrap_or_default()) {
            if self.request_params.contains(&name) {
                attributes.add(&name, value);
            }
        }
        auth.authenticate(&attributes).map(|_| ()).map_err(|e| e.to_string())
    }

    fn response(&self, page: Page) -> Response<Full<Bytes>> {
        let mut response = Response::new(Full::new(Bytes::from(page.body)));
        *response.status_mut() = page.status;
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(page.content_type));
        headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
        if let Some(location) = page.location {
            headers.insert(header::LOCATION, HeaderValue::from_static(location));
        }
        headers.extend(self.headers.iter().cloned());
        response
    }
}
