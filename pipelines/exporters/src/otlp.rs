//! The parts of OTLP requests and responses that gRPC and HTTP share.

use std::sync::Arc;

use component::auth::ClientAuth;
use component::{ComponentId, Host, Refused, StartResult, context};
use http::{HeaderMap, HeaderName, HeaderValue};
use pdata::Signal;
use prost::Message;
use queue::SignalMetrics;

/// Largest request that OTLP allows a client to send, in bytes before compression.
pub(crate) const REQUEST_BYTES_MAX: usize = 64 * 1024 * 1024;

/// Refuses a request that is larger than OTLP allows.
pub(crate) fn check_size(bytes: usize) -> Result<(), Refused> {
    if bytes <= REQUEST_BYTES_MAX {
        return Ok(());
    }
    Err(Refused::permanent(format!(
        "request of {bytes} bytes is larger than OTLP's limit of {REQUEST_BYTES_MAX}"
    )))
}

/// The response to an export request, whose bytes are the same for each signal.
#[derive(Clone, Eq, Message, PartialEq)]
pub(crate) struct ExportResponse {
    #[prost(message, optional, tag = "1")]
    pub(crate) partial_success: Option<PartialSuccess>,
}

/// The items of an accepted request that the destination rejected.
#[derive(Clone, Eq, Message, PartialEq)]
pub(crate) struct PartialSuccess {
    #[prost(int64, tag = "1")]
    pub(crate) rejected: i64,
    #[prost(string, tag = "2")]
    pub(crate) message: String,
}

/// Logs and counts the items that a partial success rejected. They must not be sent again.
pub(crate) fn record_partial_success(
    id: &ComponentId,
    metrics: &SignalMetrics,
    signal: Signal,
    response: &ExportResponse,
) {
    let Some(partial) = &response.partial_success else { return };
    if partial.rejected == 0 && partial.message.is_empty() {
        return;
    }
    metrics.rejected(u64::try_from(partial.rejected).unwrap_or(0));
    tracing::warn!(
        exporter = %id, signal = signal.name(), rejected = partial.rejected, message = %partial.message,
        "partial success"
    );
}

/// The extension that signs requests, if one is configured.
#[derive(Clone, Default)]
pub(crate) struct Signer(Option<Arc<dyn ClientAuth>>);

impl Signer {
    /// Returns the extension with this id, which must be running.
    pub(crate) fn find(id: Option<&ComponentId>, host: &Host) -> StartResult<Self> {
        let Some(id) = id else { return Ok(Signer(None)) };
        let found = host.client_auth(id);
        found
            .map(|auth| Signer(Some(auth)))
            .map_err(|e| format!("failed to resolve authenticator \"{id}\": {e}").into())
    }

    /// Adds the headers of the extension to a request. They override configured headers.
    pub(crate) fn sign(&self, headers: &mut HeaderMap) -> Result<(), Refused> {
        let Some(auth) = &self.0 else { return Ok(()) };
        let signed = auth.headers(&context::current()).map_err(Refused::retryable)?;
        for (name, value) in signed {
            let (Ok(key), Ok(value)) = (HeaderName::try_from(&name), HeaderValue::try_from(value)) else {
                return Err(Refused::permanent(format!(
                    "the authenticator's header {name:?} cannot be sent"
                )));
            };
            headers.insert(key, value);
        }
        Ok(())
    }
}
