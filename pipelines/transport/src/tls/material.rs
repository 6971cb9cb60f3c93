//! Certificates and keys: read from where the configuration says they are.

use std::path::PathBuf;
use std::sync::Arc;

use rustls::RootCertStore;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

use super::config::{Common, Pem};
use super::names;

/// Why TLS cannot be set up.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A file cannot be read, or is no PEM of what it should hold.
    #[error("failed to load TLS config: {what} {}: {source}", path.display())]
    File {
        /// The key that names it.
        what: &'static str,
        /// The file.
        path: PathBuf,
        /// What went wrong.
        source: pem::Error,
    },
    /// A text in the configuration is no PEM of what it should hold.
    #[error("failed to load TLS config: {what}: {source}")]
    Inline {
        /// The key.
        what: &'static str,
        /// What went wrong.
        source: pem::Error,
    },
    /// There is no certificate in what should hold some.
    #[error("failed to load TLS config: {0} holds no certificate: expected PEM with at least one")]
    NoCertificate(&'static str),
    /// The machine has no authorities, and none are configured.
    #[error("failed to load TLS config: no certificate authorities found on this machine: set tls::ca_file")]
    NoAuthorities,
    /// A value that cannot be used, of a configuration that was not checked.
    #[error("failed to load TLS config: {0}")]
    Value(String),
    /// The parts do not make a whole, such as a key that is another certificate's.
    #[error("failed to load TLS config: {0}")]
    Setup(#[from] rustls::Error),
    /// The same of the authorities for clients.
    #[error("failed to load TLS config: client_ca_file: {0}")]
    ClientAuthorities(#[from] rustls::server::VerifierBuilderError),
}

type Identity = (Vec<CertificateDer<'static>>, PrivateKeyDer<'static>);

impl Common<'_> {
    /// Who is trusted.
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

    /// Who we are, where that is configured.
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

    /// What is spoken, by the names that were given.
    pub(super) fn provider(&self) -> Result<Arc<CryptoProvider>, TlsError> {
        let suites =
            names::cipher_suites(self.cipher_suites, self.allows_insecure_suites).map_err(TlsError::Value)?;
        let groups = names::groups(self.curves).map_err(TlsError::Value)?;
        Ok(Arc::new(names::provider(suites.spoken, groups.spoken)))
    }

    /// Says once what was asked for and is not spoken here.
    pub(super) fn tell_left_out(&self) {
        let suites = names::cipher_suites(self.cipher_suites, self.allows_insecure_suites);
        let groups = names::groups(self.curves);
        for (key, names) in [
            ("cipher_suites", suites.map(|c| c.left_out).unwrap_or_default()),
            ("curve_preferences", groups.map(|c| c.left_out).unwrap_or_default()),
        ] {
            if !names.is_empty() {
                tracing::warn!(key, left_out = names.join(", "), "not spoken here, going on without");
            }
        }
        if names::allows_unspoken(self.min_version) {
            tracing::warn!(min_version = self.min_version, "TLS below 1.2 is not spoken here");
        }
    }
}

/// The authorities in one place, at least one.
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
