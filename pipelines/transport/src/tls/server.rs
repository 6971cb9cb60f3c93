//! The rustls configuration of a server, with or without client certificates.

use std::sync::Arc;

use rustls::ServerConfig;
use rustls::server::WebPkiClientVerifier;

use super::config::{Pem, ServerTlsConfig};
use super::material::{TlsError, authorities};
use super::names;
use crate::reload::{ReloadWhen, Reloading};

/// TLS of a server. Its files are reloaded as configured.
#[derive(Clone)]
pub struct ServerTls(Arc<Reloading<Arc<ServerConfig>, TlsError>>);

impl ServerTls {
    /// Reads the files of the section. `protocols` are offered by ALPN, the preferred one first.
    pub fn open(config: &ServerTlsConfig, protocols: &[&str]) -> Result<Self, TlsError> {
        config.common.parts().warn_of_unsupported();
        let mut when = ReloadWhen { max_age: config.common.parts().reload_interval, ..ReloadWhen::default() };
        if config.client_ca_file_reload {
            when.files.push(config.client_ca_file.clone());
        }
        let config = config.clone();
        let protocols: Vec<Vec<u8>> = protocols.iter().map(|p| p.as_bytes().to_vec()).collect();
        let reloading = Reloading::new(when, move || set_up(&config, protocols.clone()).map(Arc::new))?;
        Ok(ServerTls(Arc::new(reloading)))
    }

    /// Returns the configuration for the next connection.
    pub fn current(&self) -> Arc<ServerConfig> {
        self.0.current()
    }
}

fn set_up(config: &ServerTlsConfig, protocols: Vec<Vec<u8>>) -> Result<ServerConfig, TlsError> {
    let common = config.common.parts();
    let provider = common.provider()?;
    let versions = names::versions(common.min_version, common.max_version).map_err(TlsError::Value)?;
    let builder = ServerConfig::builder_with_provider(provider.clone()).with_protocol_versions(&versions)?;
    let builder = if config.client_ca_file.as_os_str().is_empty() {
        builder.with_no_client_auth()
    } else {
        let roots = authorities("client_ca_file", Pem::File(&config.client_ca_file))?;
        builder.with_client_cert_verifier(
            WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider).build()?,
        )
    };
    let missing = || {
        TlsError::Value(
            "TLS configuration must include both certificate and key for server connections".to_owned(),
        )
    };
    let (chain, key) = common.identity()?.ok_or_else(missing)?;
    let mut server = builder.with_single_cert(chain, key)?;
    server.alpn_protocols = protocols;
    Ok(server)
}
