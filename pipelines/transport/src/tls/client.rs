//! The rustls configuration of a client.

use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, SignatureScheme};

use super::config::ClientTlsConfig;
use super::material::TlsError;
use super::names;
use crate::reload::{ReloadWhen, Reloading};

/// TLS of a client. Its files are reloaded as configured.
#[derive(Clone)]
pub struct ClientTls(Arc<Reloading<Arc<ClientConfig>, TlsError>>);

impl ClientTls {
    /// Reads the files of the section. `protocols` are offered by ALPN, the preferred one first: `h2`, `http/1.1`.
    pub fn open(config: &ClientTlsConfig, protocols: &[&str]) -> Result<Self, TlsError> {
        config.common.parts().warn_of_unsupported();
        let when = ReloadWhen { max_age: config.common.parts().reload_interval, ..ReloadWhen::default() };
        let (config, protocols) = (config.clone(), protocols.iter().map(|p| p.as_bytes().to_vec()).collect());
        let protocols: Vec<Vec<u8>> = protocols;
        let reloading = Reloading::new(when, move || set_up(&config, protocols.clone()).map(Arc::new))?;
        Ok(ClientTls(Arc::new(reloading)))
    }

    /// Returns the configuration for the next connection.
    pub fn current(&self) -> Arc<ClientConfig> {
        self.0.current()
    }
}

fn set_up(config: &ClientTlsConfig, protocols: Vec<Vec<u8>>) -> Result<ClientConfig, TlsError> {
    let common = config.common.parts();
    let provider = common.provider()?;
    let versions = names::versions(common.min_version, common.max_version).map_err(TlsError::Value)?;
    let builder = ClientConfig::builder_with_provider(provider.clone()).with_protocol_versions(&versions)?;
    let builder = if config.insecure_skip_verify {
        builder.dangerous().with_custom_certificate_verifier(Arc::new(AcceptAny(provider)))
    } else {
        builder.with_root_certificates(common.authorities()?)
    };
    let mut client = match common.identity()? {
        None => builder.with_no_client_auth(),
        Some((chain, key)) => builder.with_client_auth_cert(chain, key)?,
    };
    client.alpn_protocols = protocols;
    Ok(client)
}

/// Accepts any certificate, for `insecure_skip_verify`; that the server has its key is still verified.
#[derive(Debug)]
struct AcceptAny(Arc<CryptoProvider>);

impl ServerCertVerifier for AcceptAny {
    fn verify_server_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, cert, signed, &self.0.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, cert, signed, &self.0.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
