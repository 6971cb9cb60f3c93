//! Certificates and keys, read from files or from the configuration.

use std::path::PathBuf;
use std::sync::Arc;

use rustls::RootCertStore;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

use super::config::{Common, Pem};
use super::names;

/// The reason why TLS cannot be set up.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A file cannot be read, or is not valid PEM of the expected kind.
    #[error("failed to load TLS config: {what} {}: {source}", path.display())]
    File {
        /// The configuration key that names the file.
        what: &'static str,
        /// Path of the file.
        path: PathBuf,
        /// Cause of the failure.
        source: pem::Error,
    },
    /// A text in the configuration is not valid PEM of the expected kind.
    #[error("failed to load TLS config: {what}: {source}")]
    Inline {
        /// The configuration key.
        what: &'static str,
        /// Cause of the failure.
        source: pem::Error,
    },
    /// A file or text contains no certificate.
    #[error("failed to load TLS config: {0} holds no certificate: expected PEM with at least one")]
    NoCertificate(&'static str),
    /// No certificate authority is configured or installed on the machine.
    #[error("failed to load TLS config: no certificate authorities found on this machine: set tls::ca_file")]
    NoAuthorities,
    /// A configured value is invalid.
    #[error("failed to load TLS config: {0}")]
    Value(String),
    /// The parts are inconsistent, such as a key that belongs to another certificate.
    #[error("failed to load TLS config: {0}")]
    Setup(#[from] rustls::Error),
    /// The authorities for client certificates are invalid.
    #[error("failed to load TLS config: client_ca_file: {0}")]
    ClientAuthorities(#[from] rustls::server::VerifierBuilderError),
}

type Identity = (Vec<CertificateDer<'static>>, PrivateKeyDer<'static>);

impl Common<'_> {
    /// Returns the trusted authorities.
    pub(super) fn authorities(&self) -> Result<RootCertStore, TlsError> {
        let mut roots = RootCertStore::empty();
        if let Some(ca) = self.ca {
            roots = authorities("ca_file or ca_pem", ca)?;
        }
        if self.ca.is_none() || self.adds_system_authorities {
            roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        }
        if roots.is_empty() { Err(TlsError::NoAuthorities) } else { Ok(roots) }
    }

    /// Returns our certificate chain and key, if configured.
    pub(super) fn identity(&self) -> Result<Option<Identity>, TlsError> {
        let (Some(certificate), Some(key)) = (self.certificate, self.key) else { return Ok(None) };
        let chain = certificates("cert_file or cert_pem", certificate)?;
        let key = match key {
            Pem::File(path) => PrivateKeyDer::from_pem_file(path).map_err(|source| TlsError::File {
                what: "key_file",
                path: path.clone(),
                source,
            }),
            Pem::Inline(text) => PrivateKeyDer::from_pem_slice(text.as_bytes())
                .map_err(|source| TlsError::Inline { what: "key_pem", source }),
        }?;
        Ok(Some((chain, key)))
    }

    /// Returns a provider with the configured cipher suites and groups.
    pub(super) fn provider(&self) -> Result<Arc<CryptoProvider>, TlsError> {
        let suites =
            names::cipher_suites(self.cipher_suites, self.allows_insecure_suites).map_err(TlsError::Value)?;
        let groups = names::groups(self.curves).map_err(TlsError::Value)?;
        Ok(Arc::new(names::provider(suites.supported, groups.supported)))
    }

    /// Warns about configured names that are not supported.
    pub(super) fn warn_of_unsupported(&self) {
        let suites = names::cipher_suites(self.cipher_suites, self.allows_insecure_suites);
        let groups = names::groups(self.curves);
        for (key, names) in [
            ("cipher_suites", suites.map(|s| s.unsupported).unwrap_or_default()),
            ("curve_preferences", groups.map(|s| s.unsupported).unwrap_or_default()),
        ] {
            if !names.is_empty() {
                tracing::warn!(key, unsupported = names.join(", "), "ignoring unsupported values");
            }
        }
        if names::allows_unsupported(self.min_version) {
            tracing::warn!(min_version = self.min_version, "TLS below 1.2 is not supported");
        }
    }
}

/// Reads at least one authority.
pub(super) fn authorities(what: &'static str, pem: Pem<'_>) -> Result<RootCertStore, TlsError> {
    let mut roots = RootCertStore::empty();
    let (added, _) = roots.add_parsable_certificates(certificates(what, pem)?);
    if added == 0 { Err(TlsError::NoCertificate(what)) } else { Ok(roots) }
}

fn certificates(what: &'static str, pem: Pem<'_>) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let read: Vec<CertificateDer<'static>> = match pem {
        Pem::File(path) => {
            let wrong = |source| TlsError::File { what, path: path.clone(), source };
            CertificateDer::pem_file_iter(path).map_err(wrong)?.collect::<Result<_, _>>().map_err(wrong)
        }
        Pem::Inline(text) => CertificateDer::pem_slice_iter(text.as_bytes())
            .collect::<Result<_, _>>()
            .map_err(|source| TlsError::Inline { what, source }),
    }?;
    if read.is_empty() { Err(TlsError::NoCertificate(what)) } else { Ok(read) }
}
