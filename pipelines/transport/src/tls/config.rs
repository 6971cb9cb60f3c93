//! The sections `tls` of a client and of a server: the Collector's keys, and their checks.

use std::path::PathBuf;
use std::time::Duration;

use config::{GoDuration, Problems, Secret};

use super::names;

config::section! {
    /// The keys that the sections `tls` of clients and of servers have in common.
    #[derive(Clone, Debug, PartialEq)]
    pub struct CommonTlsConfig {
        /// PEM file of the certificate authorities to trust instead of those of the system.
        pub ca_file: PathBuf,
        /// Certificate authorities as PEM text instead of a file.
        pub ca_pem: Secret,
        /// Whether the authorities of the system are trusted in addition.
        pub include_system_ca_certs_pool: bool,
        /// PEM file of the own certificate and its intermediates.
        pub cert_file: PathBuf,
        /// Own certificate as PEM text instead of a file.
        pub cert_pem: Secret,
        /// PEM file of the private key of the own certificate.
        pub key_file: PathBuf,
        /// Private key as PEM text instead of a file.
        pub key_pem: Secret,
        /// Lowest TLS version. Empty is 1.2.
        pub min_version: String,
        /// Highest TLS version. Empty is the highest supported one.
        pub max_version: String,
        /// Cipher suites of TLS 1.2, by Go's names. Empty allows all secure ones.
        pub cipher_suites: Vec<String>,
        /// Whether `cipher_suites` may name suites that Go calls insecure. None of them is ever used.
        pub include_insecure_cipher_suites: bool,
        /// Key exchange groups by Go's names, the preferred first. Empty allows all.
        pub curve_preferences: Vec<String>,
        /// Interval at which certificate files are read again. 0 reads them once.
        pub reload_interval: GoDuration,
        /// Private key in a TPM.
        pub tpm: TpmConfig => unused "keys in a TPM are not supported",
    }

    /// The section `tls` of a client.
    #[derive(Clone, Debug, PartialEq)]
    pub struct ClientTlsConfig {
        ..common: CommonTlsConfig,
        /// Whether TLS is off, unless the endpoint begins with `https` or authorities are set.
        pub insecure: bool,
        /// Whether the certificate of the server is accepted unverified.
        pub insecure_skip_verify: bool,
        /// Name that the certificate of the server must have. Empty is the host of the endpoint.
        pub server_name_override: String,
    }

    /// The section `tls` of a server.
    #[derive(Clone, Debug, PartialEq)]
    pub struct ServerTlsConfig {
        ..common: CommonTlsConfig,
        /// PEM file of the authorities that must have signed a client's certificate. Empty requires none.
        pub client_ca_file: PathBuf,
        /// Whether `client_ca_file` is read again when it changes.
        pub client_ca_file_reload: bool,
    }

    /// The section `tpm`, accepted so that the Collector's files may switch it off.
    #[derive(Clone, Debug, PartialEq)]
    pub struct TpmConfig {
        /// Whether the key is in a TPM. True is refused.
        pub enabled: bool,
        /// Path of the TPM device.
        pub path: String,
        /// Authorization of the owner hierarchy.
        pub owner_auth: Secret,
        /// Authorization of the key.
        pub auth: Secret,
    }
}

impl CommonTlsConfig {
    /// Returns the common keys of both kinds of sections.
    pub(super) fn parts(&self) -> Common<'_> {
        Common {
            ca: Pem::of(&self.ca_file, &self.ca_pem),
            certificate: Pem::of(&self.cert_file, &self.cert_pem),
            key: Pem::of(&self.key_file, &self.key_pem),
            adds_system_authorities: self.include_system_ca_certs_pool,
            min_version: &self.min_version,
            max_version: &self.max_version,
            cipher_suites: &self.cipher_suites,
            allows_insecure_suites: self.include_insecure_cipher_suites,
            curves: &self.curve_preferences,
            reload_interval: Some(*self.reload_interval).filter(|d| !d.is_zero()),
        }
    }

    fn check_common(&self, path: &str, problems: &mut Problems<'_>) {
        let both = |file: &PathBuf, pem: &Secret| !file.as_os_str().is_empty() && !pem.reveal().is_empty();
        let common = self.parts();
        for (wrong, message) in [
            (
                both(&self.ca_file, &self.ca_pem),
                "provide either a CA file or the PEM-encoded string, but not both",
            ),
            (both(&self.cert_file, &self.cert_pem), "provide either certificate file or PEM, but not both"),
            (both(&self.key_file, &self.key_pem), "provide either key file or PEM, but not both"),
            (
                common.certificate.is_some() != common.key.is_some(),
                "TLS configuration must include both certificate and key (cert_file/cert_pem and key_file/key_pem)",
            ),
            (self.tpm.enabled, "tpm::enabled is true, but keys in a TPM are not supported"),
        ] {
            problems.require(!wrong, path, message);
        }
        common.check_names(path, problems);
    }
}

impl ClientTlsConfig {
    /// Checks the values of the section at `path`.
    pub fn check(&self, path: &str, problems: &mut Problems<'_>) {
        self.common.check_common(path, problems);
    }

    /// Returns the server name to verify, if configured.
    pub fn server_name(&self) -> Option<String> {
        Some(&self.server_name_override).filter(|name| !name.is_empty()).cloned()
    }

    /// Returns whether TLS is used: `https` and configured authorities override `insecure`.
    pub fn protects(&self, is_https: bool) -> bool {
        is_https || !self.insecure || self.common.parts().ca.is_some()
    }
}

impl ServerTlsConfig {
    /// Checks the values of the section at `path`.
    pub fn check(&self, path: &str, problems: &mut Problems<'_>) {
        self.common.check_common(path, problems);
        let common = self.common.parts();
        problems.require(common.certificate.is_some() || common.key.is_some(), path, {
            "TLS configuration must include both certificate and key for server connections"
        });
    }
}

/// A source of PEM text.
#[derive(Clone, Copy, Debug)]
pub(super) enum Pem<'a> {
    File(&'a PathBuf),
    Inline(&'a str),
}

impl<'a> Pem<'a> {
    fn of(file: &'a PathBuf, pem: &'a Secret) -> Option<Self> {
        match (file.as_os_str().is_empty(), pem.reveal()) {
            (false, _) => Some(Pem::File(file)),
            (true, "") => None,
            (true, pem) => Some(Pem::Inline(pem)),
        }
    }
}

/// The keys that clients and servers have in common.
pub(super) struct Common<'a> {
    pub(super) ca: Option<Pem<'a>>,
    pub(super) certificate: Option<Pem<'a>>,
    pub(super) key: Option<Pem<'a>>,
    pub(super) adds_system_authorities: bool,
    pub(super) min_version: &'a str,
    pub(super) max_version: &'a str,
    pub(super) cipher_suites: &'a [String],
    pub(super) allows_insecure_suites: bool,
    pub(super) curves: &'a [String],
    pub(super) reload_interval: Option<Duration>,
}

impl Common<'_> {
    fn check_names(&self, path: &str, problems: &mut Problems<'_>) {
        let key = |key: &str| format!("{path}::{key}");
        if let Err(e) = names::versions(self.min_version, self.max_version) {
            problems.add(path, e);
        }
        if let Err(e) = names::cipher_suites(self.cipher_suites, self.allows_insecure_suites) {
            problems.add(&key("cipher_suites"), e);
        }
        if let Err(e) = names::groups(self.curves) {
            problems.add(&key("curve_preferences"), e);
        }
    }
}
