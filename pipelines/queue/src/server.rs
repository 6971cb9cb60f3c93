//! The destination of an exporter, as attributes of its metrics.

use opentelemetry::KeyValue;

/// The server that requests are sent to.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Server {
    /// The host name or address.
    pub address: String,
    /// The port, if one is configured.
    pub port: Option<u16>,
    /// The path of the URL.
    pub path: Option<String>,
}

impl Server {
    /// Returns the attributes by the semantic conventions of OpenTelemetry.
    pub(crate) fn attributes(&self) -> impl Iterator<Item = KeyValue> + use<> {
        let address = Some(KeyValue::new("server.address", self.address.clone()));
        let port = self.port.map(|port| KeyValue::new("server.port", i64::from(port)));
        let path = self.path.clone().map(|path| KeyValue::new("url.path", path));
        [address, port, path].into_iter().flatten()
    }
}
