//! The sections `tls` of a client and of a server: the Collector's keys, and what it refuses in them.

use std::path::PathBuf;
use std::time::Duration;

use config::{GoDuration, Problems, Secret};
use serde::Deserialize;

use super::names;

/// Both sections have most of their keys in common. serde's `flatten` would lose the strictness of the decoder.
macro_rules! sections {
    ($($(#[$doc:meta])* $section:ident { $($(#[$key_doc:meta])* $key:ident: $type:ty,)* })*) => {$(
        $(#[$doc])*
        #[derive(Clone, Debug, Default, Deserialize, PartialEq)]
        #[serde(default)]
        pub struct $section {
            $($(#[$key_doc])* pub $key: $type,)*
            /// Authorities to trust, as a file of PEM, in place of the machine's.
            pub ca_file: PathBuf,
            /// The same, as PEM in the configuration.
            pub ca_pem: Secret,
            /// True: the machine's authorities are trusted as well.
            pub include_system_ca_certs_pool: bool,
            /// Our certificate and those between it and its authority, as a file of PEM.
            pub cert_file: PathBuf,
            /// The same, as PEM in the configuration.
            pub cert_pem: Secret,
            /// Our certificate's key, as a file of PEM.
            pub key_file: PathBuf,
            /// The same, as PEM in the configuration.
            pub key_pem: Secret,
            /// The lowest version to speak; empty is 1.2.
            pub min_version: String,
            /// The highest version to speak; empty is the highest there is.
            pub max_version: String,
            /// Cipher suites of TLS 1.2, by Go's names; empty are all that are sound.
            pub cipher_suites: Vec<String>,
            /// True: suites that Go calls insecure may be named. None of them is ever used.
            pub include_insecure_cipher_suites: bool,
            /// Groups for the exchange of keys, by Go's names, the preferred first; empty are all.
            pub curve_preferences: Vec<String>,
            /// How old what was read from files may become; 0: it is read once.
            pub reload_interval: GoDuration,
            /// Keys in a TPM.
            pub tpm: TpmConfig,
        }

        impl $section {
            /// What both sections have.
            pub(super) fn common(&self) -> Common<'_> {
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
                let common = self.common();
                for (wrong, message) in [
                    (
                        both(&self.ca_file, &self.ca_pem),
                        "provide either a CA file or the PEM-encoded string, but not both",
                    ),
                    (
                        both(&self.cert_file, &self.cert_pem),
                        "provide either certificate file or PEM, but not both",
                    ),
                    (
                        both(&self.key_file, &self.key_pem),
                        "provide either key file or PEM, but not both",
                    ),
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
    )*};
}

sections! {
    /// The section `tls` of a client.
    ClientTlsConfig {
        /// True: no TLS, unless the endpoint begins with `https` or authorities are given.
        insecure: bool,
        /// True: TLS without asking who the other side is.
        insecure_skip_verify: bool,
        /// The name that the other side's certificate must have, in place of the endpoint's host.
        server_name_override: String,
    }
    /// The section `tls` of a server.
    ServerTlsConfig {
        /// Authorities one of which must have signed the certificate that a client has to show; empty: none is asked for.
        client_ca_file: PathBuf,
        /// True: the file is read again when it changes.
        client_ca_file_reload: bool,
    }
}

/// The section `tpm`: there for the Collector's files that switch it off.
#[derive(Clone, Debug, Default, Deserialize, PartialEq)]
#[serde(default)]
pub struct TpmConfig {
    /// True is refused.
    pub enabled: bool,
    /// Unused.
    pub path: String,
    /// Unused.
    pub owner_auth: Secret,
    /// Unused.
    pub auth: Secret,
}

impl ClientTlsConfig {
    /// Checks the values of the section at `path`.
    pub fn check(&self, path: &str, problems: &mut Problems<'_>) {
        self.check_common(path, problems);
    }

    /// The name to ask for, where it is set.
    pub fn server_name(&self) -> Option<String> {
        Some(&self.server_name_override).filter(|name| !name.is_empty()).cloned()
    }

    /// True unless plain text was asked for: `https` wins over `insecure`, and so do authorities.
    pub fn protects(&self, is_https: bool) -> bool {
        is_https || !self.insecure || self.common().ca.is_some()
    }
}

impl ServerTlsConfig {
    /// Checks the values of the section at `path`.
    pub fn check(&self, path: &str, problems: &mut Problems<'_>) {
        self.check_common(path, problems);
        let common = self.common();
        problems.require(common.certificate.is_some() || common.key.is_some(), path, {
            "TLS configuration must include both certificate and key for server connections"
        });
    }
}

/// Something in PEM, and where it is.
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

/// What clients and servers set up alike.
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
