//! rustls set up for a client.

use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, SignatureScheme};

use super::config::ClientTlsConfig;
use super::material::TlsError;
use super::names;
use super::reload::{Reloading, When};

/// TLS of a client, as its files are at the time of each connection.
#[derive(Clone)]
pub struct ClientTls(Arc<Reloading<ClientConfig>>);

impl ClientTls {
    /// Reads what the section names. `protocols` are what to speak inside, the preferred first: `h2`,
    /// `http/1.1`.
    pub fn open(config: &ClientTlsConfig, protocols: &[&str]) -> Result<Self, TlsError> {
        config.common().tell_left_out();
        let when = When { age: config.common().reload_interval, ..When::default() };
        let (config, protocols) = (config.clone(), protocols.iter().map(|p| p.as_bytes().to_vec()).collect());
        let protocols: Vec<Vec<u8>> = protocols;
        let reloading = Reloading::new(when, move || set_up(&config, protocols.clone()))?;
        Ok(ClientTls(Arc::new(reloading)))
    }

    /// What to open the next connection by.
    pub fn current(&self) -> Arc<ClientConfig> {
        self.0.current()
    }
}

fn set_up(config: &ClientTlsConfig, protocols: Vec<Vec<u8>>) -> Result<ClientConfig, TlsError> {
    let common = config.common();
    let provider = common.provider()?;
    let versions = names::versions(common.min_version, common.max_version).map_err(TlsError::Value)?;
    let builder = ClientConfig::builder_with_provider(provider.clone()).with_protocol_versions(&versions)?;
    let builder = if config.insecure_skip_verify {
        builder.dangerous().with_custom_certificate_verifier(Arc::new(Trusting(provider)))
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

/// Believes any certificate, as `insecure_skip_verify` asks; that the other side has its key is still checked.
#[derive(Debug)]
struct Trusting(Arc<CryptoProvider>);

impl ServerCertVerifier for Trusting {
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
