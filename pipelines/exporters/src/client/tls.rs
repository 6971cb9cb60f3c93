//! The section `tls` of a client, and rustls set up by it.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};
use serde::Deserialize;

/// The section `tls`.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq)]
#[serde(default)]
pub struct TlsConfig {
    /// True: no TLS, unless the endpoint begins with `https`.
    pub insecure: bool,
    /// True: TLS without asking who the other side is.
    pub insecure_skip_verify: bool,
    /// Authorities to trust, as PEM, in place of the machine's.
    pub ca_file: PathBuf,
    /// The name that the other side's certificate must have, in place of the endpoint's host.
    pub server_name_override: String,
}

/// Why TLS cannot be set up.
#[derive(Debug, thiserror::Error)]
pub(crate) enum TlsError {
    #[error("tls::ca_file {path:?}: {source}")]
    CaFile { path: PathBuf, source: rustls::pki_types::pem::Error },
    #[error("tls::ca_file {0:?} holds no certificate: expected PEM with at least one")]
    NoCertificate(PathBuf),
    #[error("no certificate authorities found on this machine: set tls::ca_file")]
    NoAuthorities,
    #[error("tls: {0}")]
    Setup(#[from] rustls::Error),
}

impl TlsConfig {
    /// The name to ask for, where it is set.
    pub(crate) fn server_name(&self) -> Option<String> {
        Some(&self.server_name_override).filter(|name| !name.is_empty()).cloned()
    }

    /// Reads what the section names. `protocol` is what to speak inside: `h2` or `http/1.1`.
    pub(crate) fn open(&self, protocol: &str) -> Result<Arc<ClientConfig>, TlsError> {
        let provider = Arc::new(ring::default_provider());
        let builder =
            ClientConfig::builder_with_provider(provider.clone()).with_safe_default_protocol_versions()?;
        let mut config = if self.insecure_skip_verify {
            let trusting = Arc::new(Trusting(provider));
            builder.dangerous().with_custom_certificate_verifier(trusting).with_no_client_auth()
        } else {
            builder.with_root_certificates(self.authorities()?).with_no_client_auth()
        };
        config.alpn_protocols = vec![protocol.as_bytes().to_vec()];
        Ok(Arc::new(config))
    }

    fn authorities(&self) -> Result<RootCertStore, TlsError> {
        let is_set = !self.ca_file.as_os_str().is_empty();
        let certificates =
            if is_set { from_file(&self.ca_file)? } else { rustls_native_certs::load_native_certs().certs };
        let mut roots = RootCertStore::empty();
        let (added, _) = roots.add_parsable_certificates(certificates);
        match (added, is_set) {
            (0, true) => Err(TlsError::NoCertificate(self.ca_file.clone())),
            (0, false) => Err(TlsError::NoAuthorities),
            _ => Ok(roots),
        }
    }
}

fn from_file(path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let certificates = CertificateDer::pem_file_iter(path).and_then(Iterator::collect);
    certificates.map_err(|source| TlsError::CaFile { path: path.to_owned(), source })
}

/// Takes any certificate; that the other side holds its key is still checked.
#[derive(Debug)]
struct Trusting(Arc<CryptoProvider>);

impl ServerCertVerifier for Trusting {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
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
