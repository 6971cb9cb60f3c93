//! The web server of extensions that serve pages: the Collector's server keys, and pages that are made on
//! request.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use bytes::Bytes;
use component::auth::ServerAuth;
use component::{ComponentId, Host, StartResult};
use config::GoDuration;
use http::{HeaderName, HeaderValue, Request, Response, StatusCode, header};
use http_body_util::Full;
use hyper::body::Incoming;
use tokio_util::sync::CancellationToken;
use transport::auth::metadata;
use transport::keys::{self, HttpServerConfig};
use transport::listen::Listener;
use transport::query::parameters;
use transport::serve::{Handler, IDLE_MAX, ServerSettings};
use transport::tls::ServerTls;

/// The keys of a server that have no effect for the pages of extensions.
pub(crate) const UNUSED: &[(&str, &str)] = &[
    ("compression_algorithms", "request bodies are not read"),
    ("cors", "no page is meant for other origins"),
    ("include_metadata", "requests are not passed on"),
    ("max_request_body_size", "request bodies are not read"),
    ("write_timeout", "responses are sent at once"),
];

fn settings(config: &HttpServerConfig, name: &str) -> ServerSettings {
    let limited = |duration: GoDuration| Some(*duration).filter(|d| !d.is_zero());
    ServerSettings {
        head_max: limited(config.read_header_timeout).or(limited(config.read_timeout)),
        keeps_connections: config.keep_alives_enabled,
        idle_max: limited(config.idle_timeout).or(limited(config.read_timeout)).unwrap_or(IDLE_MAX),
        ..ServerSettings::named(name)
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
    pub(crate) async fn open(config: &HttpServerConfig, name: &str, host: &Host) -> StartResult<Self> {
        let auth = config.auth.get();
        let request_params = auth.map(|auth| auth.request_params.clone()).unwrap_or_default();
        let id = auth.map(|auth| ComponentId::parse(&auth.authenticator)).transpose()?;
        let auth = id.map(|id| host.server_auth(&id)).transpose()?;
        let tls = config.tls.get().map(|tls| ServerTls::open(tls, &["h2", "http/1.1"])).transpose()?;
        let listener = Listener::bind(&config.endpoint, config.transport).await?;
        tracing::info!(extension = name, endpoint = %listener.address(), "Starting HTTP server");
        let headers = config.response_headers.iter().filter_map(|(name, value)| keys::header(name, value));
        let access = Access { auth, request_params, headers: headers.collect() };
        Ok(Bound { listener, tls, settings: settings(config, name), access })
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
