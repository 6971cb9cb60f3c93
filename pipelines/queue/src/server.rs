//! Where an exporter sends to, as the attributes of its counts say it.

use opentelemetry::KeyValue;

/// A place that requests go to.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Server {
    /// A name or an address.
    pub address: String,
    /// The port, where one is configured.
    pub port: Option<u16>,
    /// The path, of a URL.
    pub path: Option<String>,
}

impl Server {
    /// As OpenTelemetry's conventions name them.
    pub(crate) fn attributes(&self) -> impl Iterator<Item = KeyValue> + use<> {
        let address = Some(KeyValue::new("server.address", self.address.clone()));
        let port = self.port.map(|port| KeyValue::new("server.port", i64::from(port)));
        let path = self.path.clone().map(|path| KeyValue::new("url.path", path));
        [address, port, path].into_iter().flatten()
    }
}
