//! What the user writes in the section of `otlp_http`: the Collector's keys, and what it refuses.

use config::{GoDuration, Optional, Problems, Section};
use http::{HeaderMap, HeaderValue, Uri, header};
use pdata::Signal;
use queue::{QueueConfig, RetryConfig};
use transport::compress::{Compression, Level};
use transport::endpoint::HttpEndpoint;
use transport::keys::{self, HttpClientConfig, Middleware};

use super::PayloadEncoding;

config::section! {
    /// The section of the exporter.
    #[derive(Clone, Debug)]
    pub struct OtlpHttpConfig {
        ..client: HttpClientConfig = HttpClientConfig {
            timeout: GoDuration::from_secs(30),
            compression: Compression::Gzip,
            ..HttpClientConfig::default()
        },
        /// URL that logs are sent to. Empty is `endpoint` followed by `/v1/logs`.
        pub logs_endpoint: String,
        /// URL that metrics are sent to. Empty is `endpoint` followed by `/v1/metrics`.
        pub metrics_endpoint: String,
        /// URL that traces are sent to. Empty is `endpoint` followed by `/v1/traces`.
        pub traces_endpoint: String,
        /// URL that profiles are sent to. Empty is `endpoint` followed by `/v1development/profiles`.
        pub profiles_endpoint: String,
        /// Encoding of request bodies.
        pub encoding: PayloadEncoding = PayloadEncoding::Proto,
        /// Retries of refused requests.
        pub retry_on_failure: RetryConfig,
        /// Queue of requests.
        pub sending_queue: Optional<QueueConfig> = Optional::some(QueueConfig::default()),
    }
}

impl OtlpHttpConfig {
    /// Checks the values that [`super::build`] does not parse.
    pub(super) fn check(&self, section: &Section<'_>, problems: &mut Problems<'_>) {
        self.retry_on_failure.check(problems);
        QueueConfig::check(&self.sending_queue, problems);
        self.client.tls.check("tls", problems);
        let level = self.client.compression_params.level;
        if self.client.compression != Compression::None
            && let Err(e) = self.client.compression.check_level(level)
        {
            problems.add("compression_params::level", e);
        }
        if self.client.compression == Compression::Zstd && level != Level::default() {
            let key = "compression_params::level";
            section.warn(key, "accepted without effect: zstd is always written at its fastest");
        }
        Middleware::refuse(&self.client.middlewares, "middlewares", problems);
    }

    /// Returns the URI of each signal, in the order of [`Signal::ALL`], or what is wrong with an endpoint that no request can be sent to.
    pub(super) fn uris(
        &self,
        problems: &mut Problems<'_>,
    ) -> Result<[Option<Uri>; Signal::ALL.len()], String> {
        let all = [
            &self.client.endpoint,
            &self.logs_endpoint,
            &self.metrics_endpoint,
            &self.traces_endpoint,
            &self.profiles_endpoint,
        ];
        if all.iter().all(|url| url.is_empty()) {
            problems.add("", "at least one endpoint must be specified");
        }
        let base = Some(&self.client.endpoint).filter(|url| !url.is_empty());
        base.map_or(Ok(()), |url| HttpEndpoint::parse(url).map(drop))?;
        let mut uris = Signal::ALL.map(|_| None);
        for (uri, signal) in uris.iter_mut().zip(Signal::ALL) {
            let (_, own) = self.endpoint_of(signal);
            *uri = match base {
                Some(base) if own.is_empty() => HttpEndpoint::join(base, pdata::otlp::http_path(signal)).ok(),
                None if own.is_empty() => None,
                _ => Some(HttpEndpoint::parse(own)?),
            };
        }
        Ok(uris)
    }

    /// Returns the key of a signal's own endpoint, and its value.
    fn endpoint_of(&self, signal: Signal) -> (&'static str, &str) {
        match signal {
            Signal::Logs => ("logs_endpoint", &self.logs_endpoint),
            Signal::Metrics => ("metrics_endpoint", &self.metrics_endpoint),
            Signal::Traces => ("traces_endpoint", &self.traces_endpoint),
            Signal::Profiles => ("profiles_endpoint", &self.profiles_endpoint),
        }
    }

    /// Returns the exporter's own headers, extended and overridden by the configured ones.
    pub(super) fn request_headers(&self, version: &str, problems: &mut Problems<'_>) -> HeaderMap {
        let mut headers = HeaderMap::new();
        let user_agent = HeaderValue::try_from(format!("warptap/{version}"));
        headers.insert(header::USER_AGENT, user_agent.unwrap_or(HeaderValue::from_static("warptap")));
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(self.encoding.content_type()));
        headers.insert(header::ACCEPT_ENCODING, HeaderValue::from_static(Compression::Gzip.name()));
        if self.client.compression != Compression::None {
            headers
                .insert(header::CONTENT_ENCODING, HeaderValue::from_static(self.client.compression.name()));
        }
        keys::add_headers(&mut headers, &self.client.headers, "an HTTP", problems);
        headers
    }
}
